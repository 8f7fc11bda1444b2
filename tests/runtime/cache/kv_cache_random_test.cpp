// Random operations on session caches, against a plain model of what they hold.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/session_caches.h"

namespace ocellus {
namespace {

using test::Caches;
using test::kDim;
using test::kHeads;
using test::kLayers;
using test::live_runs;
using test::shape_of;

/// The bytes of a slot's keys and values in one layer and head.
template <class Visit>
void visit_slot(const KvShape& shape, const KvRun& run, int32_t layer, int32_t head, int32_t slot, Visit visit) {
  if (run.packed) {
    const PackedRows rows = packed_rows(run, shape.layer(layer), head, kDim);
    for (const CodeMatrix& codes : {rows.keys, rows.values})
      visit(const_cast<uint8_t*>(codes.row(slot)), static_cast<size_t>(codes.row_bytes));
    return;
  }
  for (Half* first : {run_keys(run, layer, head), run_values(run, layer, head)})
    visit(reinterpret_cast<uint8_t*>(first + int64_t{slot} * kDim), size_t{2} * kDim);
}
void write_slot(const KvShape& shape, const KvRun& run, int32_t layer, int32_t head, int32_t slot, uint8_t value) {
  visit_slot(shape, run, layer, head, slot, [&](uint8_t* bytes, size_t count) { std::memset(bytes, value, count); });
}
bool slot_holds(const KvShape& shape, const KvRun& run, int32_t layer, int32_t head, int32_t slot, uint8_t value) {
  bool same = true;
  visit_slot(shape, run, layer, head, slot, [&](const uint8_t* bytes, size_t count) {
    for (size_t i = 0; i < count; ++i) same = same && bytes[i] == value;
  });
  return same;
}
void write_slot(const KvShape& shape, const KvRun& run, int32_t slot, uint8_t value) {
  for (int32_t layer = 0; layer < kLayers; ++layer)
    for (int32_t head = 0; head < kHeads; ++head) write_slot(shape, run, layer, head, slot, value);
}
bool slot_holds(const KvShape& shape, const KvRun& run, int32_t slot, uint8_t value) {
  bool same = true;
  for (int32_t layer = 0; layer < kLayers; ++layer)
    for (int32_t head = 0; head < kHeads; ++head) same = same && slot_holds(shape, run, layer, head, slot, value);
  return same;
}

/// Result of an eviction: live slots and their numbers by layer and head.
struct PlainEviction {
  int32_t text = 0, visual = 0, images = 0, rows = 0, text_rows = 0;
  std::vector<std::vector<uint8_t>> text_slots, visual_slots;  // [layers * heads]
};

/// Expected contents of a cache: a number for every live slot.
struct PlainCache {
  std::vector<uint8_t> text;
  std::vector<std::vector<uint8_t>> images;
  std::vector<PlainEviction> evictions;

  CacheMark mark;

  int32_t image_count() const {
    int32_t count = static_cast<int32_t>(images.size());
    for (const PlainEviction& eviction : evictions) count += eviction.images;
    return count;
  }
  int64_t pages() const {
    int64_t count = blocks_of(static_cast<int64_t>(text.size()), kPageSlots);
    for (const PlainEviction& eviction : evictions) count += blocks_of(eviction.text, kPageSlots);
    return count;
  }
  int64_t blocks(const KvShape& shape) const {
    int64_t count = static_cast<int64_t>(images.size()) * shape.blocks_per_image();
    for (const PlainEviction& eviction : evictions) count += blocks_of(eviction.visual, shape.block_slots);
    return count;
  }
  void rewind() {
    text.resize(static_cast<size_t>(mark.text_slots));
    if (evictions.empty()) images.resize(static_cast<size_t>(mark.image_count));
    evictions.resize(static_cast<size_t>(mark.kept_count));
  }
};

void check_eviction(const KvShape& shape, const SessionCache& cache, int32_t index, const PlainEviction& plain) {
  REQUIRE(cache.kept().rows(index).rows == plain.rows);
  for (int32_t matrix = 0; matrix < kLayers * kHeads; ++matrix) {
    const int32_t layer = matrix / kHeads, head = matrix % kHeads;
    const auto check = [&](const std::vector<uint8_t>& slots, int32_t runs, int32_t each, auto run_of) {
      int32_t live = 0;
      for (int32_t i = 0; i < runs; ++i) {
        const KvRun run = run_of(i);
        REQUIRE(run.counted_before == i * each);
        const int32_t count = live_slots(run, layer, kHeads, head);
        for (int32_t slot = 0; slot < count; ++slot)
          REQUIRE(slot_holds(shape, run, layer, head, slot, slots[static_cast<size_t>(live + slot)]));
        live += count;
      }
      REQUIRE(live == static_cast<int32_t>(slots.size()));
    };
    const auto at = static_cast<size_t>(matrix);
    check(plain.text_slots[at], cache.kept().pages(index), kPageSlots,
          [&](int32_t i) { return cache.kept().page(index, i); });
    check(plain.visual_slots[at], cache.kept().blocks(index), shape.block_slots,
          [&](int32_t i) { return cache.kept().block(index, i); });
  }
}

void check_bytes(const KvShape& shape, const SessionCache& cache, const PlainCache& plain) {
  int64_t layer_bits[kLayers], all_bits = 0;
  for (int32_t layer = 0; layer < kLayers; ++layer) {
    const KvFormat format = shape.layer_formats.empty() ? shape.format : shape.layer_formats.formats[layer];
    layer_bits[layer] = key_bits(format) + value_bits(format);
    all_bits += layer_bits[layer];
  }
  int64_t in_blocks = 0, elements = 0;
  int64_t payload = static_cast<int64_t>(plain.text.size()) * kLayers * kHeads * kDim * 4;
  int64_t scales = 0;
  const int64_t head_scales = shape.scales == KvScaleForm::kF16 ? 8 * kDim : 48;  // 16 + 3 kDim by 16
  const int64_t scale_bytes = is_packed(shape.format) ? head_scales * kLayers * kHeads : 0;
  for (const auto& image : plain.images) {
    in_blocks += static_cast<int64_t>(image.size()) * kHeads * kDim * all_bits / 8;
    elements += static_cast<int64_t>(image.size()) * kLayers * kHeads * kDim * 2;
    scales += blocks_of(static_cast<int64_t>(image.size()), shape.block_slots) * scale_bytes;
  }
  for (const PlainEviction& eviction : plain.evictions) {
    for (const auto& slots : eviction.text_slots) payload += static_cast<int64_t>(slots.size()) * kDim * 4;
    for (size_t i = 0; i < eviction.visual_slots.size(); ++i) {
      const int64_t numbers = static_cast<int64_t>(eviction.visual_slots[i].size()) * kDim * 2;
      in_blocks += numbers * layer_bits[i / kHeads] / 16;
      elements += numbers;
    }
    scales += blocks_of(eviction.visual, shape.block_slots) * scale_bytes;
  }
  const CacheBytes bytes = cache.bytes();
  REQUIRE(bytes.payload == payload + in_blocks);
  REQUIRE(bytes.blocks == in_blocks + scales);
  REQUIRE(bytes.block_elements == elements);
  REQUIRE(bytes.scales == scales);
  REQUIRE(bytes.waste >= 0);
  REQUIRE(bytes.resident() == plain.pages() * shape.page_bytes() + plain.blocks(shape) * shape.block_bytes());
}

/// Slots of all runs, as attention is given them: in one layer and head.
void check_lists(const SessionCache& cache, const PlainCache& plain) {
  for (const TileLimits& limits : {TileLimits{}, TileLimits{kTileSlots, kPackedTileSlots}, TileLimits{4, 3}}) {
    size_t expected = plain.text.size();
    for (const auto& image : plain.images) expected += image.size();
    for (const PlainEviction& eviction : plain.evictions)
      expected += eviction.text_slots.back().size() + eviction.visual_slots.back().size();
    int64_t live = 0;
    for (const KvRun& run : live_runs(cache, limits)) {
      REQUIRE(run.slots > 0);
      REQUIRE(run.slots <= run.capacity);
      if (run.counts == nullptr && run.packed) REQUIRE(run.slots <= limits.packed);
      live += live_slots(run, kLayers - 1, kHeads, kHeads - 1);
    }
    REQUIRE(live == static_cast<int64_t>(expected));
    std::vector<KvRun> steps(1000);
    int32_t first_page = -1;
    const int64_t count = cache.list_for_steps(limits, steps.data(), &first_page);
    REQUIRE(count - first_page == blocks_of(static_cast<int64_t>(plain.text.size()), kPageSlots));
    for (int64_t i = first_page; i < count; ++i) REQUIRE(steps[static_cast<size_t>(i)].slots == kPageSlots);
  }
}

void check_same(const KvShape& shape, const SessionCache& cache, const PlainCache& plain) {
  REQUIRE(cache.text_slots() == static_cast<int64_t>(plain.text.size()));
  REQUIRE(cache.image_count() == plain.image_count());
  REQUIRE(cache.kept().count() == static_cast<int32_t>(plain.evictions.size()));
  int64_t rows = static_cast<int64_t>(plain.text.size()), text_rows = rows;
  for (size_t i = 0; i < plain.text.size(); ++i) {
    int32_t slot = -1;
    const KvRun run = cache.text_place(static_cast<int64_t>(i), &slot);
    REQUIRE(slot == static_cast<int32_t>(i % kPageSlots));
    REQUIRE(slot < run.slots);
    REQUIRE(slot_holds(shape, run, slot, plain.text[i]));
  }
  for (size_t i = 0; i < plain.images.size(); ++i) {
    int32_t live = 0;
    for (int32_t b = 0; b < cache.blocks_per_image(); ++b) {
      const KvRun run = cache.image_block(static_cast<int32_t>(i), b);
      REQUIRE(run.capacity == shape.block_slots);
      for (int32_t slot = 0; slot < run.slots; ++slot)
        REQUIRE(slot_holds(shape, run, slot, plain.images[i][static_cast<size_t>(live++)]));
    }
    REQUIRE(live == static_cast<int32_t>(plain.images[i].size()));
    rows += 2 * live;  // see read_prompt
  }
  for (size_t i = 0; i < plain.evictions.size(); ++i) {
    check_eviction(shape, cache, static_cast<int32_t>(i), plain.evictions[i]);
    rows += plain.evictions[i].rows;
    text_rows += plain.evictions[i].text_rows;
  }
  REQUIRE(cache.rows() == rows);
  REQUIRE(cache.text_rows() == text_rows);
  REQUIRE(cache.full_bytes() == rows * shape.slot_bytes());
  check_bytes(shape, cache, plain);
  check_lists(cache, plain);
}

void write_text(test::Random& random, SessionCache& cache, int64_t before, int64_t count, PlainCache& after) {
  for (int64_t i = 0; i < count; ++i) {
    int32_t slot = -1;
    const KvRun run = cache.text_place(cache.text_slots() + before + i, &slot);
    after.text.push_back(static_cast<uint8_t>(random.bits()));
    write_slot(KvShape(), run, slot, after.text.back());
  }
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
      write_text(random, cache, text_count, count, after);
      text_count += count;
    } else {
      int32_t ordinal = -1;
      status = cache.reserve_image(&ordinal);
      if (!status.ok()) break;
      REQUIRE(ordinal == static_cast<int32_t>(after.images.size()));
      after.images.emplace_back(static_cast<size_t>(random.integer(1, shape.image_slots)));
      for (size_t slot = 0; slot < after.images.back().size(); ++slot) {
        after.images.back()[slot] = static_cast<uint8_t>(random.bits());
        const auto at = static_cast<int32_t>(slot);
        write_slot(shape, cache.image_block(ordinal, at / shape.block_slots), at % shape.block_slots,
                   after.images.back()[slot]);
      }
    }
  }
  if (!status.ok()) REQUIRE(status.code() == Code::kFull);
  if (!status.ok() || !finish) return cache.drop_uncommitted();
  cache.commit_text(text_count);
  for (size_t i = plain.images.size(); i < after.images.size(); ++i) {
    const auto slots = static_cast<int32_t>(after.images[i].size());
    cache.commit_image(static_cast<int32_t>(i), slots, 2 * slots);  // half of the rows stayed
  }
  plain = after;
}

/// Rows that compete, as a session reads them.
void evict_prompt(test::Random& random, const KvShape& shape, SessionCache& cache, PlainCache& plain, bool finish) {
  PlainEviction eviction;
  eviction.images = static_cast<int32_t>(random.integer(1, 3));
  eviction.rows = static_cast<int32_t>(random.integer(20, 90));
  eviction.text_rows = static_cast<int32_t>(random.integer(0, eviction.rows));
  eviction.text = static_cast<int32_t>(random.integer(0, 40));
  eviction.visual = is_packed(shape.format) ? static_cast<int32_t>(random.integer(1, 12)) : 0;
  const Status status = cache.reserve_kept({.text = eviction.text,
                                            .visual = eviction.visual,
                                            .images = eviction.images,
                                            .rows = eviction.rows,
                                            .text_rows = eviction.text_rows,
                                            .slots = eviction.text + eviction.visual});
  if (!status.ok()) {
    REQUIRE(status.code() == Code::kFull);
    return cache.drop_uncommitted();
  }
  const int32_t index = cache.kept().count();
  for (int32_t matrix = 0; matrix < kLayers * kHeads; ++matrix) {
    const int32_t layer = matrix / kHeads, head = matrix % kHeads;
    const auto fill = [&](int32_t most, int32_t each, int32_t* counts, auto run_of) {
      counts[matrix] = static_cast<int32_t>(random.integer(0, most));
      std::vector<uint8_t> slots(static_cast<size_t>(counts[matrix]));
      for (size_t i = 0; i < slots.size(); ++i) {
        slots[i] = static_cast<uint8_t>(random.bits());
        write_slot(shape, run_of(static_cast<int32_t>(i) / each), layer, head, static_cast<int32_t>(i) % each,
                   slots[i]);
      }
      return slots;
    };
    eviction.text_slots.push_back(fill(eviction.text, kPageSlots, cache.kept().text_counts(index),
                                       [&](int32_t i) { return cache.kept().page(index, i); }));
    eviction.visual_slots.push_back(fill(eviction.visual, shape.block_slots, cache.kept().visual_counts(index),
                                         [&](int32_t i) { return cache.kept().block(index, i); }));
  }
  if (!finish) return cache.drop_uncommitted();
  cache.commit_kept();
  plain.evictions.push_back(eviction);
}

/// Releases as rolling contexts do, with the marks as a session has them.
void release_something(test::Random& random, SessionCache& cache, PlainCache& plain) {
  const auto full_pages = static_cast<int32_t>(plain.text.size() / kPageSlots);
  if (!plain.evictions.empty() && random.integer(0, 1) == 0) {
    cache.release_oldest_kept();
    plain.mark.image_count = std::max(0, plain.mark.image_count - plain.evictions[0].images);
    plain.mark.kept_count = std::max(0, plain.mark.kept_count - 1);
    plain.evictions.erase(plain.evictions.begin());
  } else if (random.integer(0, 1) == 0 && !plain.images.empty()) {
    cache.release_oldest_image();
    plain.images.erase(plain.images.begin());
    plain.mark.image_count = std::max(0, plain.mark.image_count - 1);
  } else if (full_pages > 0) {
    const auto first = static_cast<int32_t>(random.integer(0, full_pages - 1));
    cache.release_text_pages(first, 1);
    const int64_t at = int64_t{first} * kPageSlots;
    plain.text.erase(plain.text.begin() + at, plain.text.begin() + at + kPageSlots);
    if (plain.mark.text_slots > at) plain.mark.text_slots = std::max(plain.mark.text_slots - kPageSlots, at);
  }
}

void run_random(KvShape shape, bool evicts) {
  constexpr int32_t kSessions = 3;
  // Less than all of them could take.
  Caches caches(kSessions, shape, {9, 8, 4, evicts ? 3 : 0}, 18, 16);
  shape = caches.shape();
  std::vector<PlainCache> plain(kSessions);
  test::Random random(3);
  for (int round = 0; round < 1500; ++round) {
    CAPTURE(round);
    const int32_t i = static_cast<int32_t>(random.integer(0, kSessions - 1));
    PlainCache& expected = plain[static_cast<size_t>(i)];
    const int64_t action = random.integer(0, 19);
    if (action == 0) {
      caches[i].reset();
      expected = PlainCache();
    } else if (action <= 3) {
      caches[i].rewind(expected.mark);
      expected.rewind();
    } else if (action <= 6) {
      expected.mark = caches[i].mark();
    } else if (action <= 8) {
      release_something(random, caches[i], expected);
    } else if (evicts && random.integer(0, 1) == 0) {
      evict_prompt(random, shape, caches[i], expected, action > 10);
    } else if (evicts) {
      const int64_t count = random.integer(0, 20);
      PlainCache after = expected;
      if (const Status status = caches[i].reserve_text(count); status.ok()) {
        write_text(random, caches[i], 0, count, after);
        caches[i].commit_text(count);
        expected = after;
      } else {
        caches[i].drop_uncommitted();
      }
    } else {
      read_prompt(random, shape, caches[i], expected, action > 10);
    }
    int64_t pages = 0, blocks = 0;
    for (int32_t k = 0; k < kSessions; ++k) {
      check_same(shape, caches[k], plain[static_cast<size_t>(k)]);
      pages += plain[static_cast<size_t>(k)].pages();
      blocks += plain[static_cast<size_t>(k)].blocks(shape);
    }
    REQUIRE(caches.pools().pages.taken_count() == pages);
    REQUIRE(caches.pools().blocks.taken_count() == blocks);
  }
}

/// Layers of different bits, and small scales.
KvShape by_layer(int32_t image_slots, int32_t block_slots) {
  KvShape shape = shape_of(KvFormat::k4Bit, image_slots, block_slots);
  shape.layer_formats = {.count = kLayers, .formats = {KvFormat::k1Bit, kv_format_of(8, 2)}};
  shape.scales = KvScaleForm::k6Bit;
  return shape;
}

}  // namespace

TEST_CASE("random prompts, drops, rewinds, releases and resets leave exactly what a plain model holds") {
  for (const auto& shape : {shape_of(KvFormat::kF16, 6, 6), shape_of(KvFormat::k8Bit, 6, 6),
                            shape_of(KvFormat::k1Bit, 6, 4), shape_of(KvFormat::k2Bit, 7, 3), by_layer(6, 4)})
    run_random(shape, false);
}

TEST_CASE("random evictions leave exactly what a plain model holds") {
  for (const auto& shape : {shape_of(KvFormat::kF16, 0, 6), shape_of(KvFormat::k4Bit, 0, 5), by_layer(0, 5)})
    run_random(shape, true);
}

}  // namespace ocellus
