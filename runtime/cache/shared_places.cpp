#include "runtime/cache/shared_places.h"

#include <algorithm>

#include "runtime/cache/kv_pools.h"

namespace ocellus {

Status SharedPlaces::lay_out(int64_t count, int64_t blocks_per_image, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  OCELLUS_TRY(take_rows(sink, "kv places of shared images", kLife, Phase::kNone, 1, count, &places_));
  OCELLUS_TRY(take_rows(sink, "kv blocks of places", kLife, Phase::kNone, count, blocks_per_image, &blocks_));
  if (places_.data != nullptr) std::fill_n(places_.data, count, SharedPlace());
  return {};
}

/// Searched linearly: a use costs much more than a look at every place.
int32_t SharedPlaces::choose() const {
  int32_t best = -1;
  const auto age = [&](int32_t i) { return places_.data[i].is_taken ? places_.data[i].last_used : -1; };
  for (int32_t i = 0; i < places_.cols; ++i)
    if (places_.data[i].users == 0 && (best < 0 || age(i) < age(best))) best = i;
  return best;
}

int32_t SharedPlaces::take(BlockPool& blocks) {
  const int32_t place = choose();
  if (place < 0) return -1;
  SharedPlace& taken = places_.data[place];
  if (!taken.is_taken)
    for (int64_t i = 0; i < blocks_.cols; ++i) blocks_.row(place)[i] = blocks.take();
  taken = {.users = 1, .is_taken = true, .last_used = ++uses_};
  return place;
}

void SharedPlaces::add_user(int32_t place) {
  ++places_.data[place].users;
  places_.data[place].last_used = ++uses_;
}

void SharedPlaces::release(int32_t place, BlockPool& blocks) {
  --places_.data[place].users;
  places_.data[place].last_used = ++uses_;
  give_back_unused(place, blocks);
}

void SharedPlaces::forget(int32_t place, BlockPool& blocks) {
  places_.data[place].is_kept = false;
  give_back_unused(place, blocks);
}

void SharedPlaces::give_back_unused(int32_t place, BlockPool& blocks) {
  SharedPlace& unused = places_.data[place];
  if (unused.users > 0 || unused.is_kept || !unused.is_taken) return;
  for (int64_t i = blocks_.cols; i > 0; --i) blocks.release(blocks_.row(place)[i - 1]);
  unused.is_taken = false;
}

SharedUse SharedPlaces::use() const {
  SharedUse use;
  for (int32_t i = 0; i < places_.cols; ++i) {
    const SharedPlace& place = places_.data[i];
    use.held += place.is_taken ? 1 : 0;
    use.used += place.users > 0 ? 1 : 0;
    use.links += place.users;
  }
  return use;
}

}  // namespace ocellus
