#include "runtime/cache/kv_pools.h"

namespace ocellus {

Status BlockPool::lay_out(const char* name, const char* index_name, int64_t block_bytes, int64_t count, RowSink& sink) {
  OCELLUS_TRY(take_rows(sink, name, Lifetime::kSession, Phase::kNone, count, block_bytes, &memory_));
  OCELLUS_TRY(take_rows(sink, index_name, Lifetime::kSession, Phase::kNone, 1, count, &free_));
  free_count_ = count;
  if (free_.data == nullptr) return {};
  // Block 0 is on top, so that a fresh pool is used from its start.
  for (int64_t i = 0; i < count; ++i) free_.data[i] = static_cast<int32_t>(count - 1 - i);
  return {};
}

int32_t BlockPool::take() { return free_count_ == 0 ? -1 : free_.data[--free_count_]; }

bool BlockPool::take(int64_t count, int32_t* out) {
  if (free_count() < count) return false;
  for (int64_t i = 0; i < count; ++i) out[i] = take();
  return true;
}

void BlockPool::release(int32_t block) { free_.data[free_count_++] = block; }

void BlockPool::release(const int32_t* blocks, int64_t count) {
  for (int64_t i = count; i > 0; --i) release(blocks[i - 1]);
}

Status KvPools::lay_out(const KvShape& shape_, RowSink& sink) {
  shape = shape_;
  OCELLUS_TRY(pages.lay_out("kv text pages", "kv free pages", shape.page_bytes(), shape.page_count, sink));
  const char* const blocks_name = shape.owns_images() ? "kv image blocks" : "kv shared images";
  OCELLUS_TRY(blocks.lay_out(blocks_name, "kv free blocks", shape.block_bytes(), shape.block_count, sink));
  if (shape.shared_images > 0) OCELLUS_TRY(shared.lay_out(shape.shared_images, shape.blocks_per_image(), sink));
  const LocalShape& local = shape.local;
  if (local.rings > 0)
    OCELLUS_TRY(take_rows(sink, local.convolves ? "convolution rows" : "kv layers with a window", Lifetime::kSession,
                          Phase::kNone, local.rings, local.ring_bytes(), &rings));
  if (local.rings > 0 && local.convolves)
    OCELLUS_TRY(take_rows(sink, "convolution states to return to", Lifetime::kSession, Phase::kNone, local.rings,
                          kKeptStates * local.state_bytes(), &states));
  if (!shape.has_ledger) return {};
  const int64_t in_pages = shape.page_count * kPageSlots;
  const int64_t in_blocks = shape.counts_blocks() ? shape.block_count * shape.block_slots : 0;
  const int64_t lines = int64_t{shape.layer_count} * shape.kv_heads, slots = in_pages + in_blocks;
  const auto take = [&](const char* name, auto* out) {
    return take_rows(sink, name, Lifetime::kSession, Phase::kNone, lines, slots, out);
  };
  OCELLUS_TRY(take("kv slot positions", &ledger.positions));
  if (shape.has_sums) OCELLUS_TRY(take("kv slot attention sums", &ledger.sums));
  if (shape.has_sums) OCELLUS_TRY(take("kv slot newest attention", &ledger.latest));
  ledger.pages = pages.address(0);
  ledger.page_bytes = pages.block_bytes();
  ledger.page_slots = kPageSlots;
  ledger.first_block_slot = in_pages;
  if (in_blocks == 0) return {};
  ledger.blocks = blocks.address(0);
  ledger.block_bytes = blocks.block_bytes();
  ledger.block_slots = shape.block_slots;
  return {};
}

Status KvPools::lay_out_staged(const KvShape& shape_, RowSink& sink) {
  shape = shape_;
  return blocks.lay_out("staged image blocks", "free staged blocks", shape.block_bytes(), shape.block_count, sink);
}

KvRun KvPools::page_run(int32_t page) const {
  KvRun run;
  run.data = pages.address(page);
  run.value_offset = int64_t{2} * kPageSlots * shape.head_dim;
  run.head_stride = 2 * run.value_offset;
  run.layer_stride = run.head_stride * shape.kv_heads;
  run.capacity = kPageSlots;
  return run;
}

KvRun KvPools::block_run(int32_t block) const {
  KvRun run;
  run.data = blocks.address(block);
  run.capacity = shape.block_slots;
  run.packed = is_packed(shape.format);
  run.calibrated = run.packed;
  if (run.packed) return run;
  const KvBlockLayout layout = shape.block_layout(0);
  run.value_offset = layout.values - layout.keys;
  run.head_stride = layout.padded_bytes;
  run.layer_stride = run.head_stride * shape.kv_heads;
  return run;
}

KvRun KvPools::local_block_run(int32_t block) const {
  KvRun run;
  run.data = blocks.address(block) + shape.local_offset();
  run.capacity = shape.local_slots;
  run.value_offset = int64_t{2} * shape.local_slots * shape.local.head_dim;
  run.head_stride = 2 * run.value_offset;
  run.layer_stride = run.head_stride * shape.local.kv_heads;
  return run;
}

}  // namespace ocellus
