#include "runtime/cache/local_ring.h"

#include "kernels/base/step_tiles.h"
#include "platform/round_up.h"

namespace ocellus {

int64_t LocalShape::slots_for(int32_t window, int64_t prompt_rows) {
  const int64_t seen = window - 1, prompt = std::min(prompt_rows, seen);
  return std::max(round_up(seen + prompt, int64_t{kTileSlots}), most_window_tiles(window) * kTileSlots);
}

/// A tile holds keys and values of its slots, by layer and head.
KvRun LocalRing::tile(int32_t index) const {
  KvRun run;
  run.value_offset = int64_t{2} * kTileSlots * shape_->head_dim;
  run.head_stride = 2 * run.value_offset;
  run.layer_stride = run.head_stride * shape_->kv_heads;
  run.data = memory_ + index * kTileSlots * shape_->slot_bytes();
  run.slots = run.capacity = kTileSlots;
  return run;
}

KvRun LocalRing::run_from(int64_t row) const {
  const auto slot = static_cast<int32_t>(row % shape_->slots);
  const int32_t first = slot % kTileSlots;
  return slice_run(tile(slot / kTileSlots), first, kTileSlots - first, shape_->head_dim);
}

float* LocalRing::state_row(int64_t row) const {
  const auto slot = static_cast<int32_t>(row % shape_->slots);
  return reinterpret_cast<float*>(tile(slot / kTileSlots).data) + int64_t{slot % kTileSlots} * shape_->head_dim;
}

bool LocalRing::still_has(int64_t rows) const {
  return oldest_seen(rows) >= std::max(written_ - shape_->slots, oldest_);
}

void LocalRing::rewind(int64_t rows) {
  rows_ = rows;
  if (rows == 0) written_ = oldest_ = 0;
}

template <class Visit>
void LocalRing::visit_state(KeptState state, Visit visit) const {
  const int64_t row_bytes = shape_->layer_slot_bytes();
  std::byte* kept = states_ + static_cast<int64_t>(state) * shape_->state_bytes();
  for (int64_t row = oldest_seen(rows_); row < rows_; ++row)
    for (int32_t layer = 0; layer < shape_->layers; ++layer, kept += row_bytes)
      visit(state_row(row) + layer * shape_->state_stride(), kept, row_bytes);
}

void LocalRing::keep(KeptState state, Queue& queue) const {
  visit_state(state, [&](const float* row, std::byte* kept, int64_t bytes) { queue.copy(kept, row, bytes); });
}

void LocalRing::bring_back(KeptState state, int64_t rows, Queue& queue) {
  rows_ = written_ = rows;
  oldest_ = oldest_seen(rows);
  visit_state(state, [&](float* row, const std::byte* kept, int64_t bytes) { queue.copy(row, kept, bytes); });
}

}  // namespace ocellus
