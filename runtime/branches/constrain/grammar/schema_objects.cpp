// Objects: properties, patternProperties, propertyNames, required, additionalProperties, minProperties, maxProperties.
#include <algorithm>

#include "runtime/branches/constrain/grammar/schema_names.h"

namespace ocellus {
namespace {

/// Maximum of members times counts, where members are counted.
constexpr int64_t kMaxCounted = 1 << 16;

struct Property {
  std::string_view name;
  int32_t place = kNoJson;  // the node that names it first
  bool is_required = false;
  Expression member = kNoExpression;  // kNoExpression if there is none
};

class ObjectBuilder {
 public:
  ObjectBuilder(SchemaReader& reader, const SchemaParts& parts)
      : reader_(reader), parts_(parts), names_(reader, parts) {}

  Status build(Expression* out) {
    OCELLUS_TRY(reader_.read_counts(parts_, "minProperties", "maxProperties", &counts_));
    OCELLUS_TRY(names_.find());
    OCELLUS_TRY(list_properties());
    OCELLUS_TRY(reader_.memory().take(parts_.count + NameRules::kMaxPatterns, &schemas_));
    OCELLUS_TRY(add_additional());
    for (int32_t i = 0; i < count_; ++i) OCELLUS_TRY(add_member(&properties_[i]));
    const auto is_absent = [](const Property& property) { return property.member == kNoExpression; };
    count_ = static_cast<int32_t>(std::remove_if(properties_, properties_ + count_, is_absent) - properties_);
    OCELLUS_TRY(check_counts());
    Expression members = kNoExpression;
    OCELLUS_TRY(add_members(&members));
    Grammar& g = reader_.grammar();
    *out = g.sequence(reader_.json().open('{'), g.sequence(members, reader_.json().close('}')));
    return g.status();
  }

 private:
  int32_t find(const SchemaPart& part, std::string_view keyword) const {
    return reader_.document().find(part.node, keyword);
  }

  Status list_properties() {
    int64_t most = 0;
    for (const SchemaPart& part : parts_) {
      const int32_t properties = find(part, "properties"), required = find(part, "required");
      if (properties != kNoJson && reader_.node(properties).kind != JsonKind::kObject)
        return reader_.reject(properties, "this is no object of schemas");
      if (required != kNoJson && reader_.node(required).kind != JsonKind::kArray)
        return reader_.reject(required, "this is no list of names");
      most += properties == kNoJson ? 0 : reader_.node(properties).count;
      most += required == kNoJson ? 0 : reader_.node(required).count;
    }
    most += names_.listed().count;
    if (most > kMaxJsonMembers) return reader_.refuse(parts_.at[0].node, "an object of more than 4096 properties");
    OCELLUS_TRY(reader_.memory().take(most, &properties_));
    for (const SchemaPart& part : parts_) {
      const int32_t properties = find(part, "properties");
      has_properties_ = has_properties_ || properties != kNoJson;
      int32_t m = properties == kNoJson ? kNoJson : reader_.node(properties).first;
      for (; m != kNoJson; m = reader_.node(m).next) find_property(reader_.node(m).name, m);
    }
    OCELLUS_TRY(list_required());
    find_additional();
    if (!has_additional_ || !names_.is_list()) return reader_.grammar().status();
    has_additional_ = false;  // all that may come are known
    for (int32_t i = 0; i < names_.listed().count; ++i)
      find_property(reader_.node(names_.listed().at[i]).text, names_.listed().at[i]);
    return reader_.grammar().status();
  }

  /// Without any additionalProperties, listed properties and those of patterns are all there are.
  void find_additional() {
    bool is_stated = false, is_allowed = !names_.is_none();
    for (const SchemaPart& part : parts_) {
      const int32_t schema = additional_of(part);
      is_stated = is_stated || schema != kNoJson;
      is_allowed = is_allowed && (schema == kNoJson || !reader_.is_false(schema));
    }
    has_additional_ = is_allowed && (is_stated || !(has_properties_ || names_.pattern_count() > 0));
  }

  Status list_required() {
    for (const SchemaPart& part : parts_) {
      const int32_t required = find(part, "required");
      int32_t i = required == kNoJson ? kNoJson : reader_.node(required).first;
      for (; i != kNoJson; i = reader_.node(i).next) {
        if (reader_.node(i).kind != JsonKind::kString) return reader_.reject(i, "a name is a string");
        find_property(reader_.node(i).text, i).is_required = true;
      }
    }
    return reader_.grammar().status();
  }

  Property& find_property(std::string_view name, int32_t place) {
    reader_.grammar().spend(1 + count_);
    Property* const end = properties_ + count_;
    Property* const found = std::find_if(properties_, end, [&](const Property& p) { return p.name == name; });
    if (found == end) {
      *found = {.name = name, .place = place};
      ++count_;
    }
    return *found;
  }

  int32_t additional_of(const SchemaPart& part) const {
    const int32_t schema = find(part, "additionalProperties");
    return schema != kNoJson ? schema : find(part, "unevaluatedProperties");
  }

  /// Members whose names are not listed: of each pattern, and others.
  Status add_additional() {
    if (counts_.most == 0) return {};
    ExpressionList members;
    Expression member = kNoExpression;
    for (int32_t p = 0; p < names_.pattern_count(); ++p) {
      OCELLUS_TRY(add_additional_of(p, &member));
      if (member != kNoExpression) reader_.grammar().append(&members, member);
    }
    if (has_additional_) {
      OCELLUS_TRY(add_additional_of(NameRules::kOther, &member));
      if (member != kNoExpression) reader_.grammar().append(&members, member);
    }
    has_additional_ = members.count > 0;
    if (has_additional_) additional_ = reader_.grammar().choice(members);
    return reader_.grammar().status();
  }

  /// kNoExpression if there are none.
  Status add_additional_of(int32_t pattern, Expression* out) {
    *out = kNoExpression;
    int32_t count = 0;
    for (int32_t p = 0; p < parts_.count; ++p) {
      const bool is_its = pattern != NameRules::kOther && p == names_.pattern_part();
      const int32_t schema = is_its ? names_.pattern_schema(pattern) : additional_of(parts_.at[p]);
      if (schema == kNoJson) continue;
      if (reader_.is_false(schema)) return {};
      schemas_[count++] = schema;
    }
    Expression name = kNoExpression, value = kNoExpression;
    OCELLUS_TRY(add_additional_name(pattern, &name));
    if (name == kNoExpression) return reader_.grammar().status();
    OCELLUS_TRY(reader_.add_place(schemas_, count, &value));
    *out = join(name, value);
    return reader_.grammar().status();
  }

  Status add_additional_name(int32_t pattern, Expression* out) {
    if (count_ == 0 && !names_.has_automata()) return *out = reader_.json().string(0, kUnbounded), Status();
    std::string_view* names = nullptr;
    OCELLUS_TRY(reader_.memory().take(count_, &names));
    int32_t count = 0;
    const auto is_escaped = [](char c) { return static_cast<uint8_t>(c) < 0x20 || c == '"' || c == '\\'; };
    for (int32_t i = 0; i < count_; ++i) {
      const std::string_view name = properties_[i].name;
      if (names_.has_automata() || std::none_of(name.begin(), name.end(), is_escaped)) names[count++] = name;
    }
    if (names_.has_automata()) return names_.add_others(pattern, names, count, out);
    std::sort(names, names + count);
    *out = reader_.json().string_other_than(names, count);
    return reader_.grammar().status();
  }

  Expression join(Expression name, Expression value) {
    Grammar& g = reader_.grammar();
    return g.sequence(name, g.sequence(reader_.json().colon(), value));
  }

  /// Writes the schemas of a property to schemas_. Returns what forbids it, kNoJson if nothing does.
  int32_t find_schemas(const Property& property, int32_t* count) {
    if (!names_.allows(property.name)) return names_.place();
    int32_t forbidden = kNoJson;
    const auto add = [&](int32_t schema) {
      if (reader_.is_false(schema))
        forbidden = schema;
      else
        schemas_[(*count)++] = schema;
    };
    for (int32_t p = 0; p < parts_.count; ++p) {
      const int32_t properties = find(parts_.at[p], "properties");
      const int32_t own = properties == kNoJson ? kNoJson : reader_.document().find(properties, property.name);
      bool is_known = own != kNoJson;
      if (is_known) add(own);
      for (int32_t pattern = 0; pattern < names_.pattern_count() && p == names_.pattern_part(); ++pattern) {
        if (!names_.matches(pattern, property.name)) continue;
        add(names_.pattern_schema(pattern));
        is_known = true;
      }
      const int32_t additional = is_known ? kNoJson : additional_of(parts_.at[p]);
      if (additional != kNoJson) add(additional);
    }
    return forbidden;
  }

  /// The property's member, none if one of its schemas is false.
  Status add_member(Property* property) {
    if (!reader_.grammar().spend(8 * parts_.count)) return reader_.grammar().status();
    int32_t count = 0;
    const int32_t forbidden = find_schemas(*property, &count);
    if (forbidden != kNoJson && !property->is_required) return {};
    if (forbidden != kNoJson) return reader_.no_value(forbidden, "a required property is not allowed");
    const HostView<std::byte> room = reader_.memory().rest();
    char* const text = reinterpret_cast<char*>(room.data);
    const int64_t bytes = write_json_string(property->name, text, room.cols);
    if (bytes < 0) return OCELLUS_FAIL(Code::kFull, "the memory of a constraint is too small for a name");
    const Expression name = reader_.grammar().text({text, static_cast<size_t>(bytes)});
    Expression value = kNoExpression;
    OCELLUS_TRY(reader_.add_place(schemas_, count, &value));
    property->member = join(name, value);
    return reader_.grammar().status();
  }

  Status check_counts() {
    required_ = static_cast<int32_t>(
        std::count_if(properties_, properties_ + count_, [](const Property& p) { return p.is_required; }));
    if (required_ > counts_.most) return reader_.no_value(counts_.most_node, "more properties are required");
    if (counts_.most >= count_ && !has_additional_) counts_.most = kUnbounded;
    if (counts_.least <= required_) counts_.least = 0;
    const int64_t possible = int64_t{count_} + (has_additional_ ? 1 : 0);
    if (counts_.least <= possible) return {};
    if (!has_additional_) return reader_.no_value(counts_.least_node, "there are fewer properties");
    return reader_.refuse(counts_.least_node, "additional names might repeat, so that only one of them counts");
  }

  /// Members after `before` others: the additional ones. kNoExpression if they cannot be as many as they must.
  Expression add_last(int32_t before) {
    const int32_t least = std::max(0, counts_.least - before);
    const int32_t most = counts_.most == kUnbounded ? kUnbounded : counts_.most - before;
    const bool has_any = additional_ != kNoExpression && most > 0;
    if (least > (has_any ? 1 : 0)) return kNoExpression;
    return has_any ? reader_.json().list(additional_, least, most, before > 0) : reader_.grammar().text({});
  }

  /// States are how many members there were, up to where they need not be counted any more; next_[c] is what follows
  /// property i after c members, and states of one property are made from those of the next.
  Status add_members(Expression* out) {
    const bool is_limited = counts_.most != kUnbounded;
    limit_ = std::min(is_limited ? counts_.most : std::max(1, counts_.least), count_);
    if (int64_t{count_} * limit_ > kMaxCounted)
      return reader_.refuse(parts_.at[0].node, "too many properties to count");
    OCELLUS_TRY(reader_.memory().take(limit_ + 1, &next_));
    for (int32_t c = 0; c <= limit_; ++c) next_[c] = add_last(c);
    int32_t required = required_;
    for (int32_t i = count_; i-- > 0;) {
      required -= properties_[i].is_required ? 1 : 0;
      // Between as many as were required and all of those before.
      const int32_t first = std::min(required, limit_), last = std::min(i, limit_);
      const int32_t earlier = i > 0 && properties_[i - 1].is_required ? required - 1 : required;
      const bool is_shared = i > 0 && (first < last || std::min(earlier, limit_) < std::min(i - 1, limit_));
      for (int32_t c = first; c <= last; ++c) next_[c] = add_state(properties_[i], c, is_shared);
    }
    *out = next_[0];
    if (*out != kNoExpression || !reader_.grammar().status().ok()) return reader_.grammar().status();
    return reader_.no_value(counts_.least_node, "there cannot be as many properties");
  }

  Expression add_state(const Property& property, int32_t before, bool is_shared) {
    Grammar& g = reader_.grammar();
    const Expression member = before > 0 ? g.sequence(reader_.json().comma(), property.member) : property.member;
    const bool is_counted = before < limit_;
    const Expression with = is_counted ? next_[before + 1] : counts_.most == kUnbounded ? next_[before] : kNoExpression;
    const Expression without = property.is_required ? kNoExpression : next_[before];
    Expression e = kNoExpression;
    if (with != kNoExpression && with == without) {
      e = g.sequence(g.optional(member), with);
    } else {
      ExpressionList list;
      if (with != kNoExpression) g.append(&list, g.sequence(member, with));
      if (without != kNoExpression) g.append(&list, without);
      if (list.count == 0) return kNoExpression;
      e = g.choice(list);
    }
    if (!is_shared) return reader_.json().flatten(e);
    const RuleId rule = g.add_rule();
    g.define(rule, e);
    return g.rule(rule);
  }

  SchemaReader& reader_;
  const SchemaParts& parts_;
  NameRules names_;
  CountRange counts_;
  Property* properties_ = nullptr;
  int32_t count_ = 0, required_ = 0;
  int32_t* schemas_ = nullptr;  // room for a place\'s
  bool has_properties_ = false, has_additional_ = false;
  Expression additional_ = kNoExpression;
  int32_t limit_ = 0;
  Expression* next_ = nullptr;
};

}  // namespace

Status add_object_type(SchemaReader& reader, const SchemaParts& parts, Expression* out) {
  return ObjectBuilder(reader, parts).build(out);
}

}  // namespace ocellus
