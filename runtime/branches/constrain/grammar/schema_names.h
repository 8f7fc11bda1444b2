// NameRules: which names the members of an object may have, by propertyNames and patternProperties.
#pragma once

#include "runtime/branches/constrain/grammar/automaton.h"
#include "runtime/branches/constrain/grammar/schema_reader.h"

namespace ocellus {

class NameRules {
 public:
  static constexpr int32_t kMaxPatterns = 8;
  /// In place of a pattern: names that match none.
  static constexpr int32_t kOther = -1;

  NameRules(SchemaReader& reader, const SchemaParts& parts) : reader_(reader), parts_(parts) {}
  Status find();

  /// A keyword that forbids names.
  int32_t place() const { return place_; }
  bool is_none() const { return is_none_; }
  /// The names are those of an enum or const, strings that satisfy the rest.
  bool is_list() const { return is_list_; }
  const ConstantList& listed() const { return listed_; }
  bool allows(std::string_view name) const;

  int32_t pattern_count() const { return pattern_count_; }
  /// Number of the part that has patternProperties.
  int32_t pattern_part() const { return pattern_part_; }
  int32_t pattern_schema(int32_t pattern) const { return schemas_[pattern]; }
  bool matches(int32_t pattern, std::string_view name) const;

  /// Names are told by automata, so that those that are not listed are add_others().
  bool has_automata() const { return has_strings_ || pattern_count_ > 0; }
  /// Adds the names, quotes included, that match the pattern and no other one, without those given; kNoExpression if
  /// there are none.
  Status add_others(int32_t pattern, const std::string_view* names, int32_t count, Expression* out);

 private:
  Status find_names();
  Status find_patterns();
  Status check_evaluated() const;

  SchemaReader& reader_;
  const SchemaParts& parts_;
  int32_t place_ = kNoJson;
  bool is_none_ = false, is_list_ = false, has_strings_ = false;
  ConstantList listed_;
  StringRules rules_;
  Automaton strings_;  // all names that propertyNames allows, if it has_strings_
  int32_t pattern_count_ = 0, pattern_part_ = 0;
  int32_t schemas_[kMaxPatterns] = {};
  Automaton patterns_[kMaxPatterns];
};

}  // namespace ocellus
