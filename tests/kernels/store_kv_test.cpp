#include "kernels/store_kv.h"

#include <doctest/doctest.h>

#include <cmath>

#include "quant/weight_format.h"
#include "tests/support/guard.h"
#include "tests/support/kv_cache.h"
#include "tests/support/random.h"
#include "tests/support/test_queue.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;
using test::TestRun;

/// What a value must be stored as.
Half rounded(float value) { return float_to_half(std::fmin(std::fmax(value, -65504.0f), 65504.0f)); }

/// Ordinary values, and those at the edges of what a half can hold.
void fill(Guarded<float>& values, int64_t rows, int64_t cols, Random& random) {
  constexpr float kEdges[] = {65519.0f, -65520.0f, 1e30f, -1e30f, 6e-8f, 2.9e-8f, 6.1e-5f, 1.00048828125f, -0.0f};
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t i = 0; i < cols; ++i) {
      const int64_t k = random.integer(0, 40);
      values.at(t, i) = k < 9 ? kEdges[k] : random.normal();
    }
  }
}

TEST_CASE("round_kv rounds to nearest and lays rows out by head, on every target") {
  for (const int threads : {1, 3}) {
    test::TestQueue queue(threads);
    test::for_each_target([&] {
      for (const auto& [rows, heads, dim] :
           {std::tuple<int64_t, int32_t, int32_t>{1, 1, 8}, {3, 4, 64}, {17, 2, 72}, {300, 3, 80}}) {
        const int64_t width = heads * dim, first = 2, capacity = rows + 5;
        Random random(static_cast<uint64_t>(dim));
        Guarded<float> keys(rows, width, width + 6), values(rows, width, width + 9);
        fill(keys, rows, width, random);
        fill(values, rows, width, random);
        Guarded<Half> out_keys(heads * capacity, dim), out_values(heads * capacity, dim);
        round_kv({.keys = keys.view(),
                  .values = values.view(),
                  .first = first,
                  .out = {out_keys.data(), out_values.data(), heads, dim, capacity}},
                 *queue);
        CHECK(out_keys.intact());
        CHECK(out_values.intact());
        CHECK(out_keys.untouched_count() >= (capacity - rows) * width);  // rows before and behind stay
        for (int64_t t = 0; t < rows; ++t) {
          for (int64_t i = 0; i < width; ++i) {
            const int64_t row = i / dim * capacity + first + t;
            REQUIRE(out_keys.at(row, i % dim).bits == rounded(keys.at(t, i)).bits);
            REQUIRE(out_values.at(row, i % dim).bits == rounded(values.at(t, i)).bits);
          }
        }
      }
    });
  }
}

TEST_CASE("store_kv copies the chosen rows into the chosen slots and nothing else") {
  constexpr int32_t kHeads = 3, kDim = 16, kCapacity = 9;
  test::TestQueue queue(2);
  Random random(4);
  std::vector<Half> keys(kHeads * kCapacity * kDim), values(keys.size());
  for (Half& half : keys) half = float_to_half(random.normal());
  for (Half& half : values) half = float_to_half(random.normal());
  TestRun target(random, kHeads, kDim, 0, 7);
  const KvRun& run = target.run();
  store_kv({.rows = {keys.data(), values.data(), kHeads, kDim, kCapacity},
            .first = 4,
            .count = 3,
            .run = run,
            .run_slot = 2,
            .layer = TestRun::kLayer},
           *queue);
  for (int32_t layer = 0; layer < TestRun::kLayers; ++layer) {
    for (int32_t head = 0; head < kHeads; ++head) {
      for (int32_t slot = 0; slot < run.capacity; ++slot) {
        for (int32_t e = 0; e < kDim; ++e) {
          const bool stored = layer == TestRun::kLayer && slot >= 2 && slot < 5;
          const size_t from = static_cast<size_t>((head * kCapacity + 4 + slot - 2) * kDim + e);
          const uint16_t key = stored ? keys[from].bits : test::kHalfNan.bits;
          const uint16_t value = stored ? values[from].bits : test::kHalfNan.bits;
          REQUIRE(run_keys(run, layer, head)[slot * kDim + e].bits == key);
          REQUIRE(run_values(run, layer, head)[slot * kDim + e].bits == value);
        }
      }
    }
  }
}

TEST_CASE("append_kv writes one slot per session") {
  constexpr int32_t kHeads = 2, kDim = 72, kSessions = 3;
  test::TestQueue queue(2);
  test::for_each_target([&] {
    Random random(5);
    TestRun targets[kSessions] = {
        {random, kHeads, kDim, 0, 4}, {random, kHeads, kDim, 0, 1}, {random, kHeads, kDim, 0, 9}};
    const KvRun runs[kSessions] = {targets[0].run(), targets[1].run(), targets[2].run()};
    const int32_t slots[kSessions] = {3, 0, 5};
    Guarded<float> keys(kSessions, kHeads * kDim, 200), values(kSessions, kHeads * kDim, 201);
    fill(keys, kSessions, kHeads * kDim, random);
    fill(values, kSessions, kHeads * kDim, random);
    append_kv(
        {.keys = keys.view(), .values = values.view(), .head_dim = kDim, .runs = runs, .slots = slots, .layer = 1},
        *queue);
    for (int32_t b = 0; b < kSessions; ++b) {
      for (int32_t head = 0; head < kHeads; ++head) {
        for (int32_t slot = 0; slot < runs[b].capacity; ++slot) {
          for (int32_t e = 0; e < kDim; ++e) {
            const bool stored = slot == slots[b];
            const Half key = stored ? rounded(keys.at(b, head * kDim + e)) : test::kHalfNan;
            const Half value = stored ? rounded(values.at(b, head * kDim + e)) : test::kHalfNan;
            REQUIRE(run_keys(runs[b], 1, head)[slot * kDim + e].bits == key.bits);
            REQUIRE(run_values(runs[b], 1, head)[slot * kDim + e].bits == value.bits);
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace ocellus
