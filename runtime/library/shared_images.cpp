#include "runtime/library/shared_images.h"

#include <new>

#include "platform/clock.h"

namespace ocellus {

void SharedImages::attach(const SharedImageMemory& memory, KvPools* pools) {
  memory_ = memory;
  pools_ = memory.records.rows > 0 ? pools : nullptr;
  for (int64_t i = 0; i < memory.records.rows; ++i) new (memory.records.row(i)) SharedImage;
}

/// Finds an image that is current or not.
int32_t SharedImages::find_any(const EntryWish& wish) const {
  const uint64_t library = wish.library == nullptr ? 0 : wish.library->serial();
  for (int32_t i = 0; i < memory_.records.rows; ++i) {
    if (pools_->shared.is_kept(i) && is_same_image(record(i), library, wish.owner, wish.facts)) return i;
  }
  return -1;
}

/// An image that is being stored is current.
int32_t SharedImages::find(const EntryWish& wish) {
  if (!planned() || wish.only_there) return -1;
  const int32_t place = find_any(wish);
  if (place < 0 || wish.library == nullptr || record(place).store != 0) return place;
  if (wish.library->is_current(record(place).stamp)) return place;
  forget(place);
  return -1;
}

bool SharedImages::note_link(int32_t place) {
  ++hits_;
  SharedImage& image = record(place);
  return image.library != 0 && is_use_due(&image.noted_ns);
}

void SharedImages::keep(int32_t place, const SharedImage& image) {
  for (int32_t i = 0; i < memory_.records.rows; ++i) {
    if (pools_->shared.is_kept(i) && is_same_image(record(i), image.library, image.owner, image.facts)) forget(i);
  }
  record(place) = image;
  record(place).noted_ns = now_ns();
  pools_->shared.keep(place);
}

void SharedImages::note_stored(int64_t store, const EntryStamp* stamp) {
  for (int32_t i = 0; store != 0 && i < memory_.records.rows; ++i) {
    SharedImage& image = record(i);
    if (image.store != store || !pools_->shared.is_kept(i)) continue;
    if (stamp == nullptr)
      forget(i);
    else
      image.stamp = *stamp;
    image.store = 0;
  }
}

}  // namespace ocellus
