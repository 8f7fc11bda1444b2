// The pools shared by all sessions' caches: text pages and image blocks, their layout and sizes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/base/kv_run.h"
#include "kernels/base/slot_ledger.h"
#include "kernels/cache/thin_frames.h"
#include "platform/arena.h"
#include "platform/device.h"
#include "platform/round_up.h"
#include "platform/status.h"
#include "runtime/cache/kv_formats.h"
#include "runtime/cache/local_ring.h"
#include "runtime/cache/shared_places.h"

namespace ocellus {

/// Slots of one text page.
inline constexpr int32_t kPageSlots = 16;
/// Maximum pages of a conversation's beginning that a rolling context may keep.
inline constexpr int32_t kMaxSinkPages = 4;

constexpr int64_t blocks_of(int64_t slots, int64_t block_slots) { return divide_up(slots, block_slots); }

/// Maximum slots of a run in the lists for attention, and of a packed run: see kTileSlots.
struct TileLimits {
  int32_t f16 = INT32_MAX;
  int32_t packed = INT32_MAX;

  static TileLimits of(const DeviceTraits& device) {
    return device.is_cuda() ? TileLimits{kTileSlots, kPackedTileSlots} : TileLimits{};
  }
  /// Limits for decoding.
  static TileLimits of_steps(const DeviceTraits& device, KvScaleForm scales) {
    return device.is_cuda() ? TileLimits{kTileSlots, packed_tile_slots(scales)} : TileLimits{};
  }
  /// Limits of runs that expand_kv copies.
  static constexpr TileLimits of_copies() { return {kPackedTileSlots, kPackedTileSlots}; }
  int32_t of(bool is_packed) const { return is_packed ? packed : f16; }
};

/// Calls visit(piece) for pieces of a run within the limits.
template <class Visit>
void visit_pieces(const KvRun& run, const TileLimits& limits, int32_t head_dim, Visit visit) {
  const int32_t most = limits.of(run.packed);
  for (int32_t slot = 0, count = 0; slot < run.slots; slot += count) {
    count = std::min(most, run.slots - slot);
    visit(slice_run(run, slot, count, head_dim));
  }
}

/// Layout of a cache slot, and the sizes of the pools.
struct KvShape {
  int32_t layer_count = 0;  // without layers with a window
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  KvFormat format = KvFormat::kF16;  // format of image blocks; if layers differ, the one with most bits
  int32_t block_slots = 1;           // slots of an image block
  int32_t image_slots = 0;           // slots of an image in blocks of its own
  int64_t page_count = 0;
  int64_t block_count = 0;
  int64_t shared_images = 0;   // places for images that sessions share; 0: each has blocks of its own
  bool copies_shared = false;  // sessions copy these images to blocks of their own
  bool has_ledger = false;     // the slots have a ledger, for eviction during answers; with sums of attention
  bool has_sums = false;
  KvFormatList layer_formats = {};
  KvScaleForm scales = KvScaleForm::kF16;  // scales of packed blocks
  LocalShape local = {};                   // the layers with a window
  bool notes_frames = false;               // image blocks end with a FrameNote for every slot, by layer and head
  int32_t local_slots = 0;  // slots of these in blocks of linked pictures: all, as f16; or the states after views

  /// Keys and values of one token, all layers, f16.
  int64_t slot_bytes() const { return int64_t{4} * layer_count * kv_heads * head_dim; }
  int64_t page_bytes() const { return slot_bytes() * kPageSlots; }
  /// True if sessions have image blocks of their own.
  bool owns_images() const { return shared_images == 0 || copies_shared; }
  /// True if rows leave packed blocks during answers: each block then has live counts of its own.
  bool counts_blocks() const { return has_ledger && is_packed(format); }
  KvFormat format_of(int32_t layer) const { return layer_formats.of(layer, format); }
  /// Layout of one head's part of a block in a layer.
  KvBlockLayout block_layout(int32_t layer) const {
    return KvBlockLayout::of(format_of(layer), head_dim, block_slots, scales);
  }
  /// An image block's layers lie one after the other, with all their heads; those with a window come last.
  int64_t block_bytes() const {
    const int64_t notes = notes_frames ? int64_t{layer_count} * kv_heads * block_slots : 0;
    return notes_offset() + notes * int64_t{sizeof(FrameNote)};
  }
  int64_t local_offset() const { return offset_of(layer_count); }
  int64_t notes_offset() const { return local_offset() + local_slots * local.slot_bytes(); }
  // The layers that an image block holds, by their place in it: those with a window, if it keeps them, come last.
  int32_t kept_layers() const { return layer_count + (local_slots > 0 ? local.layers : 0); }
  int64_t kept_offset(int32_t place) const {
    return place < layer_count ? offset_of(place) : local_offset() + (place - layer_count) * kept_bytes(place);
  }
  /// Bytes of all its heads.
  int64_t kept_bytes(int32_t place) const {
    return place < layer_count ? block_layout(place).padded_bytes * kv_heads : local_slots * local.layer_slot_bytes();
  }
  KvLayer layer(int32_t index) const { return {index, format_of(index), scales, offset_of(index)}; }
  int64_t blocks_per_image() const { return blocks_of(image_slots, block_slots); }
  int64_t image_bytes() const { return blocks_per_image() * block_bytes(); }
  /// Codes (or f16 values) of one visual slot, and offsets and steps of one block, all layers.
  int64_t visual_slot_bytes() const {
    return sum_of_layers(layer_count, [](const KvBlockLayout& layout) { return layout.slot_bytes(); });
  }
  int64_t scale_bytes() const {
    return sum_of_layers(layer_count, [](const KvBlockLayout& layout) { return layout.keys; });
  }
  /// Maximum runs that a session of this many pages and blocks is listed as.
  int64_t tiles_of(int64_t pages, int64_t blocks, const TileLimits& limits) const {
    return pages + blocks * blocks_of(block_slots, limits.of(is_packed(format)));
  }

 private:
  int64_t offset_of(int32_t layer) const {
    return sum_of_layers(layer, [](const KvBlockLayout& layout) { return layout.padded_bytes; });
  }
  /// Bytes of the first `layers` layers, all heads.
  template <class Bytes>
  int64_t sum_of_layers(int32_t layers, Bytes bytes) const {
    if (layer_formats.empty()) return bytes(block_layout(0)) * layers * kv_heads;
    int64_t sum = 0;
    for (int32_t layer = 0; layer < layers; ++layer) sum += bytes(block_layout(layer)) * kv_heads;
    return sum;
  }
};

/// Equal blocks of memory with a stack of free ones.
class BlockPool {
 public:
  Status lay_out(const char* name, const char* index_name, int64_t block_bytes, int64_t count, RowSink& sink);
  /// Returns a block number, or -1 if all are taken.
  int32_t take();
  /// Takes `count` blocks, or none if fewer are free.
  bool take(int64_t count, int32_t* out);
  void release(int32_t block);
  /// In reverse order, so that the stack is as before.
  void release(const int32_t* blocks, int64_t count);
  std::byte* address(int32_t block) const { return memory_.data + block * memory_.cols; }
  int64_t block_bytes() const { return memory_.cols; }
  int64_t free_count() const { return free_count_; }
  int64_t taken_count() const { return memory_.rows - free_count_; }

 private:
  DeviceView<std::byte> memory_;  // [count, block_bytes]
  HostView<int32_t> free_;        // [1, count] stack
  int64_t free_count_ = 0;
};

struct KvPools {
  KvShape shape;
  BlockPool pages;
  BlockPool blocks;
  SharedPlaces shared;
  SlotLedger ledger;
  DeviceView<std::byte> rings;   // [sessions, bytes of a ring]
  DeviceView<std::byte> states;  // [sessions, bytes of the kept states]

  Status lay_out(const KvShape& shape_, RowSink& sink);
  /// Lays out image blocks alone, for staged images.
  Status lay_out_staged(const KvShape& shape_, RowSink& sink);
  /// Return an empty run over a page, or over an image block.
  KvRun page_run(int32_t page) const;
  KvRun block_run(int32_t block) const;
  /// The same in the layers with a window, if image blocks keep these.
  KvRun local_block_run(int32_t block) const;
  int64_t used_bytes() const {
    return pages.taken_count() * shape.page_bytes() + blocks.taken_count() * shape.block_bytes() +
           rings.rows * (rings.cols + states.cols);
  }
};

}  // namespace ocellus
