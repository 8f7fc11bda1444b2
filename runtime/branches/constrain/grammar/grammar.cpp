#include "runtime/branches/constrain/grammar/grammar.h"

#include <algorithm>
#include <cstring>

#include "platform/round_up.h"
#include "platform/utf8.h"
#include "runtime/branches/constrain/grammar/automaton.h"

namespace ocellus {
namespace {

constexpr uint32_t kLastCharacter = 0x10FFFF;
/// The last character of each length in UTF-8; surrogates stand between, and are no characters.
constexpr uint32_t kLastOfLength[] = {0x7F, 0x7FF, 0xD7FF, 0xFFFF, kLastCharacter};
constexpr uint32_t kFirstOfLength[] = {0, 0x80, 0x800, 0xE000, 0x10000};

uint8_t depth_over(Grammar& g, Expression e) {
  const int depth = e == kNoExpression ? 1 : g.node(e).depth + 1;
  if (depth > kMaxExpressionDepth)
    g.fail(OCELLUS_FAIL(Code::kUnsupported, "the grammar nests deeper than %d expressions", kMaxExpressionDepth));
  return static_cast<uint8_t>(std::min(depth, kMaxExpressionDepth));
}

/// Cuts the range until all its characters have the same first bytes and then any last ones, which is a sequence of
/// ranges of bytes.
Expression add_encoded(Grammar& g, const CharacterRange& range) {
  uint8_t first[4], last[4];
  const int length = encode_utf8(range.first, first);
  encode_utf8(range.last, last);
  for (int i = 1; i < length; ++i) {
    const uint32_t tail = (uint32_t{1} << (6 * i)) - 1;
    if ((range.first & ~tail) == (range.last & ~tail)) continue;
    uint32_t cut = 0;  // last character of the first part
    if ((range.first & tail) != 0)
      cut = range.first | tail;
    else if ((range.last & tail) != tail)
      cut = (range.last & ~tail) - 1;
    else
      continue;
    const Expression low = add_encoded(g, {range.first, cut});
    return g.choice(low, add_encoded(g, {cut + 1, range.last}));
  }
  ExpressionList bytes;
  for (int i = 0; i < length; ++i) g.append(&bytes, g.byte(ByteSet().add_range(first[i], last[i])));
  return g.sequence(bytes);
}

}  // namespace

Grammar::Grammar(HostView<std::byte> memory, StepMeter* its_meter) : meter(its_meter), memory_(memory) {
  // Indices are 32 bits.
  memory_.cols = std::min<int64_t>(memory_.cols, int64_t{INT32_MAX} * kUnit);
}

template <class T>
int32_t Grammar::put(const T& value) {
  const int64_t bytes = round_up(static_cast<int64_t>(sizeof(T)), int64_t{kUnit});
  if (!status_.ok() || !spend(4)) return kNoExpression;
  if (memory_.cols - used_ < bytes) {
    fail(OCELLUS_FAIL(Code::kFull, "the grammar is too large for the memory of a constraint, %lld bytes",
                      static_cast<long long>(memory_.cols)));
    return kNoExpression;
  }
  const int64_t index = used_ / kUnit;
  std::memcpy(memory_.data + used_, &value, sizeof value);
  used_ += bytes;
  return static_cast<int32_t>(index);
}

Expression Grammar::add(const Node& node) { return put(node); }

/// In units one after the other.
Expression Grammar::text(std::string_view bytes) {
  const int32_t first = static_cast<int32_t>(used_ / kUnit);
  for (size_t i = 0; i < bytes.size() && status().ok(); i += kUnit) {
    uint64_t unit = 0;
    std::memcpy(&unit, bytes.data() + i, std::min<size_t>(kUnit, bytes.size() - i));
    put(unit);
  }
  return add({.kind = ExpressionKind::kText, .a = first, .b = static_cast<int32_t>(bytes.size())});
}

std::string_view Grammar::text_of(const Node& node) const {
  return {reinterpret_cast<const char*>(memory_.data) + int64_t{node.a} * kUnit, static_cast<size_t>(node.b)};
}

Expression Grammar::byte(const ByteSet& set) {
  if (set.empty()) return never();
  const int32_t index = put(set);
  return index == kNoExpression ? index : add({.kind = ExpressionKind::kByte, .a = index});
}

Expression Grammar::character(const CharacterRange* ranges, int32_t count) {
  ByteSet single;
  ExpressionList longer;
  for (int32_t r = 0; r < count; ++r) {
    for (int length = 0; length < 5; ++length) {
      const uint32_t first = std::max(ranges[r].first, kFirstOfLength[length]);
      const uint32_t last = std::min(ranges[r].last, kLastOfLength[length]);
      if (first > last) continue;
      if (length == 0)
        single.add_range(static_cast<int>(first), static_cast<int>(last));
      else
        append(&longer, add_encoded(*this, {first, last}));
    }
  }
  if (longer.count == 0) return byte(single);
  if (!single.empty()) append(&longer, byte(single));
  return choice(longer);
}

Expression Grammar::sequence(Expression a, Expression b) {
  ExpressionList list;
  append(&list, a);
  append(&list, b);
  return sequence(list);
}

Expression Grammar::choice(Expression a, Expression b) {
  ExpressionList list;
  append(&list, a);
  append(&list, b);
  return choice(list);
}

Expression Grammar::repeat(Expression item, int32_t least, int32_t most) {
  if (least < 0 || most < least) return never();
  if (most == 0) return text({});
  if (item == kNoExpression) return item;
  return add({.kind = ExpressionKind::kRepeat, .depth = depth_over(*this, item), .a = item, .b = least, .c = most});
}

Expression Grammar::rule(RuleId id) { return add({.kind = ExpressionKind::kRule, .a = id}); }

/// The tables are texts.
Expression Grammar::automaton(const Automaton& automaton) {
  if (automaton.state_count == 0) return never();
  const auto copy = [&](const void* table, int64_t bytes) {
    return text({static_cast<const char*>(table), static_cast<size_t>(bytes)});
  };
  const Expression states = copy(automaton.states, automaton.state_count * int64_t{sizeof(AutomatonState)});
  const Expression edges = copy(automaton.edges, automaton.edge_count * int64_t{sizeof(AutomatonEdge)});
  if (states == kNoExpression || edges == kNoExpression) return kNoExpression;
  const auto count = static_cast<int32_t>(automaton.state_count);
  return add({.kind = ExpressionKind::kAutomaton, .a = states, .b = count, .c = edges});
}

Automaton Grammar::automaton_of(const Node& automaton) const {
  const std::string_view edges = text_of(node(automaton.c));
  return {.states = reinterpret_cast<const AutomatonState*>(text_of(node(automaton.a)).data()),
          .edges = reinterpret_cast<const AutomatonEdge*>(edges.data()),
          .state_count = automaton.b,
          .edge_count = static_cast<int64_t>(edges.size() / sizeof(AutomatonEdge))};
}

void Grammar::append(ExpressionList* list, Expression item) {
  const int32_t index = item == kNoExpression ? kNoExpression : put(Cell{.item = item});
  if (index == kNoExpression) return;
  if (list->last != kNoExpression) const_cast<Cell&>(cell(list->last)).next = index;
  if (list->first == kNoExpression) list->first = index;
  list->last = index;
  ++list->count;
}

Expression Grammar::add_list(ExpressionKind kind, const ExpressionList& list) {
  if (!status_.ok()) return kNoExpression;
  if (list.count == 0) return kind == ExpressionKind::kSequence ? text({}) : never();
  if (list.count == 1) return cell(list.first).item;
  uint8_t depth = 1;
  for (int32_t c = list.first; c != kNoExpression; c = cell(c).next)
    depth = std::max(depth, depth_over(*this, cell(c).item));
  return add({.kind = kind, .depth = depth, .a = list.first});
}

RuleId Grammar::add_rule() { return put(Cell{.item = never()}); }

void Grammar::define(RuleId id, Expression body) {
  if (id != kNoRule) const_cast<Cell&>(cell(id)) = {.item = body, .next = id};
}

bool Grammar::is_defined(RuleId id) const { return id != kNoRule && cell(id).next != kNoExpression; }

Expression Grammar::body(RuleId id) const { return id == kNoRule ? kNoExpression : cell(id).item; }

}  // namespace ocellus
