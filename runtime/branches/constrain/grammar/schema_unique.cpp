#include "runtime/branches/constrain/grammar/schema_unique.h"

#include <algorithm>
#include <bit>

#include "runtime/branches/constrain/grammar/decimal.h"

namespace ocellus {
namespace {

constexpr int32_t kMaxItems = 256;
constexpr int32_t kMaxTextBytes = 16384;  // total of the items
/// Sets of up to 8 items are states.
constexpr int32_t kMaxOrders = 8;

/// Writes out the texts of an expression.
class TextLister {
 public:
  TextLister(const Grammar& grammar, std::string_view* texts, char* bytes)
      : grammar_(grammar), texts_(texts), bytes_(bytes) {}

  /// False if they are too many.
  bool list(Expression e) {
    prefix_bytes_ = 0;
    return walk(e, nullptr, 0);
  }
  int32_t count() const { return count_; }

 private:
  /// Rest of a text after an expression, in the sequences and repetitions around it.
  struct Rest {
    int32_t cell = kNoExpression;
    const Grammar::Node* repeat = nullptr;
    int32_t done = 0;  // times that were read
    const Rest* next = nullptr;
  };
  static constexpr int kMaxDepth = 200;
  static constexpr int32_t kMaxPrefix = 1024;
  static constexpr int32_t kMaxTimes = 18;  // digits

  bool walk(Expression e, const Rest* rest, int depth) {
    if (e == kNoExpression || depth > kMaxDepth || !grammar_.spend(16)) return false;
    const Grammar::Node& node = grammar_.node(e);
    switch (node.kind) {
      case ExpressionKind::kNever: return true;
      case ExpressionKind::kText: return put(grammar_.text_of(node), rest, depth);
      case ExpressionKind::kByte:
        for (int byte = 0; byte < 256; ++byte) {
          const char one = static_cast<char>(byte);
          if (grammar_.bytes_of(node).has(byte) && !put({&one, 1}, rest, depth)) return false;
        }
        return true;
      case ExpressionKind::kChoice:
        for (int32_t c = node.a; c != kNoExpression; c = grammar_.cell(c).next)
          if (!walk(grammar_.cell(c).item, rest, depth + 1)) return false;
        return true;
      case ExpressionKind::kSequence: {
        const Rest behind = {.cell = grammar_.cell(node.a).next, .next = rest};
        return walk(grammar_.cell(node.a).item, &behind, depth + 1);
      }
      case ExpressionKind::kRule: return grammar_.is_defined(node.a) && walk(grammar_.body(node.a), rest, depth + 1);
      case ExpressionKind::kRepeat: return walk_repeat(node, 0, rest, depth);
      case ExpressionKind::kAutomaton: return false;
    }
    return false;
  }

  bool walk_repeat(const Grammar::Node& node, int32_t done, const Rest* rest, int depth) {
    if (node.c > kMaxTimes || depth > kMaxDepth) return false;
    if (done >= node.b && !go_on(rest, depth)) return false;
    const Rest again = {.repeat = &node, .done = done + 1, .next = rest};
    return done == node.c || walk(node.a, &again, depth + 1);
  }

  bool go_on(const Rest* rest, int depth) {
    while (rest != nullptr && rest->repeat == nullptr && rest->cell == kNoExpression) rest = rest->next;
    if (rest == nullptr) return keep();
    if (rest->repeat != nullptr) return walk_repeat(*rest->repeat, rest->done, rest->next, depth + 1);
    const Rest behind = {.cell = grammar_.cell(rest->cell).next, .next = rest->next};
    return walk(grammar_.cell(rest->cell).item, &behind, depth + 1);
  }

  /// Adds a piece, continues with what follows, and takes it away again.
  bool put(std::string_view piece, const Rest* rest, int depth) {
    const int32_t before = prefix_bytes_;
    if (prefix_bytes_ + static_cast<int32_t>(piece.size()) > kMaxPrefix) return false;
    prefix_bytes_ += static_cast<int32_t>(piece.copy(prefix_ + prefix_bytes_, piece.size()));
    const bool fits = go_on(rest, depth);
    prefix_bytes_ = before;
    return fits;
  }

  bool keep() {
    const std::string_view text(prefix_, static_cast<size_t>(prefix_bytes_));
    if (text.starts_with('[') || text.starts_with('{')) return false;  // equal ones may differ in their texts
    grammar_.spend(count_);
    for (int32_t i = 0; i < count_; ++i)
      if (are_equal(texts_[i], text)) return true;
    if (count_ == kMaxItems || used_ + prefix_bytes_ > kMaxTextBytes) return false;
    text.copy(bytes_ + used_, text.size());
    texts_[count_++] = {bytes_ + used_, text.size()};
    used_ += prefix_bytes_;
    return true;
  }

  /// Numbers are equal by their values.
  static bool are_equal(std::string_view a, std::string_view b) {
    Decimal x, y;
    const bool are_numbers =
        a[0] != '"' && b[0] != '"' && (a[0] == '-' || is_digit(a[0])) && (b[0] == '-' || is_digit(b[0]));
    if (!are_numbers || read_decimal(a, &x) != DecimalFit::kFits || read_decimal(b, &y) != DecimalFit::kFits)
      return a == b;
    return x == y;
  }

  const Grammar& grammar_;
  std::string_view* texts_;
  char* bytes_;
  int32_t count_ = 0, used_ = 0;
  char prefix_[kMaxPrefix];
  int32_t prefix_bytes_ = 0;
};

class UniqueItems {
 public:
  UniqueItems(SchemaReader& reader, const std::string_view* items, int32_t count, int32_t least, int32_t most)
      : grammar_(reader.grammar()), json_(reader.json()), items_(items), count_(count), least_(least), most_(most) {}

  /// A rule for each set of items that came, larger sets first.
  Expression any_order() {
    RuleId rules[1 << kMaxOrders];
    for (int set = (1 << count_) - 1; set >= 0; --set) {
      const int size = std::popcount(static_cast<unsigned>(set));
      ExpressionList next;
      if (size >= least_) grammar_.append(&next, grammar_.text({}));
      for (int32_t i = 0; i < count_ && size < most_; ++i)
        if ((set >> i & 1) == 0)
          grammar_.append(&next, grammar_.sequence(item(i, size > 0), grammar_.rule(rules[set | 1 << i])));
      rules[set] = grammar_.add_rule();
      grammar_.define(rules[set], grammar_.choice(next));
    }
    return grammar_.rule(rules[0]);
  }

  /// A rule for each item that may be next and each number of those that came, as far as it matters. Those of an item
  /// are made from those of the next.
  Expression in_order(RuleId* rules) {
    const int32_t limit = most_ < count_ ? most_ : std::max(least_, 1);  // more are not counted
    for (int32_t i = count_; i >= 0; --i) {
      for (int32_t came = 0; came <= limit; ++came) {
        ExpressionList next;
        const bool may_take = i < count_ && (came < most_ || most_ >= count_);
        if (i == count_ && came >= least_) grammar_.append(&next, grammar_.text({}));
        if (may_take) {
          const RuleId taken = rules[std::min(came + 1, limit)];
          grammar_.append(&next, grammar_.sequence(item(i, came > 0), grammar_.rule(taken)));
        }
        if (i < count_) grammar_.append(&next, grammar_.rule(rules[came]));
        later_[came] = grammar_.add_rule();
        grammar_.define(later_[came], grammar_.choice(next));
      }
      std::copy(later_, later_ + limit + 1, rules);
    }
    return grammar_.rule(rules[0]);
  }

 private:
  Expression item(int32_t i, bool has_before) {
    const Expression text = grammar_.text(items_[i]);
    return has_before ? grammar_.sequence(json_.comma(), text) : text;
  }

  Grammar& grammar_;
  JsonGrammar& json_;
  const std::string_view* items_;
  int32_t count_, least_, most_;
  RuleId later_[kMaxItems + 1];
};

}  // namespace

Status add_unique_items(SchemaReader& reader, int32_t place, Expression item, const CountRange& counts,
                        Expression* out) {
  constexpr const char* kInstead = "write items as an enum or const of up to 256 values that are no arrays or objects";
  std::string_view* texts = nullptr;
  char* bytes = nullptr;
  RuleId* rules = nullptr;
  OCELLUS_TRY(reader.memory().take(kMaxItems, &texts));
  OCELLUS_TRY(reader.memory().take(kMaxTextBytes, &bytes));
  OCELLUS_TRY(reader.memory().take(kMaxItems + 1, &rules));
  TextLister lister(reader.grammar(), texts, bytes);
  if (!lister.list(item)) {
    OCELLUS_TRY(reader.grammar().status());
    return reader.refuse(place, kInstead);
  }
  const int32_t count = lister.count(), most = std::min(counts.most, count);
  if (counts.least > most) return reader.no_value(place, "there are fewer different items");
  if (int64_t{count} * std::min(most, counts.least + 1) > kMaxTextBytes) return reader.refuse(place, kInstead);
  UniqueItems items(reader, texts, count, counts.least, most);
  *out = count <= kMaxOrders ? items.any_order() : items.in_order(rules);
  return reader.grammar().status();
}

}  // namespace ocellus
