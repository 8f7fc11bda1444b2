// Places for images that sessions share: who uses them, which one goes first, and what they hold.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/session_caches.h"

namespace ocellus {
namespace {

constexpr int32_t kSlots = 6;  // of an image, in blocks of four

test::Caches sharing_caches(int32_t sessions, int64_t images, int64_t places) {
  KvShape shape = test::shape_of(KvFormat::kF16, kSlots, 4);
  shape.shared_images = places;
  const int64_t each = shape.blocks_per_image();
  return test::Caches(sessions, shape, {4, images * each, images, 0}, 4 * sessions, places * each);
}

/// An image of one session: its picture, and whether it is committed.
struct PlainImage {
  int32_t picture = 0;
  int32_t place = 0;
  bool is_live = false;
};

struct PlainPlace {
  std::optional<int32_t> picture;  // of the image that it holds
  bool is_kept = false;
  int64_t last_used = -1;
};

/// Session caches with shared places, and what they should hold.
class Model {
 public:
  Model(int32_t sessions, int32_t images, int32_t places)
      : caches_(sharing_caches(sessions, images, places)),
        images_(images),
        sessions_(static_cast<size_t>(sessions)),
        marks_(sessions_.size()),
        places_(static_cast<size_t>(places)) {}

  /// Links a picture in a session; a part of them is left reserved, as by a prompt that waits.
  void link(int32_t session, int32_t picture, bool completes, bool commits) {
    SessionCache& cache = caches_[session];
    std::vector<PlainImage>& list = sessions_[static_cast<size_t>(session)];
    const auto held = std::find_if(places_.begin(), places_.end(),
                                   [&](const PlainPlace& place) { return place.is_kept && place.picture == picture; });
    int32_t ordinal = -1;
    const bool has_room = std::ssize(list) < images_;
    int32_t place = held == places_.end() ? oldest() : static_cast<int32_t>(held - places_.begin());
    if (held != places_.end()) {
      REQUIRE(caches_.pools().shared.is_kept(place));
      REQUIRE(cache.share_image(place, &ordinal).ok() == has_room);
      if (!has_room) return;
    } else {
      const Status status = cache.reserve_image(&ordinal);
      REQUIRE(status.ok() == (has_room && place >= 0));
      if (!status.ok()) {
        REQUIRE(status.code() == Code::kFull);
        return;
      }
      REQUIRE(cache.place_of(ordinal) == place);
      write(cache, ordinal, picture);
      at(place) = {picture, completes, 0};
      if (completes) caches_.pools().shared.keep(place);
    }
    REQUIRE(cache.place_of(ordinal) == place);
    at(place).last_used = ++uses_;
    REQUIRE(ordinal == std::ssize(list));
    // A session's images are committed in order.
    const bool is_live = commits && (list.empty() || list.back().is_live);
    if (is_live) cache.commit_linked(ordinal, kSlots, 0, 0);
    list.push_back({picture, place, is_live});
  }
  void drop_uncommitted(int32_t session) {
    caches_[session].drop_uncommitted();
    std::vector<PlainImage>& list = sessions_[static_cast<size_t>(session)];
    while (!list.empty() && !list.back().is_live) remove_last(session);
  }
  void set_mark(int32_t session) {
    drop_uncommitted(session);
    marks_[static_cast<size_t>(session)] = caches_[session].mark();
  }
  void rewind(int32_t session, bool to_mark) {
    const CacheMark to = to_mark ? marks_[static_cast<size_t>(session)] : CacheMark();
    caches_[session].rewind(to);
    while (std::ssize(sessions_[static_cast<size_t>(session)]) > to.image_count) remove_last(session);
    marks_[static_cast<size_t>(session)] = to;
  }
  void release_oldest(int32_t session) {
    drop_uncommitted(session);
    std::vector<PlainImage>& list = sessions_[static_cast<size_t>(session)];
    if (list.empty()) return;
    const int32_t place = list.front().place;
    list.erase(list.begin());
    caches_[session].release_oldest_image();
    CacheMark& mark = marks_[static_cast<size_t>(session)];
    mark.image_count = std::max(0, mark.image_count - 1);
    end_use(place);
  }
  void forget(int32_t place) {
    if (!at(place).is_kept) return;
    caches_.pools().shared.forget(place, caches_.pools().blocks);
    at(place).is_kept = false;
    empty_unused(place);
  }

  void check() {
    const SharedPlaces& shared = caches_.pools().shared;
    int64_t held = 0, links = 0, used = 0;
    for (int32_t i = 0; i < std::ssize(places_); ++i) {
      REQUIRE(shared.users(i) == users(i));
      REQUIRE(shared.is_kept(i) == at(i).is_kept);
      held += at(i).picture ? 1 : 0;
      links += users(i);
      used += users(i) > 0 ? 1 : 0;
    }
    const SharedUse use = shared.use();
    REQUIRE(use.held == held);
    REQUIRE(use.links == links);
    REQUIRE(use.used == used);
    REQUIRE(caches_.pools().blocks.taken_count() == held * caches_.shape().blocks_per_image());
    for (int32_t s = 0; s < std::ssize(sessions_); ++s) {
      const std::vector<PlainImage>& list = sessions_[static_cast<size_t>(s)];
      for (int32_t i = 0; i < std::ssize(list); ++i) {
        const PlainImage& image = list[static_cast<size_t>(i)];
        REQUIRE(caches_[s].place_of(i) == image.place);
        REQUIRE(at(image.place).picture == image.picture);
        REQUIRE(holds(caches_[s], i, image.picture));
      }
    }
  }

 private:
  PlainPlace& at(int32_t place) { return places_[static_cast<size_t>(place)]; }
  int32_t users(int32_t place) {
    int32_t count = 0;
    for (const std::vector<PlainImage>& list : sessions_)
      for (const PlainImage& image : list) count += image.place == place ? 1 : 0;
    return count;
  }
  /// The place that the next image takes: an empty one, else the one that was used least recently.
  int32_t oldest() {
    int32_t best = -1;
    const auto age = [&](int32_t i) { return at(i).picture ? at(i).last_used : -1; };
    for (int32_t i = 0; i < std::ssize(places_); ++i)
      if (users(i) == 0 && (best < 0 || age(i) < age(best))) best = i;
    return best;
  }
  void remove_last(int32_t session) {
    std::vector<PlainImage>& list = sessions_[static_cast<size_t>(session)];
    const int32_t place = list.back().place;
    list.pop_back();
    end_use(place);
  }
  void end_use(int32_t place) {
    at(place).last_used = ++uses_;
    empty_unused(place);
  }
  void empty_unused(int32_t place) {
    if (users(place) == 0 && !at(place).is_kept) at(place) = {};
  }
  template <class Visit>
  static void visit_bytes(const SessionCache& cache, int32_t ordinal, Visit visit) {
    for (int32_t b = 0; b < cache.blocks_per_image(); ++b)
      visit(cache.image_block(ordinal, b).data, static_cast<size_t>(cache.shape().block_bytes()));
  }
  static void write(const SessionCache& cache, int32_t ordinal, int32_t picture) {
    visit_bytes(cache, ordinal, [&](std::byte* bytes, size_t count) { std::memset(bytes, picture + 1, count); });
  }
  static bool holds(const SessionCache& cache, int32_t ordinal, int32_t picture) {
    bool same = true;
    visit_bytes(cache, ordinal, [&](const std::byte* bytes, size_t count) {
      same = same && std::all_of(bytes, bytes + count, [&](std::byte b) { return b == std::byte(picture + 1); });
    });
    return same;
  }

  test::Caches caches_;
  const int32_t images_;
  std::vector<std::vector<PlainImage>> sessions_;
  std::vector<CacheMark> marks_;
  std::vector<PlainPlace> places_;
  int64_t uses_ = 0;
};

/// The places that pictures take one after the other, each without users again.
std::vector<int32_t> places_of(SessionCache& cache, SharedPlaces& shared, int32_t count) {
  std::vector<int32_t> places;
  for (int32_t i = 0; i < count; ++i) {
    int32_t ordinal = -1;
    REQUIRE(cache.reserve_image(&ordinal).ok());
    places.push_back(cache.place_of(ordinal));
    shared.keep(places.back());
    cache.reset();
  }
  return places;
}

}  // namespace

TEST_CASE("an image without users stays until its place is needed, the least recently used first") {
  test::Caches caches = sharing_caches(2, 3, 3);
  SharedPlaces& shared = caches.pools().shared;
  CHECK(places_of(caches[0], shared, 3) == std::vector<int32_t>{0, 1, 2});
  CHECK(shared.use().held == 3);
  int32_t ordinal = -1;
  REQUIRE(caches[1].share_image(0, &ordinal).ok());
  caches[1].reset();
  CHECK(shared.is_kept(1));
  CHECK(places_of(caches[0], shared, 4) == std::vector<int32_t>{1, 2, 0, 1});
  REQUIRE(caches[1].share_image(2, &ordinal).ok());
  CHECK(places_of(caches[0], shared, 3) == std::vector<int32_t>{0, 1, 0});
  shared.forget(1, caches.pools().blocks);
  CHECK(caches.pools().blocks.free_count() == caches.shape().blocks_per_image());
  CHECK(places_of(caches[0], shared, 1) == std::vector<int32_t>{1});
}

TEST_CASE("a place whose image is used is never taken: the session is told to plan more") {
  test::Caches caches = sharing_caches(2, 3, 2);
  int32_t ordinal = -1;
  for (int32_t i = 0; i < 2; ++i) {
    REQUIRE(caches[0].reserve_image(&ordinal).ok());
    caches[0].commit_linked(ordinal, kSlots, 0, 0);
  }
  CHECK(caches[1].reserve_image(&ordinal).code() == Code::kFull);
  CHECK(std::strstr(last_failure().sentence, "(shared_images)") != nullptr);
  REQUIRE(caches[1].share_image(1, &ordinal).ok());
  caches[0].reset();
  CHECK(caches.pools().shared.users(1) == 1);
  CHECK(caches.pools().blocks.free_count() == caches.shape().blocks_per_image());
  CHECK(caches[1].reserve_image(&ordinal).ok());
}

TEST_CASE("random links, failures, rewinds and releases leave counts and contents as a plain model has them") {
  test::Random random(20);
  for (int32_t round = 0; round < 12; ++round) {
    CAPTURE(round);
    const auto pick = [&](int32_t count) { return static_cast<int32_t>(random.integer(0, count - 1)); };
    const int32_t sessions = 1 + pick(4), images = 1 + pick(4), places = 1 + pick(7);
    Model model(sessions, images, places);
    for (int32_t step = 0; step < 400; ++step) {
      const int32_t session = pick(sessions);
      switch (pick(12)) {
        case 0: model.drop_uncommitted(session); break;
        case 1: model.set_mark(session); break;
        case 2: model.rewind(session, true); break;
        case 3: model.rewind(session, false); break;
        case 4: model.release_oldest(session); break;
        case 5: model.forget(pick(places)); break;
        default: model.link(session, pick(6), pick(5) > 0, pick(4) > 0); break;
      }
      model.check();
    }
  }
}

}  // namespace ocellus
