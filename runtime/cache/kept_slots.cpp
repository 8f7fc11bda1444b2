#include "runtime/cache/kept_slots.h"

#include <algorithm>
#include <numeric>

namespace ocellus {
namespace {

/// Returns the first pair of rows of counts that none of the prompts has.
int32_t unused_counts(const HostView<KeptPrompt>& prompts, int32_t count) {
  const KeptPrompt *const begin = prompts.data, *const end = begin + count;
  const auto is_used = [&](int32_t row) {
    return std::any_of(begin, end, [row](const KeptPrompt& rows) { return rows.counts_row == row; });
  };
  int32_t row = 0;
  while (is_used(row)) row += 2;
  return row;
}

}  // namespace

Status KeptSlots::lay_out(const KvShape& shape, const SessionLimits& limits, const HostView<int32_t>& blocks,
                          RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  blocks_ = blocks;
  if (limits.kept_prompts == 0) return {};
  OCELLUS_TRY(take_rows(sink, "kv pages of survivors", kLife, Phase::kNone, 1, limits.pages, &pages_));
  OCELLUS_TRY(take_rows(sink, "kv evictions", kLife, Phase::kNone, 1, limits.kept_prompts, &prompts_));
  const int64_t of_blocks = shape.counts_blocks() ? limits.blocks : 0;
  return counts_.lay_out(sink, "kv live counts", kLife, Phase::kNone, 2 * limits.kept_prompts + of_blocks,
                         int64_t{shape.layer_count} * shape.kv_heads);
}

int64_t KeptSlots::text_rows() const {
  return std::accumulate(prompts_.data, prompts_.data + count_, text_rows_,
                         [](int64_t sum, const KeptPrompt& rows) { return sum + rows.added; });
}

int64_t KeptSlots::live_slots() const {
  return std::accumulate(prompts_.data, prompts_.data + count_, int64_t{0},
                         [](int64_t sum, const KeptPrompt& rows) { return sum + rows.slots; });
}

Status KeptSlots::reserve(const KeptPrompt& rows, int32_t text_pages) {
  const int64_t pages = blocks_of(rows.text, kPageSlots);
  const int64_t blocks = rows.visual == 0 ? 0 : blocks_of(rows.visual, pools_->shape.block_slots);
  if (count_ >= prompts_.cols || text_pages + page_count_ + pages > pages_.cols ||
      block_count_ + blocks > blocks_.cols || pools_->blocks.free_count() < blocks ||
      !pools_->pages.take(pages, pages_.data + page_count_))
    return OCELLUS_FAIL(Code::kFull,
                        "the session has no room for the kept slots of %d more rows: plan more images, or more "
                        "text tokens",
                        rows.rows);
  (void)pools_->blocks.take(blocks, blocks_.data + block_count_);
  KeptPrompt& taken = prompts_.data[count_];
  taken = rows;
  taken.counts_row = unused_counts(prompts_, count_);
  taken.first_page = page_count_;
  taken.first_block = block_count_;
  page_count_ += static_cast<int32_t>(pages);
  block_count_ += static_cast<int32_t>(blocks);
  is_reserved_ = true;
  return {};
}

int32_t KeptSlots::most(int32_t line) const {
  const int32_t* const counts = counts_.host.row(line);
  return *std::max_element(counts, counts + counts_.host.cols);
}

/// Releases the last pages, so that `count` are left.
void KeptSlots::cut_pages(int32_t count) {
  while (page_count_ > count) pools_->pages.release(pages_.data[--page_count_]);
}

void KeptSlots::shrink() {
  KeptPrompt& rows = prompts_.data[count_];
  const int32_t old_blocks = blocks(count_);
  rows.text = std::min(rows.text, most(rows.counts_row));
  if (old_blocks > 0) rows.visual = std::min(rows.visual, most(rows.counts_row + 1));
  rows.slots = std::min(rows.slots, rows.text + rows.visual);
  const int32_t kept = blocks(count_);
  cut_pages(rows.first_page + pages(count_));
  pools_->blocks.release(blocks_.data + rows.first_block + kept, old_blocks - kept);
  block_count_ -= old_blocks - kept;
}

void KeptSlots::commit() {
  rows_ += rows(count_).rows;
  text_rows_ += rows(count_).text_rows;
  ++count_;
  is_reserved_ = false;
}

void KeptSlots::release_reserved() {
  if (!is_reserved_) return;
  pools_->blocks.release(blocks_.data + rows(count_).first_block, blocks(count_));
  block_count_ = rows(count_).first_block;
  cut_pages(rows(count_).first_page);
  is_reserved_ = false;
}

void KeptSlots::release_newest() {
  --count_;
  rows_ -= rows(count_).rows;
  text_rows_ -= rows(count_).text_rows;
  is_reserved_ = true;
  release_reserved();
}

void KeptSlots::release_oldest() {
  const int32_t pages_before = pages(0), blocks_before = blocks(0);
  rows_ -= rows(0).rows;
  text_rows_ -= rows(0).text_rows;
  pools_->pages.release(pages_.data, pages_before);
  pools_->blocks.release(blocks_.data, blocks_before);
  erase(pages_.data, page_count_, 0, pages_before);
  erase(blocks_.data, block_count_, 0, blocks_before);
  erase(prompts_.data, count_, 0, 1);
  page_count_ -= pages_before;
  block_count_ -= blocks_before;
  --count_;
  for (int32_t i = 0; i < count_; ++i) {
    prompts_.data[i].first_page -= pages_before;
    prompts_.data[i].first_block -= blocks_before;
  }
}

int64_t KeptSlots::f16_slots(int32_t prompt) const {
  return rows(prompt).text + rows(prompt).added + (prompt + 1 == count_ ? spare_slots_ : 0);
}

int32_t KeptSlots::first_block_count(int32_t prompt) const {
  return static_cast<int32_t>(2 * prompts_.cols) + rows(prompt).first_block;
}

int32_t KeptSlots::pages(int32_t prompt) const {
  return static_cast<int32_t>(blocks_of(f16_slots(prompt), kPageSlots));
}

int32_t KeptSlots::blocks(int32_t prompt) const {
  const int32_t visual = rows(prompt).visual;
  return visual == 0 ? 0 : static_cast<int32_t>(blocks_of(visual, pools_->shape.block_slots));
}

KvSlot KeptSlots::slot(int64_t slot) const {
  const auto at = static_cast<int32_t>(slot / kPageSlots);
  return run_slot(page(count_, at), slot % kPageSlots, pools_->shape.head_dim);
}

KvRun KeptSlots::page(int32_t prompt, int32_t page) const {
  KvRun run = pools_->page_run(pages_.data[rows(prompt).first_page + page]);
  run.counted_before = page * kPageSlots;
  run.slots = static_cast<int32_t>(std::min<int64_t>(f16_slots(prompt) - run.counted_before, kPageSlots));
  run.counts = text_counts(prompt);
  return run;
}

KvRun KeptSlots::block(int32_t prompt, int32_t block) const {
  KvRun run = pools_->block_run(blocks_.data[rows(prompt).first_block + block]);
  run.counted_before = block * pools_->shape.block_slots;
  run.slots = std::min(rows(prompt).visual - run.counted_before, pools_->shape.block_slots);
  run.counts = visual_counts(prompt);
  if (prompt >= count_ || !pools_->shape.counts_blocks()) return run;
  run.counted_before = 0;
  run.counts = counts_.device.row(first_block_count(prompt) + block);
  return run;
}

DeviceView<int32_t> KeptSlots::block_counts() const {
  if (!pools_->shape.counts_blocks()) return {};
  return counts_.device.slice_rows(first_block_count(count_), blocks(count_));
}

int64_t KeptSlots::most_packed() const {
  int64_t most = 0;
  for (int64_t line = 0; pools_->shape.counts_blocks() && line < counts_.host.cols; ++line) {
    int64_t live = 0;
    for (int32_t i = 0; i < count_; ++i)
      for (int32_t b = 0; b < blocks(i); ++b) live += counts_.host.row(first_block_count(i) + b)[line];
    most = std::max(most, live);
  }
  return most;
}

Status KeptSlots::reserve_spare(int64_t count, int32_t text_pages) {
  if (count == 0) return {};
  spare_slots_ = count;
  const int32_t wanted = rows(count_ - 1).first_page + pages(count_ - 1);
  while (page_count_ < wanted) {
    const int32_t page = text_pages + page_count_ < pages_.cols ? pools_->pages.take() : -1;
    if (page < 0) {
      release_spare();
      return OCELLUS_FAIL(Code::kFull, "the session has no room for %lld more text tokens: plan more text tokens",
                          static_cast<long long>(count));
    }
    pages_.data[page_count_++] = page;
  }
  return {};
}

void KeptSlots::note_added(bool known) {
  if (spare_slots_ == 0) return;
  KeptPrompt& rows = prompts_.data[count_ - 1];
  const int64_t live = known ? most(rows.counts_row) : f16_slots(count_ - 1);
  rows.added = static_cast<int32_t>(std::max<int64_t>(rows.added, live - rows.text));
  release_spare();
}

void KeptSlots::release_spare() {
  if (spare_slots_ == 0) return;
  spare_slots_ = 0;
  cut_pages(rows(count_ - 1).first_page + pages(count_ - 1));
}

/// Returns the sink slots, which lie in one page.
KvRun KeptSlots::sinks() const {
  const KvRun first = page(0, 0);
  KvRun run = slice_run(first, 0, std::min(sink_slots_, first.slots), pools_->shape.head_dim);
  run.position_shift = sink_shift_;
  return run;
}

KvRun KeptSlots::behind_sinks(const KvRun& page) const {
  const int32_t first = std::min(sink_slots_, page.slots);
  return first == 0 ? page : slice_run(page, first, page.slots - first, pools_->shape.head_dim);
}

void KeptSlots::fetch_counts(int32_t prompt, Queue& queue) {
  if (counts_.host.data == counts_.device.data) return;
  const auto fetch = [&](int32_t first, int64_t rows) {
    queue.copy(counts_.host.row(first), counts_.device.row(first), rows * counts_.host.cols * int64_t{sizeof(int32_t)});
  };
  fetch(rows(prompt).counts_row, 2);
  if (pools_->shape.counts_blocks()) fetch(first_block_count(prompt), blocks(prompt));
}

template <class Visit>
void KeptSlots::visit_layers(int32_t prompt, bool visual, Visit visit) const {
  const KvShape& shape = pools_->shape;
  const bool by_block = visual && shape.counts_blocks();
  const int32_t first = by_block ? first_block_count(prompt) : rows(prompt).counts_row + (visual ? 1 : 0);
  const int32_t end = first + (by_block ? blocks(prompt) : 1);
  for (int32_t layer = 0; layer < shape.layer_count; ++layer) {
    int64_t live = 0;
    for (int32_t row = first; row < end; ++row) {
      const int32_t* const counts = counts_.host.row(row) + int64_t{layer} * shape.kv_heads;
      live = std::accumulate(counts, counts + shape.kv_heads, live);
    }
    visit(layer, live);
  }
}

void KeptSlots::add_bytes(CacheBytes* bytes, int64_t* in_blocks, int64_t* used_blocks) const {
  const int64_t slot_elements = 2 * int64_t{pools_->shape.head_dim};  // per slot in one layer and head
  for (int32_t i = 0; i < count_; ++i) {
    visit_layers(i, false, [&](int32_t, int64_t slots) { bytes->payload += slots * slot_elements * 2; });
    if (blocks(i) == 0) continue;
    visit_layers(i, true, [&](int32_t layer, int64_t slots) {
      *in_blocks += slots * pools_->shape.block_layout(layer).slot_bytes();
      bytes->block_elements += slots * slot_elements;
    });
    *used_blocks += blocks(i);
  }
}

}  // namespace ocellus
