#include "kernels/rows/store_kv.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "quant/weight_format.h"
#include "tests/support/device.h"
#include "tests/support/kv_cache.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Activations;
using test::Guarded;
using test::Random;
using test::TestRun;

/// Returns the expected stored value.
Half rounded(float value) { return float_to_half(std::fmin(std::fmax(value, -65504.0f), 65504.0f)); }

/// Ordinary values, and those at the edges of what a half can hold.
void fill(Activations& values, int64_t rows, int64_t cols, Random& random) {
  constexpr float kEdges[] = {65519.0f, -65520.0f, 1e30f, -1e30f, 6e-8f, 2.9e-8f, 6.1e-5f, 1.00048828125f, -0.0f};
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t i = 0; i < cols; ++i) {
      const int64_t k = random.integer(0, 40);
      values.set(t, i, k < 9 ? kEdges[k] : random.normal());
    }
  }
}

/// `listed`: every row has a place of its own, backwards.
void check_round_kv(Queue& queue, bool listed) {
  for (const auto& [rows, heads, dim] :
       {std::tuple<int64_t, int32_t, int32_t>{1, 1, 8}, {3, 4, 64}, {17, 2, 72}, {300, 3, 80}}) {
    const int64_t width = heads * dim, first = 2, capacity = rows + 5;
    const int64_t odd = queue.on_cuda() ? 0 : 1;  // strides may be anything on the CPU
    Random random(static_cast<uint64_t>(dim));
    Activations keys(queue, rows, width, width + 8 + odd), values(queue, rows, width, width + 16 - odd);
    fill(keys, rows, width, random);
    fill(values, rows, width, random);
    Guarded<Half> out_keys(heads * capacity, dim), out_values(heads * capacity, dim);
    test::Vector<int32_t> places;
    for (int64_t t = rows; listed && t-- > 0;) places.push_back(static_cast<int32_t>(first + t));
    round_kv({.keys = keys.view(),
              .values = values.view(),
              .first = listed ? 0 : first,
              .places = listed ? places.data() : nullptr,
              .out = KvLayerRows::head_major(out_keys.data(), out_values.data(), heads, dim, capacity)},
             queue);
    REQUIRE(queue.finish().ok());
    CHECK(out_keys.intact());
    CHECK(out_values.intact());
    CHECK(out_keys.untouched_count() >= (capacity - rows) * width);  // rows before and after stay unchanged
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t i = 0; i < width; ++i) {
        const int64_t row = i / dim * capacity + first + (listed ? rows - 1 - t : t);
        REQUIRE(out_keys.at(row, i % dim).bits == rounded(keys.get(t, i)).bits);
        REQUIRE(out_values.at(row, i % dim).bits == rounded(values.get(t, i)).bits);
      }
    }
  }
}

TEST_CASE("round_kv rounds to nearest and lays rows out by head, on every target and backend") {
  for (const int threads : {1, 3}) {
    test::TestQueue queue(threads);
    test::for_each_target([&] { check_round_kv(*queue, false); });
  }
  for (const bool listed : {false, true}) test::for_each_backend([&](Queue& queue) { check_round_kv(queue, listed); });
}

/// As wide as the widest vectors and a tail.
void check_not_a_number(Queue& queue) {
  constexpr int64_t kWidth = 24;
  for (int64_t bad = 0; bad < kWidth; ++bad) {
    Activations rows(queue, 1, kWidth);
    for (int64_t i = 0; i < kWidth; ++i) rows.set(0, i, i == bad ? std::nanf("") : i % 2 == 0 ? 1e6f : -1e6f);
    Guarded<Half> keys(1, kWidth), values(1, kWidth);
    round_kv({.keys = rows.view(),
              .values = rows.view(),
              .out = KvLayerRows::head_major(keys.data(), values.data(), 1, kWidth, 1)},
             queue);
    REQUIRE(queue.finish().ok());
    for (int64_t i = 0; i < kWidth; ++i) {
      const float key = half_to_float(keys.at(0, i));
      CHECK(std::isnan(key) == (i == bad));
      if (i != bad) CHECK(key == (i % 2 == 0 ? 65504.0f : -65504.0f));
    }
  }
}

TEST_CASE("round_kv keeps what is not a number and bounds what is too large, on every target and backend") {
  test::TestQueue queue(1);
  test::for_each_target([&] { check_not_a_number(*queue); });
  test::for_each_backend(check_not_a_number);
}

/// Row t of a chunk goes to slot places[t] of the runs counted through; everything else stays.
void check_store_kv(int32_t heads, int32_t dim, const std::vector<int32_t>& places, Queue& queue) {
  constexpr int32_t kRunSlots = 7, kRuns = 3;
  const auto count = static_cast<int64_t>(places.size());
  const int64_t capacity = count + 2;
  Random random(4);
  test::Vector<Half> keys(static_cast<size_t>(heads * capacity * dim)), values(keys.size());
  for (Half& half : keys) half = float_to_half(random.normal());
  for (Half& half : values) half = float_to_half(random.normal());
  const KvLayerRows rows = KvLayerRows::head_major(keys.data(), values.data(), heads, dim, capacity);
  std::vector<TestRun> runs;
  for (int32_t i = 0; i < kRuns; ++i) runs.emplace_back(random, heads, dim, 0, kRunSlots);
  test::Vector<KvSlot> slots;
  for (const int32_t place : places)
    slots.push_back(run_slot(runs[static_cast<size_t>(place / kRunSlots)].run(), place % kRunSlots, dim));
  store_kv({.rows = rows, .count = count, .slots = slots.data(), .layer = TestRun::kLayer}, queue);
  REQUIRE(queue.finish().ok());
  for (int32_t place = 0; place < kRuns * kRunSlots; ++place) {
    const KvRun& run = runs[static_cast<size_t>(place / kRunSlots)].run();
    const auto found = std::find(places.begin(), places.end(), place);
    for (int32_t layer = 0; layer < TestRun::kLayers; ++layer) {
      const bool stored = layer == TestRun::kLayer && found != places.end();
      for (int32_t head = 0; head < heads; ++head) {
        for (int32_t e = 0; e < dim; ++e) {
          const int64_t from = stored ? rows.at(found - places.begin(), head) + e : 0;
          const int64_t at = int64_t{place % kRunSlots} * dim + e;
          REQUIRE(run_keys(run, layer, head)[at].bits == (stored ? rows.keys[from] : test::kHalfNan).bits);
          REQUIRE(run_values(run, layer, head)[at].bits == (stored ? rows.values[from] : test::kHalfNan).bits);
        }
      }
    }
  }
}

TEST_CASE("store_kv copies every row into its slot and touches nothing else") {
  test::for_each_backend([](Queue& queue) {
    check_store_kv(3, 16, {2, 3, 4}, queue);
    check_store_kv(1, 8, {20}, queue);
    check_store_kv(2, 72, {5, 6, 14, 15, 0, 1, 7, 13}, queue);
    check_store_kv(4, 128, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, queue);
    check_store_kv(2, 8, {}, queue);
  });
}

}  // namespace
}  // namespace ocellus
