// The cache: fixed pools of image slots and text pages, and per session a list of segments drawn from them.
//
// Keys are stored rotated at the position where they were computed, so that a slot in the past needs no position and
// the order of segments does not matter to attention. Text of a session is dense: text token number i lies in its
// page i / kPageSlots at slot i % kPageSlots, whatever images stand between. An image owns one image slot.
// Taking and releasing is O(1) and nothing fragments.
#pragma once

#include <cstdint>

#include "kernels/kv_run.h"
#include "platform/arena.h"
#include "platform/device.h"
#include "platform/status.h"

namespace ocellus {

template <>
struct TypeName<KvRun> {
  static constexpr const char* value = "run";
};
template <>
struct TypeName<KvSlot> {
  static constexpr const char* value = "slot";
};

/// Slots of one text page.
inline constexpr int32_t kPageSlots = 16;

/// Most slots of a run as attention is given it: see kTileSlots.
inline int32_t tile_slots(const DeviceTraits& device) { return device.is_cuda() ? kTileSlots : INT32_MAX; }

/// What one cache slot looks like and how many the pools hold.
struct KvShape {
  int32_t layer_count = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t image_slots = 0;  // slots of one image: views times tokens per view
  int64_t page_count = 0;
  int64_t image_count = 0;

  /// Keys and values of one token, all layers, f16.
  int64_t slot_bytes() const { return int64_t{4} * layer_count * kv_heads * head_dim; }
  /// Most runs that a session of this many pages and images is listed as.
  int64_t tiles_of(int64_t pages, int64_t images, int32_t most_slots) const {
    return pages + images * ((int64_t{image_slots} + most_slots - 1) / most_slots);
  }
  int64_t page_bytes() const { return slot_bytes() * kPageSlots; }
  int64_t image_bytes() const { return slot_bytes() * image_slots; }
};

/// Equal blocks of memory with a stack of free ones.
class BlockPool {
 public:
  Status lay_out(const char* name, const char* index_name, int64_t block_bytes, int64_t count, RowSink& sink);
  /// Block number, or -1 if all are taken.
  int32_t take();
  void release(int32_t block);
  std::byte* address(int32_t block) const { return memory_.data + block * memory_.cols; }
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
  BlockPool images;

  Status lay_out(const KvShape& shape_, RowSink& sink);
  /// An empty run over a block: `capacity` slots per head, layer by layer, head by head, keys before values.
  KvRun run_over(std::byte* block, int32_t capacity) const;
  int64_t used_bytes() const {
    return pages.taken_count() * shape.page_bytes() + images.taken_count() * shape.image_bytes();
  }
};

enum class SegmentKind : uint8_t { kText, kImage };

/// The segments of one session in the order they were taken. runs()[i] is what attention reads of segment i; its
/// `slots` is the live count. Slots are first reserved (blocks are taken), then filled layer by layer, then committed.
class SessionCache {
 public:
  Status lay_out(int64_t max_pages, int64_t max_images, RowSink& sink);
  void attach(KvPools* pools) { pools_ = pools; }

  const KvRun* runs() const { return runs_.data; }
  int32_t run_count() const { return run_count_; }
  int64_t text_slots() const { return text_slots_; }
  int32_t image_count() const { return image_count_; }
  int64_t image_slots() const { return image_slots_; }
  int64_t slots() const { return text_slots_ + image_slots_; }
  /// Live slots times their f16 size.
  int64_t bytes() const { return slots() * pools_->shape.slot_bytes(); }

  /// Makes room for text slots [text_slots(), text_slots() + count). kFull if the pages are used up.
  Status reserve_text(int64_t count);
  /// Takes an image slot; *ordinal counts the session's images from 0. kFull if none is free.
  Status reserve_image(int32_t* ordinal);

  /// Where text slot `index` lives: the run (for writing; its live count may lie before the slot) and the slot in it.
  KvRun text_place(int64_t index, int32_t* slot) const;
  KvRun image_place(int32_t ordinal) const { return runs_.data[image_run_.data[ordinal]]; }

  /// The live slots as runs of at most `most_slots` each, images first; returns their number. What attention reads of
  /// the past: the order of past slots does not matter to it.
  int64_t list_live(int32_t most_slots, KvRun* out) const;
  /// The same for decoding: live slots of images, then every page, reserved ones too, as if full. The session's text
  /// slot number i lies in tile *first_page + i / kPageSlots, slot i % kPageSlots.
  int64_t list_for_steps(int32_t most_slots, KvRun* out, int32_t* first_page) const;

  /// Makes `count` more slots live, in order.
  void commit_text(int64_t count);
  void commit_image(int32_t ordinal, int32_t count);
  /// Gives back blocks that hold no live slot: after a prefill that did not finish.
  void drop_uncommitted();
  /// Back to an earlier state, when `text_slots` text slots and `image_count` images were live and nothing was
  /// reserved.
  void rewind(int64_t text_slots, int32_t image_count);
  void reset() { rewind(0, 0); }

 private:
  struct Segment {
    SegmentKind kind;
    int32_t block;
  };
  KvRun* add_segment(SegmentKind kind, int32_t block, std::byte* memory, int32_t capacity);

  KvPools* pools_ = nullptr;
  int64_t list_images(int32_t most_slots, KvRun* out) const;

  HostView<KvRun> runs_;         // [1, max_pages + max_images]
  HostView<Segment> segments_;   // the same order
  HostView<int32_t> page_run_;   // run of the session's i-th text page
  HostView<int32_t> image_run_;  // run of the session's i-th image
  int32_t run_count_ = 0;
  int32_t page_count_ = 0;
  int32_t image_count_ = 0;  // committed images
  int32_t reserved_images_ = 0;
  int64_t text_slots_ = 0;
  int64_t image_slots_ = 0;
};

}  // namespace ocellus
