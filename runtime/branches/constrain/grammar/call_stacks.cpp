#include "runtime/branches/constrain/grammar/call_stacks.h"

#include <algorithm>

namespace ocellus {

Status CallStacks::lay_out(RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  OCELLUS_TRY(take_rows(sink, "constraint stacks", kLife, Phase::kNone, 1, kNodes, &nodes_));
  OCELLUS_TRY(take_rows(sink, "constraint stack slots", kLife, Phase::kNone, 1, kSlots, &slots_));
  count_ = 0;
  if (slots_.data != nullptr) std::fill(slots_.data, slots_.data + kSlots, 0);
  return {};
}

/// Texts have few stacks: removing those of the last one takes less than clearing all slots.
void CallStacks::clear() {
  drop_after(std::min(count_, 1));
  nodes_.data[0] = {};
  count_ = 1;
  dropped_ = 0;
}

int32_t CallStacks::slot_of(int32_t call, int32_t count, int32_t below, uint64_t hash) const {
  auto slot = static_cast<int32_t>(hash % kSlots);
  for (; slots_.data[slot] != 0; slot = (slot + 1) % kSlots) {
    const StackNode& node = nodes_.data[slots_.data[slot] - 1];
    if (node.call == call && node.count == count && node.below == below) break;
  }
  return slot;
}

int32_t CallStacks::push(int32_t call, int32_t count, int32_t below) {
  const StackNode& under = nodes_.data[below];
  const uint64_t content = static_cast<uint64_t>(call) << 32 | static_cast<uint32_t>(count);
  const uint64_t hash = join_hashes(under.hash, content + 1);
  const int32_t slot = slot_of(call, count, below, hash);
  if (slots_.data[slot] != 0) return slots_.data[slot] - 1;
  if (count_ == kNodes || under.depth == kMaxCallDepth) {
    ++dropped_;
    return -1;
  }
  const auto shape = static_cast<uint32_t>(join_hashes(under.shape, static_cast<uint64_t>(call) + 1));
  nodes_.data[count_] = {call, count, below, under.depth + 1, hash, shape};
  slots_.data[slot] = count_ + 1;
  return count_++;
}

/// The newest nodes are dropped first, so that no other one stands in a slot that it was moved to by them.
void CallStacks::drop_after(int32_t count) {
  while (count_ > count) {
    const StackNode& node = nodes_.data[--count_];
    slots_.data[slot_of(node.call, node.count, node.below, node.hash)] = 0;
  }
}

}  // namespace ocellus
