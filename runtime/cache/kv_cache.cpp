#include "runtime/cache/kv_cache.h"

#include <algorithm>

namespace ocellus {

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
  return kept_.lay_out(shape, limits, blocks_, sink);
}

void SessionCache::attach(KvPools* pools, int64_t session) {
  pools_ = pools;
  kept_.attach(pools);
  if (pools->shape.local.rings > 0)
    ring_.attach(pools->shape.local, pools->rings.row(session), pools->states.row(session));
}

Status SessionCache::reserve_text(int64_t count) {
  const int64_t pages_needed = blocks_of(text_slots_ + count, kPageSlots);
  while (page_count_ < pages_needed) {
    const int32_t page = page_count_ + kept_.page_count() < pages_.cols ? pools_->pages.take() : -1;
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
    if (!pools.blocks.take(blocks_per_image(), blocks_.data + block_count_))
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

bool SessionCache::has_text_to_pack(int32_t window) const {
  return text_block_count_ < text_blocks_.cols && text_slots_ >= window + pools_->shape.block_slots;
}

Status SessionCache::reserve_text_block(KvRun* out) {
  if (!pools_->blocks.take(1, text_blocks_.data + text_block_count_))
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

void SessionCache::commit_kept() {
  image_count_ += kept_.rows(kept_.count()).images;
  kept_.commit();
}

void SessionCache::drop_uncommitted() {
  kept_.release_spare();
  kept_.release_reserved();
  if (text_block_reserved_) pools_->blocks.release(text_blocks_.data[text_block_count_]);
  text_block_reserved_ = false;
  int32_t live_images = own_image_count_;
  while (live_images > 0 && images_.data[live_images - 1].slots == 0) --live_images;
  release_reserved_images(live_images);
  const auto live_pages = static_cast<int32_t>(blocks_of(text_slots_, kPageSlots));
  while (page_count_ > live_pages) pools_->pages.release(pages_.data[--page_count_].page);
}

CacheMark SessionCache::mark() const {
  return {text_slots_, image_count_, kept_.count(), replaced_rows_, text_block_count_, ring_.rows()};
}

bool SessionCache::can_rewind(const CacheMark& mark) const {
  return pools_->shape.local.rings == 0 || mark.state != KeptState::kNone || ring_.still_has(mark.ring_rows);
}

void SessionCache::rewind(const CacheMark& mark) {
  drop_uncommitted();
  ring_.rewind(mark.ring_rows);
  replaced_rows_ = mark.replaced_rows;
  text_slots_ = mark.text_slots;
  while (text_block_count_ > mark.text_block_count) pools_->blocks.release(text_blocks_.data[--text_block_count_]);
  while (kept_.count() > mark.kept_count) kept_.release_newest();
  if (kept_.count() == 0) {  // otherwise images have no blocks of their own
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

void SessionCache::release_oldest_image() {
  if (own_image_count_ == 0) return;
  image_rows_ -= images_.data[0].rows;
  release_image(0);
  erase(blocks_.data, block_count_, 0, blocks_per_image());
  erase(images_.data, own_image_count_, 0, 1);
  erase(holes_.data, own_image_count_ * holes_.stride, 0, holes_.stride);
  block_count_ -= blocks_per_image();
  --own_image_count_;
  --image_count_;
}

void SessionCache::keep_thinned(int32_t count) {
  for (int32_t i = 0; i < own_image_count_; ++i) {
    if (i >= count) image_rows_ -= image(i).rows;
    images_.data[i].thinned = true;
  }
  release_reserved_images(count);
  image_count_ = count;
}

void SessionCache::release_oldest_kept() {
  if (kept_.count() == 0) return;
  image_count_ -= kept_.rows(0).images;
  kept_.release_oldest();
}

void SessionCache::release_text_pages(int32_t first, int32_t count) {
  for (int32_t i = first; i < first + count; ++i) pools_->pages.release(pages_.data[i].page);
  erase(pages_.data, page_count_, first, count);
  page_count_ -= count;
  text_slots_ -= int64_t{count} * kPageSlots;
}

void SessionCache::note_text_position(int64_t index, int64_t position) {
  TextPage& page = pages_.data[index / kPageSlots];
  if (index % kPageSlots == 0) page.position = position;
  page.end = position + 1;
}

void SessionCache::note_image_position(int32_t ordinal, int64_t position, int32_t cols) {
  images_.data[ordinal].position = position;
  images_.data[ordinal].cols = cols;
}

int64_t SessionCache::oldest_position(int32_t pages, int64_t none) const {
  int64_t oldest = none;
  if (text_slots_ > int64_t{pages} * kPageSlots)
    oldest = std::min(oldest, pages_.data[pages].position + pages_.data[pages].position_shift);
  if (own_image_count_ > 0) oldest = std::min(oldest, images_.data[0].position);
  if (kept_.count() > 0) oldest = std::min(oldest, kept_.rows(0).position);
  return oldest;
}

bool SessionCache::oldest_is_image(int32_t pages) const {
  if (own_image_count_ == 0 && kept_.count() == 0) return false;
  const int64_t position = kept_.count() > 0 ? kept_.rows(0).position : images_.data[0].position;
  return text_slots_ <= int64_t{pages} * kPageSlots ||
         position < pages_.data[pages].position + pages_.data[pages].position_shift;
}

int64_t SessionCache::span_of_pages(int32_t pages) const {
  int64_t span = 0;
  for (int32_t i = 0; i < pages; ++i) span += pages_.data[i].end - pages_.data[i].position;
  return span;
}

void SessionCache::move_pages(int32_t pages, int64_t end) {
  for (int32_t i = pages - 1; i >= 0; --i) {
    TextPage& page = pages_.data[i];
    page.position_shift = static_cast<int32_t>(std::max<int64_t>(0, end - page.end));
    end = std::min(end, page.position + page.position_shift);
  }
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
  kept_.add_bytes(&bytes, &in_blocks, &used_blocks);
  bytes.payload += in_blocks;
  bytes.scales = used_blocks * shape.scale_bytes();
  bytes.blocks = in_blocks + bytes.scales;
  const int64_t in_ring = shape.local.rings > 0 ? ring_.live_bytes() : 0;
  bytes.payload += in_ring;
  const int64_t pages = page_count_ + kept_.page_count();
  const int64_t blocks = block_count_ + kept_.block_count() + text_block_count_;
  bytes.waste = pages * shape.page_bytes() + blocks * shape.block_bytes() + shape.local.ring_bytes() - bytes.payload -
                bytes.scales;
  return bytes;
}

}  // namespace ocellus
