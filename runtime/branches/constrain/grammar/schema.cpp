#include "runtime/branches/constrain/grammar/schema.h"

#include "kernels/base/hash_term.h"
#include "runtime/branches/constrain/grammar/schema_parts.h"

namespace ocellus {
namespace {

constexpr uint32_t kTableSize = 4096;
/// Places within places that are read at once; deeper ones wait until these are done, so that the stack is bounded.
constexpr int kMaxDepth = 40;

uint64_t hash_parts(const SchemaParts& parts) {
  uint64_t hash = 0;
  for (const SchemaPart& part : parts)
    hash = mix_bits(hash + static_cast<uint64_t>(part.node) * 4u + (part.has_any_of ? 2u : 0u) +
                    (part.has_one_of ? 1u : 0u) + 1u);
  return hash;
}

bool are_equal(const SchemaParts& a, const SchemaParts& b) {
  if (a.count != b.count) return false;
  for (int32_t i = 0; i < a.count; ++i)
    if (a.at[i] != b.at[i]) return false;
  return true;
}

}  // namespace

enum class PlaceState : uint8_t { kNew, kWaiting, kBegun, kDone, kEmpty };

/// Parts and their expression.
struct SchemaReader::Place {
  Place *next = nullptr, *next_of_all = nullptr, *next_waiting = nullptr;
  SchemaParts parts;
  PlaceState state = PlaceState::kNew;
  RuleId rule = kNoRule;  // so that the place is one machine, however many others hold it
  Expression expression = kNoExpression;
  Edge* edges = nullptr;  // places that this one may begin with, without a byte before
  // Of the search for loops.
  Edge* cursor = nullptr;
  Place* back = nullptr;
  enum class Search : uint8_t { kUnseen, kOpen, kClosed } search = Search::kUnseen;
};

struct SchemaReader::Edge {
  Place* to = nullptr;
  Edge* next = nullptr;
};

Status SchemaReader::read(Expression* out) {
  OCELLUS_TRY(memory_.take(kTableSize, &table_));
  const int32_t root = 0;
  OCELLUS_TRY(add_place(&root, 1, out));
  while (waiting_ != nullptr) {
    Place* const place = waiting_;
    waiting_ = place->next_waiting;
    OCELLUS_TRY(fill(place));
  }
  OCELLUS_TRY(check_recursion());
  return grammar_.status();
}

Status SchemaReader::add_place(const int32_t* nodes, int32_t count, Expression* out) {
  PartsCollector parts(*this);
  OCELLUS_TRY(parts.begin());
  for (int32_t i = 0; i < count; ++i) OCELLUS_TRY(parts.visit(nodes[i]));
  Place* const outside = building_;
  building_ = nullptr;  // a bracket stands between
  const Status status = add_parts(parts.end(), out);
  building_ = outside;
  return status;
}

Status SchemaReader::find_place(const SchemaParts& parts, Place** out) {
  Place** const bucket = &table_[hash_parts(parts) % kTableSize];
  for (*out = *bucket; *out != nullptr; *out = (*out)->next) {
    if (!grammar_.spend(1 + parts.count)) return grammar_.status();
    if (are_equal((*out)->parts, parts)) return {};
  }
  OCELLUS_TRY(memory_.take(1, out));
  (*out)->parts = parts;
  (*out)->next = *bucket;
  *bucket = *out;
  (*out)->next_of_all = all_;
  all_ = *out;
  return {};
}

Status SchemaReader::add_parts(const SchemaParts& parts, Expression* out) {
  if (parts.count == 0) return *out = json_.value(), Status();
  Place* place = nullptr;
  OCELLUS_TRY(find_place(parts, &place));
  if (building_ != nullptr) {
    Edge* edge = nullptr;
    OCELLUS_TRY(memory_.take(1, &edge));
    *edge = {place, building_->edges};
    building_->edges = edge;
  }
  if (place->state == PlaceState::kNew && depth_ < kMaxDepth) OCELLUS_TRY(fill(place));
  if (place->state == PlaceState::kEmpty) return no_value(parts.at[0].node, "its conditions exclude each other");
  if (place->state == PlaceState::kNew) {
    place->state = PlaceState::kWaiting;
    place->next_waiting = waiting_;
    waiting_ = place;
  }
  if (place->state != PlaceState::kDone && place->rule == kNoRule) place->rule = grammar_.add_rule();
  *out = place->state == PlaceState::kDone ? place->expression : grammar_.rule(place->rule);
  return grammar_.status();
}

Status SchemaReader::fill(Place* place) {
  Place* const outside = building_;
  building_ = place;
  place->state = PlaceState::kBegun;
  ++depth_;
  Expression e = kNoExpression;
  const Status status = add_values(place->parts, &e);
  --depth_;
  building_ = outside;
  if (!status.ok()) e = grammar_.never();
  place->state = status.ok() ? PlaceState::kDone : PlaceState::kEmpty;
  if (place->rule == kNoRule) place->rule = grammar_.add_rule();
  grammar_.define(place->rule, e);
  place->expression = grammar_.rule(place->rule);
  return status;
}

Status SchemaReader::add_values(const SchemaParts& parts, Expression* out) {
  constexpr int64_t kStepsOfPart = 256;  // each kind of values asks for its keywords
  if (!grammar_.spend(kStepsOfPart * parts.count)) return grammar_.status();
  for (int32_t i = 0; i < parts.count; ++i) {
    const SchemaPart& part = parts.at[i];
    const int32_t any_of = part.has_any_of ? kNoJson : document_.find(part.node, "anyOf");
    if (any_of != kNoJson) return add_branches(parts, i, any_of, out);
    const int32_t one_of = part.has_one_of ? kNoJson : document_.find(part.node, "oneOf");
    if (one_of != kNoJson) return add_branches(parts, i, one_of, out);
  }
  return add_types(parts, out);
}

/// The parts with each branch of the list, which is the anyOf or oneOf of part `chosen`.
Status SchemaReader::add_branches(const SchemaParts& parts, int32_t chosen, int32_t list, Expression* out) {
  if (node(list).kind != JsonKind::kArray || node(list).count == 0) return reject(list, "this is no list of schemas");
  ExpressionList branches;
  Status last;
  for (int32_t branch = node(list).first; branch != kNoJson; branch = node(branch).next) {
    Expression e = kNoExpression;
    last = add_branch(parts, chosen, branch, &e);
    if (!last.ok() && !is_empty_) return last;
    if (last.ok()) grammar_.append(&branches, e);
    is_empty_ = false;
  }
  is_empty_ = branches.count == 0;
  *out = grammar_.choice(branches);
  return is_empty_ ? last : grammar_.status();
}

Status SchemaReader::add_branch(const SchemaParts& parts, int32_t chosen, int32_t branch, Expression* out) {
  const bool is_any_of = node(node(branch).parent).name == "anyOf";
  PartsCollector all(*this);
  OCELLUS_TRY(all.begin());
  for (int32_t i = 0; i < parts.count; ++i) {
    SchemaPart part = parts.at[i];
    if (i == chosen) (is_any_of ? part.has_any_of : part.has_one_of) = true;
    OCELLUS_TRY(all.add(part));
  }
  OCELLUS_TRY(all.visit(branch));
  return add_parts(all.end(), out);
}

/// Fails if a place may begin with itself.
Status SchemaReader::check_recursion() {
  for (Place* place = all_; place != nullptr; place = place->next_of_all)
    if (place->search == Place::Search::kUnseen) OCELLUS_TRY(find_loop(place));
  return {};
}

Status SchemaReader::find_loop(Place* start) {
  using Search = Place::Search;
  const auto open = [](Place* place, Place* back) {
    place->search = Search::kOpen;
    place->cursor = place->edges;
    place->back = back;
  };
  open(start, nullptr);
  for (Place* at = start; at != nullptr;) {
    if (at->cursor == nullptr) {
      at->search = Search::kClosed;
      at = at->back;
      continue;
    }
    Place* const to = at->cursor->to;
    at->cursor = at->cursor->next;
    if (to->search == Search::kOpen)
      return reject(to->parts.at[0].node, "the schema refers to itself at the same place of the value");
    if (to->search == Search::kClosed) continue;
    open(to, at);
    at = to;
  }
  return {};
}

Status read_schema(std::string_view text, const SchemaOptions& options, HostView<std::byte> workspace, Grammar* grammar,
                   Expression* out) {
  if (text.size() > kMaxSchemaBytes)
    return OCELLUS_FAIL(Code::kUnsupported, "a schema of %lld bytes, %lld are the most",
                        static_cast<long long>(text.size()), static_cast<long long>(kMaxSchemaBytes));
  JsonDocument document;
  OCELLUS_TRY(document.read(text, workspace));
  return SchemaReader(document, options.free_space ? JsonSpaces::kFree : JsonSpaces::kDumps, grammar).read(out);
}

}  // namespace ocellus
