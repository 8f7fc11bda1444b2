// Pools and lists of runs, by hand. Random operations: see kv_cache_random_test.cpp.
#include "runtime/cache/kv_cache.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/session_caches.h"

namespace ocellus {
namespace {

using test::add_image;
using test::add_text;
using test::Caches;
using test::kDim;
using test::kHeads;
using test::kLayers;
using test::live_runs;
using test::plain_caches;
using test::shape_of;
using test::slots_in;

bool failure_says(const std::string& words) {
  return std::string(last_failure().sentence).find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a pool hands out every block once and takes them back") {
  Caches caches = plain_caches(1, 1, 1, 5, 3);
  BlockPool& pages = caches.pools().pages;
  std::vector<int32_t> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(pages.take());
  CHECK(blocks == std::vector<int32_t>{0, 1, 2, 3, 4});
  CHECK(pages.take() == -1);
  CHECK(pages.free_count() == 0);
  CHECK(pages.taken_count() == 5);
  CHECK(pages.address(1) - pages.address(0) == caches.shape().page_bytes());
  pages.release(3);
  pages.release(1);
  CHECK(pages.free_count() == 2);
  CHECK(pages.take() == 1);
  CHECK(pages.take() == 3);
  CHECK(pages.take() == -1);
  CHECK(caches.pools().blocks.free_count() == 3);
}

TEST_CASE("text is dense across pages, whatever images stand between") {
  Caches caches = plain_caches(1, 4, 2, 4, 2);
  SessionCache& cache = caches[0];
  add_text(cache, 5);
  add_image(cache, 6);
  add_text(cache, 20);
  add_image(cache, 3);
  add_text(cache, 7);
  CHECK(cache.text_slots() == 32);
  CHECK(cache.rows() == 41);
  CHECK(caches.pools().used_bytes() == 2 * caches.shape().page_bytes() + 2 * caches.shape().image_bytes());
  const std::vector<KvRun> runs = live_runs(cache);
  CHECK(runs.size() == 4);  // two images, two pages
  CHECK(slots_in(runs) == 41);
  int32_t slot = -1;
  CHECK(cache.text_place(15, &slot).data == runs[2].data);
  CHECK(slot == 15);
  CHECK(cache.text_place(16, &slot).data == runs[3].data);
  CHECK(slot == 0);
  CHECK(cache.image_block(1, 0).slots == 3);
  CHECK(cache.image_block(1, 0).capacity == 6);
}

TEST_CASE("an image that is packed in several blocks fills them one after the other") {
  const KvShape shape = shape_of(KvFormat::k4Bit, 10, 4);
  Caches caches(1, shape, {4, 6, 2, 0}, 4, 6);
  SessionCache& cache = caches[0];
  REQUIRE(shape.blocks_per_image() == 3);
  add_image(cache, 10);
  CHECK(cache.image_block(0, 0).slots == 4);
  CHECK(cache.image_block(0, 1).slots == 4);
  CHECK(cache.image_block(0, 2).slots == 2);
  CHECK(live_runs(cache).size() == 3);
  CHECK(live_runs(cache, {4, 3}).size() == 5);
  // Fewer slots than planned: a block stays empty. It has no scales, but it is taken.
  add_image(cache, 7);
  CHECK(live_runs(cache).size() == 5);
  const CacheBytes bytes = cache.bytes();
  CHECK(bytes.payload == 17 * kLayers * kHeads * kDim);  // 4 bits, keys and values
  CHECK(bytes.scales == 5 * kLayers * kHeads * kDim * 8);
  CHECK(bytes.resident() == 6 * caches.shape().block_bytes());
  for (const KvRun& run : live_runs(cache)) {
    CHECK(run.packed);
    CHECK(run.calibrated);
  }
}

TEST_CASE("a full cache says which limit to raise, and goes on after a reset") {
  Caches caches = plain_caches(2, 2, 1, 3, 1);
  add_text(caches[0], 32);
  CHECK(caches[0].reserve_text(0).ok());
  CHECK(caches[0].reserve_text(1).code() == Code::kFull);
  CHECK(failure_says("plan more text tokens"));
  add_image(caches[0], 6);
  int32_t ordinal = -1;
  CHECK(caches[0].reserve_image(&ordinal).code() == Code::kFull);
  CHECK(failure_says("plan more images"));
  // The other session meets the end of the pools.
  CHECK(caches[1].reserve_image(&ordinal).code() == Code::kFull);
  add_text(caches[1], 16);
  CHECK(caches[1].reserve_text(1).code() == Code::kFull);
  CHECK(caches[1].text_slots() == 16);
  caches[0].reset();
  CHECK(caches.pools().blocks.free_count() == 1);
  CHECK(caches.pools().pages.free_count() == 2);
  CHECK(live_runs(caches[0]).empty());
  CHECK(caches[0].rows() == 0);
  CHECK(caches[1].reserve_text(1).ok());
}

TEST_CASE("survivors take pages and blocks together or not at all") {
  const auto shape = shape_of(KvFormat::k2Bit, 0, 5);
  Caches caches(1, shape, {4, 3, 4, 2}, 4, 3);
  SessionCache& cache = caches[0];
  const auto reserve = [&](int32_t text, int32_t visual) {
    return cache.reserve_kept({.text = text, .visual = visual, .images = 1, .rows = 70, .text_rows = 6}).code();
  };
  CHECK(reserve(65, 1) == Code::kFull);
  CHECK(reserve(1, 16) == Code::kFull);
  CHECK(failure_says("the kept slots of 70 more rows"));
  CHECK(caches.pools().used_bytes() == 0);
  REQUIRE(reserve(20, 11) == Code::kOk);
  CHECK(caches.pools().pages.taken_count() == 2);
  CHECK(caches.pools().blocks.taken_count() == 3);
  CHECK(live_runs(cache).empty());  // nothing is live before the commit
  cache.drop_uncommitted();
  CHECK(caches.pools().used_bytes() == 0);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(reserve(3, 5) == Code::kOk);
    std::fill_n(cache.kept().text_counts(i), kLayers * kHeads, 3);
    std::fill_n(cache.kept().visual_counts(i), kLayers * kHeads, 5);
    cache.commit_kept();
  }
  CHECK(reserve(1, 1) == Code::kFull);  // more prompts with images than planned images
  CHECK(cache.image_count() == 2);
  CHECK(cache.rows() == 140);
  CHECK(cache.text_rows() == 12);
  // Text continues after the survivors, in pages of its own.
  add_text(cache, 32);
  CHECK(cache.reserve_text(1).code() == Code::kFull);
  CHECK(live_runs(cache).size() == 6);
  cache.drop_uncommitted();
  cache.rewind({.text_slots = 16, .image_count = 1, .kept_count = 1});
  CHECK(live_runs(cache).size() == 3);
  CHECK(caches.pools().pages.taken_count() == 2);
  CHECK(caches.pools().blocks.taken_count() == 1);
  cache.reset();
  CHECK(caches.pools().used_bytes() == 0);
}

TEST_CASE("what was reserved and not committed is given back") {
  Caches caches = plain_caches(1, 4, 2, 4, 2);
  SessionCache& cache = caches[0];
  add_text(cache, 10);
  int32_t ordinal = -1;
  REQUIRE(cache.reserve_image(&ordinal).ok());
  REQUIRE(cache.reserve_text(40).ok());
  CHECK(caches.pools().pages.free_count() == 0);
  CHECK(cache.text_slots() == 10);  // nothing is live before the commit
  CHECK(cache.image_count() == 0);
  cache.drop_uncommitted();
  CHECK(live_runs(cache).size() == 1);
  CHECK(caches.pools().pages.free_count() == 3);
  CHECK(caches.pools().blocks.free_count() == 2);
  // A reservation that fails half way keeps pages until they are dropped.
  CHECK(cache.reserve_text(100).code() == Code::kFull);
  cache.drop_uncommitted();
  CHECK(caches.pools().pages.free_count() == 3);
  add_text(cache, 54);
  CHECK(cache.text_slots() == 64);
}

TEST_CASE("positions tell what is oldest, and the beginning is moved up behind what was released") {
  Caches caches = plain_caches(1, 8, 4, 8, 4);
  SessionCache& cache = caches[0];
  CHECK(cache.oldest_position(0, 77) == 77);
  add_text(cache, 16, 0);   // page 0
  add_image(cache, 6, 16);  // between the pages
  add_text(cache, 16, 22);  // page 1
  add_image(cache, 6, 38);
  add_text(cache, 20, 44);  // pages 2 and 3
  CHECK(cache.oldest_position(0, 77) == 0);
  CHECK(cache.oldest_position(1, 77) == 16);
  CHECK(cache.oldest_is_image(1));
  CHECK_FALSE(cache.oldest_is_image(0));
  CHECK(cache.span_of_pages(2) == 32);
  const auto shifts = [&] {
    std::vector<int32_t> all;
    int32_t slot = 0;
    for (int64_t page = 0; page < blocks_of(cache.text_slots(), kPageSlots); ++page)
      all.push_back(cache.text_place(page * kPageSlots, &slot).position_shift);
    return all;
  };
  // The image between them holds both pages where they are.
  cache.move_pages(2, cache.oldest_position(2, 77));
  CHECK(shifts() == std::vector<int32_t>{0, 0, 0, 0});
  cache.release_oldest_image();
  cache.move_pages(2, cache.oldest_position(2, 77));
  CHECK(shifts() == std::vector<int32_t>{6, 0, 0, 0});  // page 0 now ends where page 1 begins
  cache.release_oldest_image();
  CHECK(cache.oldest_position(2, 77) == 44);
  cache.move_pages(2, 44);
  CHECK(shifts() == std::vector<int32_t>{12, 6, 0, 0});
  cache.release_text_pages(2, 1);
  CHECK(cache.text_slots() == 36);
  CHECK(cache.oldest_position(2, 77) == 60);
  cache.move_pages(2, 60);
  CHECK(shifts() == std::vector<int32_t>{28, 22, 0});
  // A page that was full and is not any more takes new slots where they stand.
  cache.rewind({.text_slots = 20});
  CHECK(shifts() == std::vector<int32_t>{28, 0});
  cache.reset();
  CHECK(caches.pools().used_bytes() == 0);
}

}  // namespace ocellus
