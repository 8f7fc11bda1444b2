// KeptSlots: slots that rows keep which competed for them, in pages and blocks of their own, with live counts by layer
// and head. A part of a session's cache: see SessionCache.
#pragma once

#include <cstdint>

#include "platform/arena.h"
#include "platform/queue.h"
#include "platform/status.h"
#include "runtime/cache/kv_pools.h"
#include "runtime/cache/kv_segments.h"

namespace ocellus {

/// Slots by prompt, or part of one. One is reserved at a time, filled layer by layer, and committed.
class KeptSlots {
 public:
  /// `blocks`: the session's list of blocks. Images have none of their own where rows compete.
  Status lay_out(const KvShape& shape, const SessionLimits& limits, const HostView<int32_t>& blocks, RowSink& sink);
  void attach(KvPools* pools) { pools_ = pools; }

  /// Number of committed prompts; that of the reserved one.
  int32_t count() const { return count_; }
  const KeptPrompt& rows(int32_t prompt) const { return prompts_.data[prompt]; }
  int32_t page_count() const { return page_count_; }
  int32_t block_count() const { return block_count_; }
  /// Rows that were read, and text among them with tokens of answers that packed slots gave way to.
  int64_t all_rows() const { return rows_; }
  int64_t text_rows() const;
  /// Live slots in every layer and head.
  int64_t live_slots() const;
  /// Adds payload and elements of blocks; *in_blocks: bytes of live slots there, *used_blocks: their number.
  void add_bytes(CacheBytes* bytes, int64_t* in_blocks, int64_t* used_blocks) const;

  /// Takes pages and blocks; the session has `text_pages` of text. kFull if there are none.
  Status reserve(const KeptPrompt& rows, int32_t text_pages);
  /// Releases reserved pages and blocks that hold nothing in any layer and head, by the counts on the host.
  void shrink();
  void commit();
  void release_reserved();
  /// Releases the newest committed prompt.
  void release_newest();
  void release_oldest();

  // Pages and blocks of a prompt, including a reserved one. Slots: their maximum.
  int32_t pages(int32_t prompt) const;
  int32_t blocks(int32_t prompt) const;
  KvRun page(int32_t prompt, int32_t page) const;
  /// A reserved block is filled by visual_counts, a committed one may have live counts of its own.
  KvRun block(int32_t prompt, int32_t block) const;
  /// Returns a slot of the reserved pages.
  KvSlot slot(int64_t slot) const;

  /// Live slots by layer and head, [layers, heads] each, in device memory.
  int32_t* text_counts(int32_t prompt) const { return counts_.device.row(rows(prompt).counts_row); }
  int32_t* visual_counts(int32_t prompt) const { return counts_.device.row(rows(prompt).counts_row + 1); }
  /// [blocks, layers * heads] counts of the reserved prompt's blocks; empty unless shape.counts_blocks().
  DeviceView<int32_t> block_counts() const;
  /// Copies a prompt's counts to the host, for bytes. Call it when the device has finished the prompt or answer.
  void fetch_counts(int32_t prompt, Queue& queue);
  /// Maximum over layers and heads of live packed slots, by the counts on the host.
  int64_t most_packed() const;
  /// Takes pages for `count` tokens of an answer that packed slots give way to; release_spare releases what note_added
  /// does not keep. kFull.
  Status reserve_spare(int64_t count, int32_t text_pages);
  /// Keeps the spare slots that live in some head, by the counts on the host; all if these are not `known`.
  void note_added(bool known);
  void release_spare();

  /// Makes the first `slots` slots of the oldest prompt sinks: they are read as if they stood right before all others;
  /// move_sinks sets how far they move.
  void set_sinks(int32_t slots) { sink_slots_ = slots; }
  void move_sinks(int64_t shift) { sink_shift_ = static_cast<int32_t>(shift > 0 ? shift : 0); }
  bool has_sinks() const { return sink_slots_ > 0 && count_ > 0; }

  /// Calls visit(run) for all of them, within the limits.
  template <class Visit>
  void visit_runs(const TileLimits& limits, Visit visit) const;

 private:
  /// Calls visit(layer, live slots of all its heads together).
  template <class Visit>
  void visit_layers(int32_t prompt, bool visual, Visit visit) const;
  int64_t f16_slots(int32_t prompt) const;          // slots of its pages
  int32_t first_block_count(int32_t prompt) const;  // row of counts_
  int32_t most(int32_t line) const;
  void cut_pages(int32_t count);
  KvRun sinks() const;
  KvRun behind_sinks(const KvRun& run) const;

  KvPools* pools_ = nullptr;
  HostView<KeptPrompt> prompts_;
  HostView<int32_t> pages_, blocks_;
  StagedRows<int32_t> counts_;  // [2 * prompts + blocks that have counts, layers * heads]
  int32_t page_count_ = 0, block_count_ = 0;
  int32_t count_ = 0;  // committed
  bool is_reserved_ = false;
  int64_t rows_ = 0, text_rows_ = 0;
  int64_t spare_slots_ = 0;  // reserved at the end of the newest prompt's pages
  int32_t sink_slots_ = 0, sink_shift_ = 0;
};

template <class Visit>
void KeptSlots::visit_runs(const TileLimits& limits, Visit visit) const {
  if (has_sinks()) visit(sinks());
  for (int32_t i = 0; i < count_; ++i) {
    for (int32_t b = 0; b < blocks(i); ++b) visit_pieces(block(i, b), limits, pools_->shape.head_dim, visit);
    for (int32_t p = 0; p < pages(i); ++p)
      if (const KvRun run = i + p == 0 ? behind_sinks(page(i, p)) : page(i, p); run.slots > 0) visit(run);
  }
}

}  // namespace ocellus
