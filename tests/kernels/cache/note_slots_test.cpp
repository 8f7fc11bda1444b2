#include "kernels/cache/note_slots.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Random;

constexpr int32_t kLayers = 3, kHeads = 2, kDim = 8, kPages = 4;

/// An empty pool of pages and its ledger.
struct Pool {
  Pool()
      : cells(static_cast<size_t>(kPages * page_bytes()) / 2),
        positions(static_cast<size_t>(kLayers * kHeads * slots()), -7),
        sums(positions.size(), -7.0f) {}

  static int64_t page_bytes() { return int64_t{4} * kLayers * kHeads * kTileSlots * kDim; }
  static int64_t slots() { return kPages * kTileSlots; }
  KvRun page(int32_t index) {
    const int64_t matrix = int64_t{2} * kTileSlots * kDim;
    return {reinterpret_cast<std::byte*>(cells.data()) + index * page_bytes(),
            2 * kHeads * matrix,
            2 * matrix,
            matrix,
            kTileSlots,
            kTileSlots};
  }
  SlotLedger ledger() {
    const int64_t lines = int64_t{kLayers} * kHeads;
    return {.positions = {positions.data(), lines, slots()},
            .sums = {sums.data(), lines, slots()},
            .pages = reinterpret_cast<const std::byte*>(cells.data()),
            .page_bytes = page_bytes(),
            .page_slots = kTileSlots};
  }

  test::Vector<Half> cells;
  test::Vector<int32_t> positions;
  test::Vector<float> sums;
};

TEST_CASE("note_slots enters what runs hold, slot by slot, and nothing else") {
  test::for_each_backend([](Queue& queue) {
    Random random(9);
    Pool pool;
    test::Vector<KvRun> runs = {pool.page(2), slice_run(pool.page(1), 3, 9, kDim)};
    runs[0].counted_before = 2;
    runs[0].slots = 11;
    runs[1].counted_before = 13 - 3;  // its first slot is number 3 of the page
    test::Vector<int32_t> rows(2 * 22);
    test::Guarded<float> scores(2, 60);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(random.integer(0, 59));
    for (int64_t g = 0; g < 2; ++g)
      for (int64_t r = 0; r < 60; ++r) scores.at(g, r) = random.normal();
    note_slots({.ledger = pool.ledger(),
                .runs = runs.data(),
                .run_count = 2,
                .rows = {.indices = rows.data(), .index_stride = 22},
                .first_position = 100,
                .scores = scores.view(),
                .stay = 4,
                .first_layer = 1,
                .layer_count = 2,
                .kv_heads = 2},
               queue);
    REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
    std::vector<int32_t> positions(pool.positions.size(), -7);
    std::vector<float> sums(pool.sums.size(), -7.0f);
    for (int64_t line = 2; line < 6; ++line)
      for (int64_t entry = 2; entry < 22; ++entry) {
        const bool in_first = entry < 13;
        const int64_t slot = pool.ledger().first_slot(runs[in_first ? 0 : 1]) + entry - (in_first ? 2 : 13);
        const int32_t row = rows[static_cast<size_t>(line % 2 * 22 + entry)];
        positions[static_cast<size_t>(line * Pool::slots() + slot)] = entry < 4 ? kStays : 100 + row;
        sums[static_cast<size_t>(line * Pool::slots() + slot)] = scores.at(line % 2, row);
      }
    CHECK(std::equal(positions.begin(), positions.end(), pool.positions.begin()));
    CHECK(std::equal(sums.begin(), sums.end(), pool.sums.begin()));
  });
}

}  // namespace
}  // namespace ocellus
