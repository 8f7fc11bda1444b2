#include "runtime/library/pictures_ahead.h"

#include <algorithm>
#include <cstring>

namespace ocellus {

EntryFacts PicturesAhead::facts(int64_t i) const {
  EntryFacts out;
  std::memcpy(&out, facts_.row(i), sizeof out);
  return out;
}

void PicturesAhead::add(const EntryFacts& facts) { std::memcpy(facts_.row(count_++), &facts, sizeof facts); }

void PicturesAhead::start_loads(EntryWish wish, SharedImages& shared, LibraryTraffic& traffic, Queue& queue) {
  for (; begun_ < count_ && begun_ - current_ < kMaxBegun; ++begun_) {
    wish.facts = facts(begun_);
    for (int64_t i = current_; i < begun_; ++i)
      if (facts(i) == wish.facts) return;
    loads_[begun_ % kMaxBegun] = -1;
    if (shared.has(wish)) continue;
    const int load = traffic.begin(wish, queue);
    if (load < 0) return;
    loads_[begun_ % kMaxBegun] = load;
  }
}

bool PicturesAhead::current(EntryFacts* out, int* load) {
  if (current_ == count_) return false;
  *out = facts(current_);
  *load = current_ < begun_ ? loads_[current_ % kMaxBegun] : -1;
  begun_ = std::max(begun_, current_ + 1);
  is_taken_ = true;
  return true;
}

void PicturesAhead::finish_current() {
  if (current_ == count_) return;
  ++current_;
  is_taken_ = false;
}

void PicturesAhead::give_way(LibraryTraffic& traffic) {
  const int64_t first = current_ + (is_taken_ ? 1 : 0);
  for (int64_t i = begun_ - 1; i >= first; --i) {
    int& load = loads_[i % kMaxBegun];
    if (load < 0) continue;
    traffic.abandon(load);
    load = -1;
    return;
  }
}

void PicturesAhead::clear(LibraryTraffic& traffic) {
  for (int64_t i = current_ + (is_taken_ ? 1 : 0); i < begun_; ++i)
    if (const int load = loads_[i % kMaxBegun]; load >= 0) traffic.abandon(load);
  count_ = begun_ = current_ = 0;
  is_taken_ = false;
}

}  // namespace ocellus
