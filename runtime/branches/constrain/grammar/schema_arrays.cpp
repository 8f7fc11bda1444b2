// Arrays: items, prefixItems, minItems, maxItems, uniqueItems.
#include <algorithm>

#include "runtime/branches/constrain/grammar/schema_unique.h"

namespace ocellus {
namespace {

class ArrayBuilder {
 public:
  ArrayBuilder(SchemaReader& reader, const SchemaParts& parts) : reader_(reader), parts_(parts) {}

  Status build(Expression* out) {
    OCELLUS_TRY(reader_.read_counts(parts_, "minItems", "maxItems", &counts_));
    OCELLUS_TRY(read_lists());
    OCELLUS_TRY(limit_count());
    if (const int32_t unique = find_unique(); unique != kNoJson && counts_.most > 1) return add_unique(unique, out);
    Expression *items = nullptr, rest = kNoExpression;
    const int32_t listed = std::min(listed_, counts_.most);
    OCELLUS_TRY(reader_.memory().take(listed, &items));
    for (int32_t i = 0; i < listed; ++i) OCELLUS_TRY(add_item(i, &items[i]));
    if (counts_.most > listed) OCELLUS_TRY(add_item(listed, &rest));
    *out = add_brackets(items, listed, rest);
    return reader_.grammar().status();
  }

 private:
  int32_t find(const SchemaPart& part, std::string_view keyword) const {
    return reader_.document().find(part.node, keyword);
  }
  /// Schemas of the first items and of the others; in drafts before 2020-12 a list of items, and additionalItems.
  int32_t prefix_of(const SchemaPart& part) const {
    const int32_t prefix = find(part, "prefixItems"), items = find(part, "items");
    return prefix == kNoJson && items != kNoJson && reader_.node(items).kind == JsonKind::kArray ? items : prefix;
  }
  int32_t items_of(const SchemaPart& part) const {
    const int32_t items = find(part, "items");
    return items != kNoJson && items == prefix_of(part) ? find(part, "additionalItems") : items;
  }

  int32_t find_unique() const {
    for (const SchemaPart& part : parts_) {
      const int32_t unique = find(part, "uniqueItems");
      if (unique != kNoJson && !reader_.is_harmless(unique)) return unique;
    }
    return kNoJson;
  }

  Status add_unique(int32_t unique, Expression* out) {
    Grammar& g = reader_.grammar();
    Expression item = kNoExpression, items = kNoExpression;
    if (listed_ > 0) return reader_.refuse(unique, "write items alone, as an enum or const, or maxItems 1");
    OCELLUS_TRY(add_item(0, &item));
    OCELLUS_TRY(add_unique_items(reader_, unique, item, counts_, &items));
    *out = g.sequence(reader_.json().open('['), g.sequence(items, reader_.json().close(']')));
    return g.status();
  }

  Status read_lists() {
    OCELLUS_TRY(reader_.memory().take(parts_.count, &next_));
    OCELLUS_TRY(reader_.memory().take(parts_.count, &schemas_));
    for (int32_t p = 0; p < parts_.count; ++p) {
      const int32_t prefix = prefix_of(parts_.at[p]), items = items_of(parts_.at[p]);
      next_[p] = kNoJson;
      if (items != kNoJson && reader_.node(items).kind == JsonKind::kArray)
        return reader_.reject(items, "write one schema beside prefixItems");
      if (prefix == kNoJson) continue;
      if (reader_.node(prefix).kind != JsonKind::kArray) return reader_.reject(prefix, "this is no list of schemas");
      next_[p] = reader_.node(prefix).first;
      listed_ = std::max(listed_, reader_.node(prefix).count);
    }
    return {};
  }

  /// Lowers the most items to those before the first whose schema is false.
  Status limit_count() {
    for (const SchemaPart& part : parts_) {
      const int32_t prefix = prefix_of(part);
      int32_t position = 0;
      if (prefix != kNoJson)
        for (int32_t i = reader_.node(prefix).first; i != kNoJson; i = reader_.node(i).next, ++position)
          OCELLUS_TRY(limit_count(i, position));
      const int32_t items = items_of(part);
      if (items != kNoJson) OCELLUS_TRY(limit_count(items, position));
    }
    return {};
  }
  Status limit_count(int32_t schema, int32_t position) {
    if (!reader_.is_false(schema)) return {};
    counts_.most = std::min(counts_.most, position);
    if (counts_.most >= counts_.least) return {};
    return reader_.no_value(counts_.least_node, "the array cannot have as many items");
  }

  /// The item at `position`, called in their order; at the first that is in no list, all from there on.
  Status add_item(int32_t position, Expression* out) {
    if (!reader_.grammar().spend(8 * parts_.count)) return reader_.grammar().status();
    int32_t count = 0;
    for (int32_t p = 0; p < parts_.count; ++p) {
      int32_t schema = next_[p];
      if (schema == kNoJson || position == listed_) schema = items_of(parts_.at[p]);
      if (schema != kNoJson) schemas_[count++] = schema;
      if (next_[p] != kNoJson) next_[p] = reader_.node(next_[p]).next;
    }
    return reader_.add_place(schemas_, count, out);
  }

  Expression add_brackets(const Expression* items, int32_t listed, Expression rest) {
    Grammar& g = reader_.grammar();
    JsonGrammar& json = reader_.json();
    const int32_t most_rest = counts_.most == kUnbounded ? kUnbounded : counts_.most - listed;
    const int32_t least_rest = std::max(0, counts_.least - listed);
    Expression tail = most_rest > 0 ? json.list(rest, least_rest, most_rest, listed > 0) : g.text({});
    for (int32_t i = listed; i-- > 0;) {
      const Expression item = i > 0 ? g.sequence(json.comma(), items[i]) : items[i];
      tail = json.flatten(g.sequence(item, tail));
      if (i >= counts_.least) tail = g.optional(tail);
    }
    return g.sequence(json.open('['), g.sequence(tail, json.close(']')));
  }

  SchemaReader& reader_;
  const SchemaParts& parts_;
  CountRange counts_;
  int32_t listed_ = 0;          // positions that some prefixItems lists
  int32_t* next_ = nullptr;     // by part: its next schema of prefixItems
  int32_t* schemas_ = nullptr;  // room for a place\'s
};

}  // namespace

Status add_array_type(SchemaReader& reader, const SchemaParts& parts, Expression* out) {
  return ArrayBuilder(reader, parts).build(out);
}

}  // namespace ocellus
