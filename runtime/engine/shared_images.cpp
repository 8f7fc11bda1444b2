#include "runtime/engine/shared_images.h"

#include <new>

#include "platform/clock.h"

namespace ocellus {
namespace {

bool is_same(const SharedImage& image, uint64_t store, const OwnerName& owner, const EntryFacts& facts) {
  return image.store == store && image.facts == facts && image.owner == owner;
}

}  // namespace

bool is_use_due(int64_t* noted_ns) {
  constexpr int64_t kMinute = int64_t{60} * 1000000000;
  const int64_t now = now_ns();
  if (now - *noted_ns < kMinute) return false;
  *noted_ns = now;
  return true;
}

void SharedImages::attach(const SharedImageMemory& memory, KvPools* pools) {
  memory_ = memory;
  pools_ = memory.records.rows > 0 ? pools : nullptr;
  for (int64_t i = 0; i < memory.records.rows; ++i) new (memory.records.row(i)) SharedImage;
}

/// Finds an image that is current or not.
int32_t SharedImages::find_any(const PictureWish& wish) const {
  const uint64_t store = wish.store == nullptr ? 0 : wish.store->serial();
  for (int32_t i = 0; i < memory_.records.rows; ++i) {
    if (pools_->shared.is_kept(i) && is_same(record(i), store, wish.owner, wish.facts)) return i;
  }
  return -1;
}

/// An image that awaits its mark is current.
int32_t SharedImages::find(const PictureWish& wish) {
  if (!planned() || (wish.store != nullptr && !wish.by_name && wish.store->is_apart())) return -1;
  const int32_t place = find_any(wish);
  if (place < 0 || wish.store == nullptr || record(place).awaited != 0) return place;
  if (wish.store->is_current(record(place).mark)) return place;
  forget(place);
  return -1;
}

bool SharedImages::note_link(int32_t place) {
  ++hits_;
  SharedImage& image = record(place);
  return image.store != 0 && is_use_due(&image.noted_ns);
}

void SharedImages::keep(int32_t place, const SharedImage& image) {
  for (int32_t i = 0; i < memory_.records.rows; ++i) {
    if (pools_->shared.is_kept(i) && is_same(record(i), image.store, image.owner, image.facts)) forget(i);
  }
  record(place) = image;
  record(place).noted_ns = now_ns();
  pools_->shared.keep(place);
}

void SharedImages::settle(int64_t number, const StoreMark* mark) {
  for (int32_t i = 0; number != 0 && i < memory_.records.rows; ++i) {
    SharedImage& image = record(i);
    if (image.awaited != number || !pools_->shared.is_kept(i)) continue;
    if (mark == nullptr)
      forget(i);
    else
      image.mark = *mark;
    image.awaited = 0;
  }
}

}  // namespace ocellus
