// Pools and segment lists: a few cases by hand, then random operations against a plain model.
#include "runtime/kv_cache.h"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/random.h"

namespace ocellus {
namespace {

constexpr int64_t kMemoryBytes = int64_t{1} << 20;

/// Pools for `sessions` caches over memory of their own.
class Caches {
 public:
  Caches(int32_t sessions, int64_t pages_each, int64_t images_each, int64_t page_count, int64_t image_count)
      : memory_(new (std::align_val_t{kRowAlignment}) std::byte[kMemoryBytes]), caches_(static_cast<size_t>(sessions)) {
    REQUIRE(arena_.add_extent({memory_.get(), kMemoryBytes}).ok());
    KvShape shape{.layer_count = 2, .kv_heads = 2, .head_dim = 8, .image_slots = 6};
    shape.page_count = page_count;
    shape.image_count = image_count;
    REQUIRE(pools_.lay_out(shape, arena_).ok());
    for (SessionCache& cache : caches_) {
      REQUIRE(cache.lay_out(pages_each, images_each, arena_).ok());
      cache.attach(&pools_);
    }
  }
  SessionCache& operator[](int32_t i) { return caches_[static_cast<size_t>(i)]; }
  KvPools& pools() { return pools_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t{kRowAlignment}); }
  };
  std::unique_ptr<std::byte[], Free> memory_;
  Arena arena_;
  KvPools pools_;
  std::vector<SessionCache> caches_;
};

/// Reserves and commits text.
void add_text(SessionCache& cache, int64_t count) {
  REQUIRE(cache.reserve_text(count).ok());
  cache.commit_text(count);
}

void add_image(SessionCache& cache, int32_t slots) {
  int32_t ordinal = -1;
  REQUIRE(cache.reserve_image(&ordinal).ok());
  CHECK(ordinal == cache.image_count());
  cache.commit_image(ordinal, slots);
}

/// Fills a slot's keys and values of every layer and head with the bytes of one number, or checks them.
template <class Visit>
void visit_slot(const KvShape& shape, const KvRun& run, int32_t slot, Visit visit) {
  for (int32_t layer = 0; layer < shape.layer_count; ++layer)
    for (int32_t head = 0; head < shape.kv_heads; ++head)
      for (Half* row : {run_keys(run, layer, head), run_values(run, layer, head)})
        visit(reinterpret_cast<std::byte*>(row + int64_t{slot} * shape.head_dim), size_t{2} * shape.head_dim);
}
void write_slot(const KvShape& shape, const KvRun& run, int32_t slot, uint8_t value) {
  visit_slot(shape, run, slot, [&](std::byte* bytes, size_t count) { std::memset(bytes, value, count); });
}
bool slot_holds(const KvShape& shape, const KvRun& run, int32_t slot, uint8_t value) {
  bool same = true;
  visit_slot(shape, run, slot, [&](const std::byte* bytes, size_t count) {
    for (size_t i = 0; i < count; ++i) same = same && bytes[i] == std::byte{value};
  });
  return same;
}

/// What a cache should hold: a number for every live slot.
struct PlainCache {
  std::vector<uint8_t> text;
  std::vector<std::vector<uint8_t>> images;
  size_t marked_text = 0;
  size_t marked_images = 0;

  int64_t pages() const { return static_cast<int64_t>((text.size() + kPageSlots - 1) / kPageSlots); }
};

void check_same(const KvShape& shape, const SessionCache& cache, const PlainCache& plain) {
  int64_t image_slots = 0;
  for (const auto& image : plain.images) image_slots += static_cast<int64_t>(image.size());
  REQUIRE(cache.text_slots() == static_cast<int64_t>(plain.text.size()));
  REQUIRE(cache.image_count() == static_cast<int32_t>(plain.images.size()));
  REQUIRE(cache.image_slots() == image_slots);
  REQUIRE(cache.bytes() == cache.slots() * shape.slot_bytes());
  REQUIRE(cache.run_count() == plain.pages() + static_cast<int64_t>(plain.images.size()));
  int64_t live = 0;
  for (int32_t i = 0; i < cache.run_count(); ++i) {
    REQUIRE(cache.runs()[i].slots > 0);
    REQUIRE(cache.runs()[i].slots <= cache.runs()[i].capacity);
    live += cache.runs()[i].slots;
  }
  REQUIRE(live == cache.slots());
  for (size_t i = 0; i < plain.text.size(); ++i) {
    int32_t slot = -1;
    const KvRun run = cache.text_place(static_cast<int64_t>(i), &slot);
    REQUIRE(slot == static_cast<int32_t>(i % kPageSlots));
    REQUIRE(slot < run.slots);
    REQUIRE(slot_holds(shape, run, slot, plain.text[i]));
  }
  for (size_t i = 0; i < plain.images.size(); ++i)
    for (size_t slot = 0; slot < plain.images[i].size(); ++slot)
      REQUIRE(slot_holds(shape, cache.image_place(static_cast<int32_t>(i)), static_cast<int32_t>(slot),
                         plain.images[i][slot]));
}

/// A prompt as a session reads it: everything is reserved, written, then committed or, if `finish` is false, dropped.
void read_prompt(test::Random& random, const KvShape& shape, SessionCache& cache, PlainCache& plain, bool finish) {
  PlainCache after = plain;
  Status status;
  int64_t text_count = 0;
  for (int64_t piece = random.integer(1, 4); piece > 0 && status.ok(); --piece) {
    if (random.integer(0, 2) != 0) {
      const int64_t count = random.integer(0, 20);
      status = cache.reserve_text(text_count + count);
      if (!status.ok()) break;
      for (int64_t i = 0; i < count; ++i) {
        int32_t slot = -1;
        const KvRun run = cache.text_place(cache.text_slots() + text_count + i, &slot);
        after.text.push_back(static_cast<uint8_t>(random.bits()));
        write_slot(shape, run, slot, after.text.back());
      }
      text_count += count;
    } else {
      int32_t ordinal = -1;
      status = cache.reserve_image(&ordinal);
      if (!status.ok()) break;
      REQUIRE(ordinal == static_cast<int32_t>(after.images.size()));
      after.images.emplace_back(static_cast<size_t>(random.integer(1, shape.image_slots)));
      for (size_t slot = 0; slot < after.images.back().size(); ++slot) {
        after.images.back()[slot] = static_cast<uint8_t>(random.bits());
        write_slot(shape, cache.image_place(ordinal), static_cast<int32_t>(slot), after.images.back()[slot]);
      }
    }
  }
  if (!status.ok()) REQUIRE(status.code() == Code::kFull);
  if (!status.ok() || !finish) return cache.drop_uncommitted();
  cache.commit_text(text_count);
  for (size_t i = plain.images.size(); i < after.images.size(); ++i)
    cache.commit_image(static_cast<int32_t>(i), static_cast<int32_t>(after.images[i].size()));
  plain.text = after.text;
  plain.images = after.images;
}

}  // namespace

TEST_CASE("a pool hands out every block once and takes them back") {
  Caches caches(1, 1, 1, 5, 3);
  BlockPool& pages = caches.pools().pages;
  std::vector<int32_t> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(pages.take());
  CHECK(blocks == std::vector<int32_t>{0, 1, 2, 3, 4});
  CHECK(pages.take() == -1);
  CHECK(pages.free_count() == 0);
  CHECK(pages.taken_count() == 5);
  CHECK(pages.address(1) - pages.address(0) == caches.pools().shape.page_bytes());
  pages.release(3);
  pages.release(1);
  CHECK(pages.free_count() == 2);
  CHECK(pages.take() == 1);
  CHECK(pages.take() == 3);
  CHECK(pages.take() == -1);
  CHECK(caches.pools().images.free_count() == 3);
}

TEST_CASE("text is dense across pages, whatever images stand between") {
  Caches caches(1, 4, 2, 4, 2);
  SessionCache& cache = caches[0];
  add_text(cache, 5);
  add_image(cache, 6);
  add_text(cache, 20);
  add_image(cache, 3);
  add_text(cache, 7);
  CHECK(cache.text_slots() == 32);
  CHECK(cache.image_slots() == 9);
  CHECK(cache.slots() == 41);
  CHECK(cache.run_count() == 4);  // page, image, page, image
  CHECK(caches.pools().used_bytes() == 2 * caches.pools().shape.page_bytes() + 2 * caches.pools().shape.image_bytes());
  int32_t slot = -1;
  CHECK(cache.text_place(15, &slot).data == cache.runs()[0].data);
  CHECK(slot == 15);
  CHECK(cache.text_place(16, &slot).data == cache.runs()[2].data);
  CHECK(slot == 0);
  CHECK(cache.image_place(1).slots == 3);
  CHECK(cache.image_place(1).capacity == 6);
}

TEST_CASE("a full cache says which limit to raise, and goes on after a reset") {
  Caches caches(2, 2, 1, 3, 1);
  add_text(caches[0], 32);
  CHECK(caches[0].reserve_text(0).ok());
  CHECK(caches[0].reserve_text(1).code() == Code::kFull);
  CHECK(std::string(last_failure().sentence).find("plan more text tokens") != std::string::npos);
  add_image(caches[0], 6);
  int32_t ordinal = -1;
  CHECK(caches[0].reserve_image(&ordinal).code() == Code::kFull);
  CHECK(std::string(last_failure().sentence).find("plan more images") != std::string::npos);
  // The other session meets the end of the pools.
  CHECK(caches[1].reserve_image(&ordinal).code() == Code::kFull);
  add_text(caches[1], 16);
  CHECK(caches[1].reserve_text(1).code() == Code::kFull);
  CHECK(caches[1].text_slots() == 16);
  caches[0].reset();
  CHECK(caches.pools().images.free_count() == 1);
  CHECK(caches.pools().pages.free_count() == 2);
  CHECK(caches[0].run_count() == 0);
  CHECK(caches[0].slots() == 0);
  CHECK(caches[1].reserve_text(1).ok());
}

TEST_CASE("what was reserved and not committed is given back") {
  Caches caches(1, 4, 2, 4, 2);
  SessionCache& cache = caches[0];
  add_text(cache, 10);
  int32_t ordinal = -1;
  REQUIRE(cache.reserve_image(&ordinal).ok());
  REQUIRE(cache.reserve_text(40).ok());
  CHECK(caches.pools().pages.free_count() == 0);
  CHECK(cache.text_slots() == 10);  // nothing is live before the commit
  CHECK(cache.image_count() == 0);
  cache.drop_uncommitted();
  CHECK(cache.run_count() == 1);
  CHECK(caches.pools().pages.free_count() == 3);
  CHECK(caches.pools().images.free_count() == 2);
  // A reservation that fails half way leaves pages behind until they are dropped.
  CHECK(cache.reserve_text(100).code() == Code::kFull);
  cache.drop_uncommitted();
  CHECK(caches.pools().pages.free_count() == 3);
  add_text(cache, 54);
  CHECK(cache.text_slots() == 64);
}

TEST_CASE("random prompts, drops, rewinds and resets leave exactly what a plain model holds") {
  constexpr int32_t kSessions = 3;
  Caches caches(kSessions, 6, 4, 12, 8);  // less than all of them could take
  const KvShape& shape = caches.pools().shape;
  std::vector<PlainCache> plain(kSessions);
  test::Random random(3);
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    const int32_t i = static_cast<int32_t>(random.integer(0, kSessions - 1));
    PlainCache& expected = plain[static_cast<size_t>(i)];
    const int64_t action = random.integer(0, 19);
    if (action == 0) {
      caches[i].reset();
      expected = PlainCache();
    } else if (action <= 3) {
      caches[i].rewind(static_cast<int64_t>(expected.marked_text), static_cast<int32_t>(expected.marked_images));
      expected.text.resize(expected.marked_text);
      expected.images.resize(expected.marked_images);
    } else if (action <= 6) {
      expected.marked_text = expected.text.size();
      expected.marked_images = expected.images.size();
    } else {
      read_prompt(random, shape, caches[i], expected, action > 9);
    }
    int64_t pages = 0;
    int64_t images = 0;
    for (int32_t k = 0; k < kSessions; ++k) {
      check_same(shape, caches[k], plain[static_cast<size_t>(k)]);
      pages += plain[static_cast<size_t>(k)].pages();
      images += static_cast<int64_t>(plain[static_cast<size_t>(k)].images.size());
    }
    REQUIRE(caches.pools().pages.taken_count() == pages);
    REQUIRE(caches.pools().images.taken_count() == images);
  }
}

}  // namespace ocellus
