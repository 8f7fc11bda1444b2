// Release of the oldest rows of a rolling context, and the positions of those that stay.
#include <algorithm>

#include "runtime/cache/kv_cache.h"

namespace ocellus {
namespace {

/// Removes list entries [first, first + count).
template <class T>
void erase(T* list, int64_t size, int64_t first, int64_t count) {
  std::copy(list + first + count, list + size, list + first);
}

}  // namespace

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

}  // namespace ocellus
