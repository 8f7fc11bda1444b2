#include "runtime/cache/kv_cache.h"

#include <algorithm>
#include <numeric>

namespace ocellus {
namespace {

/// Takes `count` blocks, or none if fewer are free.
bool take_blocks(BlockPool& pool, int64_t count, int32_t* out) {
  if (pool.free_count() < count) return false;
  for (int64_t i = 0; i < count; ++i) out[i] = pool.take();
  return true;
}

/// Returns the first pair of rows of counts that none of the evictions has.
int32_t unused_counts(const HostView<EvictedRows>& evictions, int32_t count) {
  const EvictedRows *const begin = evictions.data, *const end = begin + count;
  const auto is_used = [&](int32_t row) {
    return std::any_of(begin, end, [row](const EvictedRows& rows) { return rows.counts_row == row; });
  };
  int32_t row = 0;
  while (is_used(row)) row += 2;
  return row;
}

}  // namespace

Status SessionCache::lay_out(const KvShape& shape, const SessionLimits& limits, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  const auto take_list = [&](const char* name, int64_t count, auto* out) {
    return take_rows(sink, name, kLife, Phase::kNone, 1, count, out);
  };
  if (!limits.staged) OCELLUS_TRY(take_list("kv pages of text", limits.pages, &pages_));
  OCELLUS_TRY(take_list(limits.staged ? "staged blocks" : "kv blocks of images", limits.blocks, &blocks_));
  OCELLUS_TRY(take_list(limits.staged ? "staged images" : "kv images", limits.images, &images_));
  if (limits.holes > 0)
    OCELLUS_TRY(take_rows(sink, "kv holes in images", kLife, Phase::kNone, limits.images, limits.holes, &holes_));
  if (limits.text_blocks > 0) OCELLUS_TRY(take_list("kv blocks of text", limits.text_blocks, &text_blocks_));
  if (limits.evictions == 0) return {};
  OCELLUS_TRY(take_list("kv pages of survivors", limits.pages, &evicted_pages_));
  OCELLUS_TRY(take_list("kv evictions", limits.evictions, &evictions_));
  const int64_t of_blocks = shape.counts_blocks() ? limits.blocks : 0;
  return counts_.lay_out(sink, "kv live counts", kLife, Phase::kNone, 2 * limits.evictions + of_blocks,
                         int64_t{shape.layer_count} * shape.kv_heads);
}

void SessionCache::attach(KvPools* pools, int64_t session) {
  pools_ = pools;
  if (pools->shape.local.rings > 0) ring_.attach(pools->shape.local, pools->rings.row(session));
}

Status SessionCache::reserve_text(int64_t count) {
  const int64_t pages_needed = blocks_of(text_slots_ + count, kPageSlots);
  while (page_count_ < pages_needed) {
    const int32_t page = page_count_ + evicted_page_count_ < pages_.cols ? pools_->pages.take() : -1;
    if (page < 0)
      return OCELLUS_FAIL(Code::kFull, "the session has no room for %lld more text tokens: plan more text tokens",
                          static_cast<long long>(count));
    pages_.data[page_count_++] = {.page = page};
  }
  return {};
}

Status SessionCache::check_image_room() const {
  if (own_image_count_ < images_.cols && block_count_ + pools_->shape.blocks_per_image() <= blocks_.cols) return {};
  return OCELLUS_FAIL(Code::kFull, "the session holds its planned %lld images already: plan more images",
                      static_cast<long long>(images_.cols));
}

/// Adds an image: its blocks are those of a shared place, or at the end of the list already.
int32_t SessionCache::list_image(int32_t place) {
  if (place >= 0) std::copy_n(pools_->shared.blocks(place), blocks_per_image(), blocks_.data + block_count_);
  block_count_ += blocks_per_image();
  images_.data[own_image_count_] = {.place = place};
  return own_image_count_++;
}

Status SessionCache::reserve_image(int32_t* ordinal) {
  OCELLUS_TRY(check_image_room());
  KvPools& pools = *pools_;
  if (pools.shape.owns_images()) {
    if (!take_blocks(pools.blocks, blocks_per_image(), blocks_.data + block_count_))
      return OCELLUS_FAIL(Code::kFull, "all planned image blocks are taken: plan more images");
    *ordinal = list_image(-1);
    return {};
  }
  const int32_t place = pools.shared.take(pools.blocks);
  if (place < 0)
    return OCELLUS_FAIL(Code::kFull,
                        "sessions link all %lld planned shared images: plan more (shared_images), or reset a session",
                        static_cast<long long>(pools.shared.count()));
  *ordinal = list_image(place);
  return {};
}

Status SessionCache::share_image(int32_t place, int32_t* ordinal) {
  OCELLUS_TRY(check_image_room());
  pools_->shared.add_user(place);
  *ordinal = list_image(place);
  return {};
}

/// Ends the session's hold on an image's blocks.
void SessionCache::release_image(int32_t ordinal) {
  if (const int32_t place = place_of(ordinal); place >= 0)
    pools_->shared.release(place, pools_->blocks);
  else
    pools_->blocks.release(blocks_.data + ordinal * blocks_per_image(), blocks_per_image());
}

Status SessionCache::reserve_evicted(const EvictedRows& rows) {
  const int64_t pages = blocks_of(rows.text, kPageSlots);
  const int64_t blocks = rows.visual == 0 ? 0 : blocks_of(rows.visual, pools_->shape.block_slots);
  if (eviction_count_ >= evictions_.cols || page_count_ + evicted_page_count_ + pages > pages_.cols ||
      block_count_ + blocks > blocks_.cols || pools_->blocks.free_count() < blocks ||
      !take_blocks(pools_->pages, pages, evicted_pages_.data + evicted_page_count_))
    return OCELLUS_FAIL(Code::kFull,
                        "the session has no room for the kept slots of %d more rows: plan more images, or more "
                        "text tokens",
                        rows.rows);
  (void)take_blocks(pools_->blocks, blocks, blocks_.data + block_count_);
  EvictedRows& taken = evictions_.data[eviction_count_];
  taken = rows;
  taken.counts_row = unused_counts(evictions_, eviction_count_);
  taken.first_page = evicted_page_count_;
  taken.first_block = block_count_;
  evicted_page_count_ += static_cast<int32_t>(pages);
  block_count_ += static_cast<int32_t>(blocks);
  eviction_reserved_ = true;
  return {};
}

bool SessionCache::has_text_to_pack(int32_t window) const {
  return text_block_count_ < text_blocks_.cols && text_slots_ >= window + pools_->shape.block_slots;
}

Status SessionCache::reserve_text_block(KvRun* out) {
  if (!take_blocks(pools_->blocks, 1, text_blocks_.data + text_block_count_))
    return OCELLUS_FAIL(Code::kFull, "the session has no block left to pack text into");
  text_block_reserved_ = true;
  *out = text_block(text_block_count_);
  return {};
}

void SessionCache::commit_text_block() {
  text_block_reserved_ = false;
  ++text_block_count_;
  release_text_pages(0, pools_->shape.block_slots / kPageSlots);
}

KvRun SessionCache::text_block(int32_t block) const {
  KvRun run = pools_->block_run(text_blocks_.data[block]);
  run.slots = pools_->shape.block_slots;
  return run;
}

void SessionCache::shrink_evicted() {
  EvictedRows& rows = evictions_.data[eviction_count_];
  const auto most = [&](int32_t line) {
    const int32_t* const counts = counts_.host.row(line);
    return *std::max_element(counts, counts + counts_.host.cols);
  };
  const int32_t pages = evicted_pages(eviction_count_), blocks = evicted_blocks(eviction_count_);
  rows.text = std::min(rows.text, most(evicted(eviction_count_).counts_row));
  if (blocks > 0) rows.visual = std::min(rows.visual, most(evicted(eviction_count_).counts_row + 1));
  rows.slots = std::min(rows.slots, rows.text + rows.visual);
  const int32_t kept_pages = evicted_pages(eviction_count_), kept_blocks = evicted_blocks(eviction_count_);
  pools_->pages.release(evicted_pages_.data + rows.first_page + kept_pages, pages - kept_pages);
  pools_->blocks.release(blocks_.data + rows.first_block + kept_blocks, blocks - kept_blocks);
  evicted_page_count_ -= pages - kept_pages;
  block_count_ -= blocks - kept_blocks;
}

KvRun SessionCache::text_page(int32_t page) const {
  KvRun run = pools_->page_run(pages_.data[page].page);
  run.slots = static_cast<int32_t>(std::clamp<int64_t>(text_slots_ - int64_t{page} * kPageSlots, 0, kPageSlots));
  run.position_shift = pages_.data[page].position_shift;
  return run;
}

KvRun SessionCache::text_place(int64_t index, int32_t* slot) const {
  *slot = static_cast<int32_t>(index % kPageSlots);
  return text_page(static_cast<int32_t>(index / kPageSlots));
}

KvRun SessionCache::image_block(int32_t ordinal, int32_t block) const {
  const StoredImage& image = images_.data[ordinal];
  KvRun run = pools_->block_run(blocks_.data[ordinal * blocks_per_image() + block]);
  run.slots = std::clamp(image.slots - block * pools_->shape.block_slots, 0, pools_->shape.block_slots);
  return run;
}

KvRun SessionCache::local_image_block(int32_t ordinal, int32_t block) const {
  return pools_->local_block_run(blocks_.data[ordinal * blocks_per_image() + block]);
}

int64_t SessionCache::f16_slots(int32_t eviction) const {
  const int64_t spare = eviction + 1 == eviction_count_ ? spare_slots_ : 0;
  return evicted(eviction).text + evicted(eviction).added + spare;
}

int32_t SessionCache::first_block_count(int32_t eviction) const {
  return static_cast<int32_t>(2 * evictions_.cols) + evicted(eviction).first_block;
}

int32_t SessionCache::evicted_pages(int32_t eviction) const {
  return static_cast<int32_t>(blocks_of(f16_slots(eviction), kPageSlots));
}

int32_t SessionCache::evicted_blocks(int32_t eviction) const {
  const EvictedRows& rows = evicted(eviction);
  return rows.visual == 0 ? 0 : static_cast<int32_t>(blocks_of(rows.visual, pools_->shape.block_slots));
}

KvSlot SessionCache::evicted_slot(int64_t slot) const {
  const auto page = static_cast<int32_t>(slot / kPageSlots);
  return run_slot(evicted_page(eviction_count_, page), slot % kPageSlots, pools_->shape.head_dim);
}

KvRun SessionCache::evicted_page(int32_t eviction, int32_t page) const {
  const EvictedRows& rows = evicted(eviction);
  KvRun run = pools_->page_run(evicted_pages_.data[rows.first_page + page]);
  run.counted_before = page * kPageSlots;
  run.slots = static_cast<int32_t>(std::min<int64_t>(f16_slots(eviction) - run.counted_before, kPageSlots));
  run.counts = text_counts(eviction);
  return run;
}

KvRun SessionCache::evicted_block(int32_t eviction, int32_t block) const {
  const EvictedRows& rows = evicted(eviction);
  KvRun run = pools_->block_run(blocks_.data[rows.first_block + block]);
  run.counted_before = block * pools_->shape.block_slots;
  run.slots = std::min(rows.visual - run.counted_before, pools_->shape.block_slots);
  run.counts = visual_counts(eviction);
  if (eviction >= eviction_count_ || !pools_->shape.counts_blocks()) return run;
  run.counted_before = 0;
  run.counts = counts_.device.row(first_block_count(eviction) + block);
  return run;
}

int64_t SessionCache::live_slots() const {
  int64_t count = text_slots_;
  for (int32_t i = 0; i < eviction_count_; ++i) count += evicted(i).slots;
  return count;
}

int64_t SessionCache::added_slots() const {
  int64_t count = 0;
  for (int32_t i = 0; i < eviction_count_; ++i) count += evicted(i).added;
  return count;
}

DeviceView<int32_t> SessionCache::block_counts() const {
  if (!pools_->shape.counts_blocks()) return {};
  return counts_.device.slice_rows(first_block_count(eviction_count_), evicted_blocks(eviction_count_));
}

int64_t SessionCache::most_packed() const {
  int64_t most = 0;
  for (int64_t line = 0; pools_->shape.counts_blocks() && line < counts_.host.cols; ++line) {
    int64_t live = 0;
    for (int32_t i = 0; i < eviction_count_; ++i)
      for (int32_t b = 0; b < evicted_blocks(i); ++b) live += counts_.host.row(first_block_count(i) + b)[line];
    most = std::max(most, live);
  }
  return most;
}

Status SessionCache::reserve_spare(int64_t count) {
  if (count == 0) return {};
  spare_slots_ = count;
  const int32_t first = evicted(eviction_count_ - 1).first_page;
  while (evicted_page_count_ < first + evicted_pages(eviction_count_ - 1)) {
    const int32_t page = page_count_ + evicted_page_count_ < pages_.cols ? pools_->pages.take() : -1;
    if (page < 0) {
      release_spare();
      return OCELLUS_FAIL(Code::kFull, "the session has no room for %lld more text tokens: plan more text tokens",
                          static_cast<long long>(count));
    }
    evicted_pages_.data[evicted_page_count_++] = page;
  }
  return {};
}

void SessionCache::note_added(bool known) {
  if (spare_slots_ == 0) return;
  EvictedRows& rows = evictions_.data[eviction_count_ - 1];
  const int32_t* const counts = counts_.host.row(evicted(eviction_count_ - 1).counts_row);
  const int64_t live = known ? *std::max_element(counts, counts + counts_.host.cols) : f16_slots(eviction_count_ - 1);
  rows.added = static_cast<int32_t>(std::max<int64_t>(rows.added, live - rows.text));
  release_spare();
}

/// Releases the newest eviction's pages after its slots.
void SessionCache::release_spare() {
  spare_slots_ = 0;
  const int32_t kept = evicted(eviction_count_ - 1).first_page + evicted_pages(eviction_count_ - 1);
  while (evicted_page_count_ > kept) pools_->pages.release(evicted_pages_.data[--evicted_page_count_]);
}

/// Returns the sink slots, which lie in one page.
KvRun SessionCache::sinks() const {
  const KvRun page = evicted_page(0, 0);
  KvRun run = slice_run(page, 0, std::min(sink_slots_, page.slots), pools_->shape.head_dim);
  run.position_shift = sink_shift_;
  return run;
}

KvRun SessionCache::behind_sinks(const KvRun& page) const {
  const int32_t first = std::min(sink_slots_, page.slots);
  return first == 0 ? page : slice_run(page, first, page.slots - first, pools_->shape.head_dim);
}

void SessionCache::move_sinks(int64_t position) {
  if (has_sinks()) sink_shift_ = static_cast<int32_t>(std::max<int64_t>(0, position - live_slots()));
}

void SessionCache::fetch_counts(int32_t eviction, Queue& queue) {
  if (counts_.host.data == counts_.device.data) return;
  const auto fetch = [&](int32_t first, int64_t rows) {
    queue.copy(counts_.host.row(first), counts_.device.row(first), rows * counts_.host.cols * int64_t{sizeof(int32_t)});
  };
  fetch(evicted(eviction).counts_row, 2);
  if (pools_->shape.counts_blocks()) fetch(first_block_count(eviction), evicted_blocks(eviction));
}

int64_t SessionCache::list_live(const TileLimits& limits, KvRun* out) const {
  int64_t count = 0;
  visit_live(limits, [&](const KvRun& run) { out[count++] = run; });
  return count;
}

int64_t SessionCache::list_for_steps(const TileLimits& limits, KvRun* out, int32_t* first_page) const {
  int64_t count = 0;
  visit_fixed(limits, [&](const KvRun& run) { out[count++] = run; });
  *first_page = static_cast<int32_t>(count);
  for (int32_t i = 0; i < page_count_; ++i) {
    out[count] = text_page(i);
    out[count++].slots = kPageSlots;
  }
  return count;
}

void SessionCache::commit_text(int64_t count) { text_slots_ += count; }

void SessionCache::commit_image(int32_t ordinal, int32_t slots, int32_t rows, const int32_t* weights) {
  for (int32_t row = 0; weights != nullptr && row < rows; ++row)
    for (int32_t i = 0; i < weights[row] - 1; ++i) ++images_.data[ordinal].again[i];
  images_.data[ordinal].slots += slots;
  images_.data[ordinal].rows += rows;
  image_rows_ += rows;
  image_count_ = std::max(image_count_, ordinal + 1);
}

void SessionCache::commit_linked(int32_t ordinal, int32_t slots, int32_t first_slot, int32_t position_shift) {
  commit_image(ordinal, slots, slots - first_slot - images_.data[ordinal].hole_count);
  images_.data[ordinal].first_slot = first_slot;
  images_.data[ordinal].position_shift = position_shift;
}

void SessionCache::release_reserved_images(int32_t first) {
  for (; own_image_count_ > first; --own_image_count_) {
    release_image(own_image_count_ - 1);
    block_count_ -= blocks_per_image();
  }
}

void SessionCache::commit_evicted() {
  const EvictedRows& rows = evictions_.data[eviction_count_++];
  eviction_reserved_ = false;
  image_count_ += rows.images;
  evicted_rows_ += rows.rows;
  evicted_text_rows_ += rows.text_rows;
}

void SessionCache::drop_uncommitted() {
  if (spare_slots_ > 0) release_spare();
  if (eviction_reserved_) {
    pools_->blocks.release(blocks_.data + evicted(eviction_count_).first_block, evicted_blocks(eviction_count_));
    pools_->pages.release(evicted_pages_.data + evicted(eviction_count_).first_page, evicted_pages(eviction_count_));
    block_count_ = evicted(eviction_count_).first_block;
    evicted_page_count_ = evicted(eviction_count_).first_page;
    eviction_reserved_ = false;
  }
  if (text_block_reserved_) pools_->blocks.release(text_blocks_.data[text_block_count_]);
  text_block_reserved_ = false;
  int32_t live_images = own_image_count_;
  while (live_images > 0 && images_.data[live_images - 1].slots == 0) --live_images;
  release_reserved_images(live_images);
  const auto live_pages = static_cast<int32_t>(blocks_of(text_slots_, kPageSlots));
  while (page_count_ > live_pages) pools_->pages.release(pages_.data[--page_count_].page);
}

CacheMark SessionCache::mark() const {
  return {text_slots_, image_count_, eviction_count_, replaced_rows_, text_block_count_, ring_.rows()};
}

bool SessionCache::can_rewind(const CacheMark& mark) const {
  return pools_->shape.local.rings == 0 || ring_.still_has(mark.ring_rows);
}

void SessionCache::rewind(const CacheMark& mark) {
  drop_uncommitted();
  ring_.rewind(mark.ring_rows);
  replaced_rows_ = mark.replaced_rows;
  text_slots_ = mark.text_slots;
  while (text_block_count_ > mark.text_block_count) pools_->blocks.release(text_blocks_.data[--text_block_count_]);
  while (eviction_count_ > mark.eviction_count) {
    const EvictedRows& rows = evicted(--eviction_count_);
    evicted_rows_ -= rows.rows;
    evicted_text_rows_ -= rows.text_rows;
    eviction_reserved_ = true;
    drop_uncommitted();
  }
  if (eviction_count_ == 0) {  // otherwise images have no blocks of their own
    for (int32_t i = mark.image_count; i < own_image_count_; ++i) {
      image_rows_ -= images_.data[i].rows;
      images_.data[i] = {.place = place_of(i)};
    }
  }
  image_count_ = mark.image_count;
  drop_uncommitted();
  // New slots have their true positions, even if the page was full and moved before.
  if (text_slots_ % kPageSlots != 0) pages_.data[text_slots_ / kPageSlots].position_shift = 0;
}

CacheBytes SessionCache::bytes() const {
  const KvShape& shape = pools_->shape;
  const int64_t slot_elements = 2 * int64_t{shape.head_dim};  // per slot in one layer and head
  CacheBytes bytes;
  bytes.payload = text_slots_ * shape.slot_bytes();
  int64_t in_blocks = 0, used_blocks = 0;  // an image of fewer views than planned leaves some blocks empty
  for (int32_t i = 0; i < own_image_count_; ++i) {
    const StoredImage& image = images_.data[i];
    const int64_t slots = image.slots - image.first_slot - image.hole_count;
    in_blocks += slots * shape.visual_slot_bytes();
    if (image.place >= 0)
      bytes.shared +=
          slots * shape.visual_slot_bytes() + blocks_of(image.slots, shape.block_slots) * shape.scale_bytes();
    bytes.block_elements += slots * slot_elements * shape.layer_count * shape.kv_heads;
    used_blocks += blocks_of(image.slots, shape.block_slots);
  }
  in_blocks += packed_text() * shape.visual_slot_bytes();
  bytes.block_elements += packed_text() * slot_elements * shape.layer_count * shape.kv_heads;
  used_blocks += text_block_count_;
  for (int32_t i = 0; i < eviction_count_; ++i) {
    visit_evicted(i, false, [&](int32_t, int64_t slots) { bytes.payload += slots * slot_elements * 2; });
    if (evicted_blocks(i) == 0) continue;
    visit_evicted(i, true, [&](int32_t layer, int64_t slots) {
      in_blocks += slots * shape.block_layout(layer).slot_bytes();
      bytes.block_elements += slots * slot_elements;
    });
    used_blocks += evicted_blocks(i);
  }
  bytes.payload += in_blocks;
  bytes.scales = used_blocks * shape.scale_bytes();
  bytes.blocks = in_blocks + bytes.scales;
  const int64_t in_ring = shape.local.rings > 0 ? ring_.live_bytes() : 0;
  bytes.payload += in_ring;
  const int64_t pages = page_count_ + evicted_page_count_;
  const int64_t blocks = block_count_ + text_block_count_;
  bytes.waste = pages * shape.page_bytes() + blocks * shape.block_bytes() + shape.local.ring_bytes() - bytes.payload -
                bytes.scales;
  return bytes;
}

}  // namespace ocellus
