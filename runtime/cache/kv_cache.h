// The cache: fixed pools of text pages and image blocks, and per session the lists of pages and blocks taken from them.
//
// Keys are stored rotated at the position where they were computed, so a slot in the past needs no position and the
// order of listed slots does not matter to attention. Text of a session is dense: text token number i lies in its page
// i / kPageSlots at slot i % kPageSlots, regardless of images in between. An image owns a few blocks, f16 or packed. If
// all rows of a prompt compete for a share of the slots, those that stay lie in pages and blocks of their own:
// KeptSlots. Taking and releasing is O(1) and nothing fragments.
#pragma once

#include <cstdint>

#include "platform/arena.h"
#include "platform/queue.h"
#include "platform/status.h"
#include "runtime/cache/kept_slots.h"

namespace ocellus {

/// The slots of one session. They are reserved (pages and blocks are taken), filled layer by layer, and committed.
class SessionCache {
 public:
  Status lay_out(const KvShape& shape, const SessionLimits& limits, RowSink& sink);
  /// `session`: number of its ring.
  void attach(KvPools* pools, int64_t session = 0);
  const KvPools& pools() const { return *pools_; }
  const KvShape& shape() const { return pools_->shape; }
  const SlotLedger& ledger() const { return pools_->ledger; }
  LocalRing& ring() { return ring_; }
  const LocalRing& ring() const { return ring_; }

  int64_t text_slots() const { return text_slots_; }
  int32_t image_count() const { return image_count_; }
  /// Rows that were read and not released, dropped ones included.
  int64_t rows() const { return text_slots_ + packed_text() + image_rows_ + kept_.all_rows() + replaced_rows_; }
  int64_t text_rows() const { return text_slots_ + packed_text() + kept_.text_rows(); }
  KeptSlots& kept() { return kept_; }
  const KeptSlots& kept() const { return kept_; }
  /// Live slots in every layer and head, if images have no slots of their own.
  int64_t live_slots() const { return text_slots_ + kept_.live_slots(); }
  CacheBytes bytes() const;
  /// Bytes of the same rows as f16, nothing dropped.
  int64_t full_bytes() const { return rows() * (pools_->shape.slot_bytes() + pools_->shape.local.slot_bytes()); }

  /// Makes room for text slots [text_slots(), text_slots() + count). kFull if the pages are used up.
  Status reserve_text(int64_t count);
  /// Takes an image's blocks, or a shared place; *ordinal counts the session's images from 0. kFull if there are none.
  Status reserve_image(int32_t* ordinal);
  Status share_image(int32_t place, int32_t* ordinal);
  const StoredImage& image(int32_t ordinal) const { return images_.data[ordinal]; }
  int32_t place_of(int32_t ordinal) const { return image(ordinal).place; }
  /// See KeptSlots.
  Status reserve_kept(const KeptPrompt& rows) { return kept_.reserve(rows, page_count_); }
  Status reserve_spare(int64_t count) { return kept_.reserve_spare(count, page_count_); }

  /// True if the oldest text in pages, without the newest `window` tokens, fills a block and may be packed.
  bool has_text_to_pack(int32_t window) const;
  /// Takes the block; its pages are released when it is committed, and text slots are numbered after them. kFull.
  Status reserve_text_block(KvRun* out);
  void commit_text_block();
  /// Returns the run (for writing; its live count may end before the slot) and the slot in it for text slot `index`.
  KvRun text_place(int64_t index, int32_t* slot) const;
  /// Block `block` of an image, from its slot block * block_slots on. Local: in layers with a window, as an empty run.
  KvRun image_block(int32_t ordinal, int32_t block) const;
  KvRun local_image_block(int32_t ordinal, int32_t block) const;
  /// Calls visit(run) for slots [first, first + count) of an image, which need not be committed, block by block.
  template <class Visit>
  void visit_slots(int32_t ordinal, int32_t first, int32_t count, int32_t position_shift, Visit visit,
                   bool local = false) const;
  int32_t blocks_per_image() const { return static_cast<int32_t>(pools_->shape.blocks_per_image()); }
  /// Lists the live slots as runs within the limits: the past that attention reads, in any order.
  int64_t list_live(const TileLimits& limits, KvRun* out) const;
  /// Calls visit for each of these runs.
  template <class Visit>
  void visit_live(const TileLimits& limits, Visit visit) const;
  /// Lists runs for decoding: live slots, then every text page, reserved ones included, as if full. The session's text
  /// slot number i lies in tile *first_page + i / kPageSlots, slot i % kPageSlots.
  int64_t list_for_steps(const TileLimits& limits, KvRun* out, int32_t* first_page) const;

  /// Sets the next `position` after all slots, before which sinks are moved.
  void move_sinks(int64_t position) { kept_.move_sinks(position - live_slots()); }
  /// Counts a token of an answer that took another one's slot.
  void note_replaced() { ++replaced_rows_; }

  /// Makes `count` more slots live, in order. `weights`: of the rows, see StoredImage::again.
  void commit_text(int64_t count);
  void commit_image(int32_t ordinal, int32_t slots, int32_t rows, const int32_t* weights = nullptr);
  /// Commits an image of `slots` slots, of which those from `first_slot` on are read.
  void commit_linked(int32_t ordinal, int32_t slots, int32_t first_slot, int32_t position_shift);
  /// Excludes a slot of a reserved image from reading: its row stands among the text. In ascending order.
  void note_hole(int32_t ordinal, int32_t slot) { holes_.row(ordinal)[images_.data[ordinal].hole_count++] = slot; }
  /// Releases the blocks of the reserved images from number `first` of the session on.
  void release_reserved_images(int32_t first);
  void commit_kept();
  /// Releases all that holds no live slot: after a prefill that did not finish.
  void drop_uncommitted();
  CacheMark mark() const;
  /// False if rows that came after the mark have taken the place of rows before it: see LocalRing.
  bool can_rewind(const CacheMark& mark) const;
  void rewind(const CacheMark& mark);
  void reset() { rewind({}); }

  /// Drop the oldest image that has blocks of its own, or the survivors of the oldest prompt. Nothing may be reserved.
  void release_oldest_image();
  void release_oldest_kept();
  /// Drops all images but the first `count`, which hold what was kept of all. Nothing may be reserved.
  void keep_thinned(int32_t count);
  /// Drops text pages [first, first + count), which must be full. Nothing may be reserved.
  void release_text_pages(int32_t first, int32_t count);
  /// Records the position of a text slot or of an image's first slot when it is filled. Text comes in order.
  void note_text_position(int64_t index, int64_t position);
  void note_image_position(int32_t ordinal, int64_t position, int32_t cols = 0);
  /// Minimum position of live slots after the first `pages` pages, or `none` if there are none.
  int64_t oldest_position(int32_t pages, int64_t none) const;
  bool oldest_is_image(int32_t pages) const;
  /// Sum over the first `pages` pages, which are full, of the positions from their first to their last slot.
  int64_t span_of_pages(int32_t pages) const;
  /// Moves the first `pages` pages, which are full, together and up to position `end`; never down, and not across
  /// images between them.
  void move_pages(int32_t pages, int64_t end);

 private:
  /// Visits everything but text pages.
  template <class Visit>
  void visit_fixed(const TileLimits& limits, Visit visit) const;
  /// Visits the slots of an image that are read.
  template <class Visit>
  void visit_image(int32_t ordinal, const TileLimits& limits, Visit visit) const;
  KvRun text_page(int32_t page) const;
  KvRun text_block(int32_t block) const;
  int64_t packed_text() const { return int64_t{text_block_count_} * pools_->shape.block_slots; }
  Status check_image_room() const;
  int32_t list_image(int32_t place);
  void release_image(int32_t ordinal);

  KvPools* pools_ = nullptr;
  LocalRing ring_;
  HostView<TextPage> pages_;       // text pages, in order
  HostView<int32_t> text_blocks_;  // blocks of text packed after it was read, in order
  HostView<int32_t> blocks_;       // blocks_per_image() for each image, then none; or blocks of survivors
  HostView<StoredImage> images_;
  HostView<int32_t> holes_;  // [images, holes]
  KeptSlots kept_;
  int32_t page_count_ = 0;
  int32_t block_count_ = 0;
  int32_t own_image_count_ = 0;   // images with blocks of their own, reserved ones included
  int32_t text_block_count_ = 0;  // committed
  bool text_block_reserved_ = false;
  int32_t image_count_ = 0;  // committed
  int64_t text_slots_ = 0;
  int64_t image_rows_ = 0;
  int64_t replaced_rows_ = 0;
};

}  // namespace ocellus

#include "runtime/cache/kv_visit.h"  // template definitions
