#include "runtime/branches/constrain/grammar/schema_names.h"

#include <algorithm>

#include "runtime/branches/constrain/grammar/schema_parts.h"
#include "runtime/branches/constrain/grammar/text_automata.h"

namespace ocellus {

Status NameRules::find() {
  OCELLUS_TRY(check_evaluated());
  OCELLUS_TRY(find_names());
  OCELLUS_TRY(find_patterns());
  if (!has_strings_ && pattern_count_ == 0) return {};
  TextAutomata automata(&reader_.grammar(), reader_.memory().rest());
  if (has_strings_) OCELLUS_TRY(make_strings(reader_, rules_, &automata, &strings_));
  for (int32_t p = 0; p < pattern_count_; ++p)
    OCELLUS_TRY(make_pattern(reader_, reader_.node(schemas_[p]).name, schemas_[p], &automata, &patterns_[p]));
  reader_.memory().keep(automata.used_bytes());
  return {};
}

/// Beside schemas that hold at the same place, what is evaluated is not in one place.
Status NameRules::check_evaluated() const {
  for (const SchemaPart& part : parts_) {
    const int32_t unevaluated = reader_.document().find(part.node, "unevaluatedProperties");
    if (unevaluated == kNoJson || reader_.is_harmless(unevaluated)) continue;
    for (const char* applied : {"$ref", "allOf", "anyOf", "oneOf"})
      if (reader_.document().find(part.node, applied) != kNoJson)
        return reader_.refuse(unevaluated, "write additionalProperties beside all properties");
  }
  return {};
}

Status NameRules::find_names() {
  PartsCollector names(reader_);
  OCELLUS_TRY(names.begin());
  for (const SchemaPart& part : parts_) {
    const int32_t schema = reader_.document().find(part.node, "propertyNames");
    if (schema == kNoJson) continue;
    place_ = schema;
    is_none_ = is_none_ || reader_.is_false(schema);
    if (!is_none_) OCELLUS_TRY(names.visit(schema));
  }
  const SchemaParts all = names.end();
  if (all.count == 0 || is_none_) return {};
  for (const SchemaPart& part : all)
    for (const char* choice : {"anyOf", "oneOf"})
      if (const int32_t index = reader_.document().find(part.node, choice); index != kNoJson)
        return reader_.refuse(index, "write enum, const, pattern, format, minLength and maxLength for names");
  uint8_t types = kNoType;
  OCELLUS_TRY(reader_.read_types(all, &types));
  is_none_ = (types & kStringType) == 0;
  if (is_none_) return {};
  OCELLUS_TRY(reader_.refuse_keywords(all, kStringType));
  OCELLUS_TRY(find_constants(reader_, all, kStringType, &is_list_, &listed_));
  if (is_list_) return {};
  OCELLUS_TRY(find_string_rules(reader_, all, &rules_));
  has_strings_ = rules_.any();
  return {};
}

Status NameRules::find_patterns() {
  for (int32_t p = 0; p < parts_.count; ++p) {
    const int32_t patterns = reader_.document().find(parts_.at[p].node, "patternProperties");
    if (patterns == kNoJson || reader_.is_harmless(patterns)) continue;
    if (reader_.node(patterns).kind != JsonKind::kObject)
      return reader_.reject(patterns, "this is no object of schemas");
    if (pattern_count_ > 0) return reader_.refuse(patterns, "write all patternProperties of one place in one schema");
    if (reader_.node(patterns).count > kMaxPatterns) return reader_.refuse(patterns, "write 8 patterns at most");
    pattern_part_ = p;
    for (int32_t m = reader_.node(patterns).first; m != kNoJson; m = reader_.node(m).next)
      schemas_[pattern_count_++] = m;
  }
  return {};
}

bool NameRules::allows(std::string_view name) const {
  if (is_none_) return false;
  if (has_strings_) return accepts(strings_, name);
  return !is_list_ || std::any_of(listed_.at, listed_.at + listed_.count,
                                  [&](int32_t value) { return reader_.node(value).text == name; });
}

bool NameRules::matches(int32_t pattern, std::string_view name) const { return accepts(patterns_[pattern], name); }

Status NameRules::add_others(int32_t pattern, const std::string_view* names, int32_t count, Expression* out) {
  Grammar& g = reader_.grammar();
  *out = kNoExpression;
  if (is_none_ || is_list_) return {};
  TextAutomata automata(&g, reader_.memory().rest());
  Automaton all, next;
  if (has_strings_)
    all = strings_;
  else
    OCELLUS_TRY(make_pattern(reader_, "", parts_.at[0].node, &automata, &all));
  for (int32_t p = 0; p < pattern_count_; ++p) {
    OCELLUS_TRY(p == pattern ? automata.join(all, patterns_[p], &next) : automata.subtract(all, patterns_[p], &next));
    all = next;
  }
  const auto first = static_cast<Expression>(g.unit_count());
  ExpressionList list;
  for (int32_t i = 0; i < count; ++i) g.append(&list, g.text(names[i]));
  const Expression listed = g.choice(list);
  OCELLUS_TRY(g.status());
  Automaton given, left, spelled;
  OCELLUS_TRY(automata.make(listed, first, &given));
  OCELLUS_TRY(automata.subtract(all, given, &left));
  OCELLUS_TRY(automata.spell_json(left, &spelled));
  if (spelled.state_count == 0) return {};
  *out = g.sequence(g.text("\""), g.sequence(g.automaton(spelled), g.text("\"")));
  return g.status();
}

}  // namespace ocellus
