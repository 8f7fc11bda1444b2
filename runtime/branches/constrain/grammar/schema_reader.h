// SchemaReader: how a JSON schema is turned into a grammar.
//
// A place of a document may be under several schemas at once: those that $ref, allOf and a branch of anyOf bring in.
// They are its parts, in the document's order, and the place's values satisfy all of them. Places with the same parts
// share one expression, so recursion ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>

#include "platform/status.h"
#include "platform/views.h"
#include "runtime/branches/constrain/grammar/grammar.h"
#include "runtime/branches/constrain/grammar/json_grammar.h"
#include "runtime/branches/constrain/grammar/json_reader.h"
#include "runtime/branches/constrain/grammar/schema_keywords.h"

namespace ocellus {

/// A schema of a place.
struct SchemaPart {
  int32_t node = kNoJson;
  // A branch of these was chosen and is a part of its own.
  bool has_any_of = false, has_one_of = false;
  bool operator==(const SchemaPart&) const = default;
};

struct SchemaParts {
  SchemaPart* at = nullptr;
  int32_t count = 0;
  const SchemaPart* begin() const { return at; }
  const SchemaPart* end() const { return at + count; }
};

/// Bounds of a count, with the keywords that set them.
struct CountRange {
  int32_t least = 0, most = kUnbounded;
  int32_t least_node = kNoJson, most_node = kNoJson;
};

/// Memory that is never given back.
class SchemaMemory {
 public:
  explicit SchemaMemory(HostView<std::byte> memory) : memory_(memory) {}
  /// kFull if there is too little.
  template <class T>
  Status take(int64_t count, T** out) {
    const int64_t bytes = (count * static_cast<int64_t>(sizeof(T)) + 7) / 8 * 8;
    if (memory_.cols - used_ < bytes)
      return OCELLUS_FAIL(Code::kFull, "the schema is too large for the memory of a constraint, %lld bytes",
                          static_cast<long long>(memory_.cols));
    *out = reinterpret_cast<T*>(memory_.data + used_);
    for (int64_t i = 0; i < count; ++i) new (*out + i) T();
    used_ += bytes;
    return {};
  }
  /// Bytes at the beginning of the rest, as they are.
  void keep(int64_t bytes) { used_ += bytes / 8 * 8; }
  HostView<std::byte> rest() const { return {memory_.data + used_, 1, memory_.cols - used_}; }
  void give_back(int64_t bytes) { used_ -= bytes / 8 * 8; }

 private:
  HostView<std::byte> memory_;
  int64_t used_ = 0;
};

struct NumberRange;
class TextAutomata;
struct Automaton;

/// Conditions on the characters of one string, which hold together.
struct StringRules {
  static constexpr int32_t kMaxForms = 16;
  int32_t forms[kMaxForms] = {};  // pattern and format, each text once
  int32_t form_count = 0;
  CountRange lengths;

  bool has_lengths() const { return lengths.least > 0 || lengths.most != kUnbounded; }
  bool any() const { return form_count > 0 || has_lengths(); }
};

class SchemaReader {
 public:
  SchemaReader(const JsonDocument& document, JsonSpaces spaces, Grammar* grammar)
      : document_(document), grammar_(*grammar), json_(grammar, spaces), memory_(document.free_memory()) {}

  Status read(Expression* out);

  /// The values that satisfy all of the schemas, which stand at one place within an array or object.
  Status add_place(const int32_t* nodes, int32_t count, Expression* out);
  /// A node's value in its canonical spelling.
  Status add_constant(int32_t node, Expression* out);

  const JsonDocument& document() const { return document_; }
  const JsonNode& node(int32_t index) const { return document_.node(index); }
  Grammar& grammar() { return grammar_; }
  JsonGrammar& json() { return json_; }
  SchemaMemory& memory() { return memory_; }
  /// Fails if a part has a keyword that is about the types and is not read.
  Status refuse_keywords(const SchemaParts& parts, uint8_t types);
  /// Without a `type` they are those that the keywords are about.
  Status read_types(const SchemaParts& parts, uint8_t* types);
  /// Number of the patterns' \p{...} so far.
  int* categories() { return &categories_; }
  /// kUnsupported once the values of enum and const took too many steps to compare, those at all places together.
  Status spend(int32_t place, int64_t steps);
  /// Schemas that no value satisfies, {"not": {}} too, and that all do.
  bool is_false(int32_t index) const;
  bool is_true(int32_t index) const;
  /// Tells whether a condition holds for all values, as far as it and those beside it show.
  bool is_harmless(int32_t keyword) const;

  /// kUnsupported and kBadArgument, "PLACE: WHAT".
  Status refuse(int32_t place, const char* what) const;
  Status reject(int32_t place, const char* what) const;
  /// kBadArgument, "no value satisfies PLACE: WHY"; a branch of an anyOf that fails so is left out.
  Status no_value(int32_t place, const char* why);
  /// A whole number below 2^31 - 1.
  Status read_count(int32_t index, int32_t* out) const;
  /// The tightest bounds that the parts have by two keywords; fails if they exclude each other.
  Status read_counts(const SchemaParts& parts, std::string_view least, std::string_view most, CountRange* out);

 private:
  struct Place;
  struct Edge;

  Status add_parts(const SchemaParts& parts, Expression* out);
  Status find_place(const SchemaParts& parts, Place** out);
  Status fill(Place* place);
  Status add_values(const SchemaParts& parts, Expression* out);
  Status add_branches(const SchemaParts& parts, int32_t chosen, int32_t list, Expression* out);
  Status add_branch(const SchemaParts& parts, int32_t chosen, int32_t branch, Expression* out);
  Status add_types(const SchemaParts& parts, Expression* out);
  Status check_recursion();
  Status find_loop(Place* start);

  Status read_type(int32_t index, uint8_t* types);

  const JsonDocument& document_;
  Grammar& grammar_;
  JsonGrammar json_;
  SchemaMemory memory_;
  Place** table_ = nullptr;
  Place* building_ = nullptr;
  Place *all_ = nullptr, *waiting_ = nullptr;
  int depth_ = 0, categories_ = 0;
  int64_t steps_ = 0;
  bool is_empty_ = false;
};

Status find_string_rules(SchemaReader& reader, const SchemaParts& parts, StringRules* out);
/// The strings themselves, not as JSON spells them: those that a pattern is found in, and those that all rules hold
/// for. Where characters are counted, at most 256 above the least number.
Status make_pattern(SchemaReader& reader, std::string_view pattern, int32_t place, TextAutomata* automata,
                    Automaton* out);
Status make_strings(SchemaReader& reader, const StringRules& rules, TextAutomata* automata, Automaton* out);

/// Parts without a choice left, of one type.
Status add_object_type(SchemaReader& reader, const SchemaParts& parts, Expression* out);
Status add_array_type(SchemaReader& reader, const SchemaParts& parts, Expression* out);
Status add_string_type(SchemaReader& reader, const SchemaParts& parts, Expression* out);
Status add_number_type(SchemaReader& reader, const SchemaParts& parts, bool has_fractions, Expression* out);
/// Bounds of the parts' numbers, and in *bound one keyword that sets one, kNoJson if there is none.
Status read_number_range(SchemaReader& reader, const SchemaParts& parts, NumberRange* range, int32_t* bound);
/// Nodes of values.
struct ConstantList {
  int32_t* at = nullptr;
  int32_t count = 0;
};
/// Values of the parts' enum or const that are of the types and satisfy the rest; *has_any: there is an enum or const.
Status find_constants(SchemaReader& reader, const SchemaParts& parts, uint8_t types, bool* has_any, ConstantList* out);
/// Adds them.
Status add_constants(SchemaReader& reader, const SchemaParts& parts, uint8_t types, bool* has_any, Expression* out);

}  // namespace ocellus
