#include "runtime/branches/library/pictures_ahead.h"

#include <cstring>
#include <utility>

namespace ocellus {

EntryFacts PicturesAhead::facts(int64_t i) const {
  EntryFacts out;
  std::memcpy(&out, facts_.row(i), sizeof out);
  return out;
}

void PicturesAhead::add(const EntryFacts& facts) { std::memcpy(facts_.row(count_++), &facts, sizeof facts); }

void PicturesAhead::start_loads(PictureWish wish, EntryWish entry, SharedImages& shared, LibraryTraffic& traffic,
                                Queue& queue) {
  for (; begun_ < count_ && begun_ - current_ < kMaxBegun; ++begun_) {
    wish.facts = entry.facts = facts(begun_);
    for (int64_t i = current_; i < begun_; ++i)
      if (facts(i) == wish.facts) return;
    load(begun_) = -1;
    if (shared.has(wish)) continue;
    const int begun = traffic.begin(entry, queue);
    if (begun < 0) return;
    load(begun_) = begun;
  }
}

bool PicturesAhead::next(EntryFacts* out) {
  if (is_present_) ++current_;
  is_present_ = current_ < count_;
  if (!is_present_) return false;
  *out = facts(current_);
  if (current_ < begun_) return true;
  load(current_) = -1;
  begun_ = current_ + 1;
  return true;
}

int PicturesAhead::take_load() { return is_present_ ? std::exchange(load(current_), -1) : -1; }

void PicturesAhead::give_way(LibraryTraffic& traffic) {
  for (int64_t i = begun_ - 1; i >= current_; --i) {
    if (load(i) < 0) continue;
    traffic.abandon(std::exchange(load(i), -1));
    return;
  }
}

void PicturesAhead::clear(LibraryTraffic& traffic) {
  for (int64_t i = current_; i < begun_; ++i)
    if (load(i) >= 0) traffic.abandon(load(i));
  count_ = begun_ = current_ = 0;
  is_present_ = false;
}

}  // namespace ocellus
