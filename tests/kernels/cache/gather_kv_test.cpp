#include "kernels/cache/gather_kv.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "quant/weight_format.h"
#include "tests/support/device.h"
#include "tests/support/kv_cache.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Random;
using test::TestRun;

struct Shape {
  int32_t heads, dim, slots, capacity;
  std::vector<int32_t> counts = {};  // by head, of a list in which the run's block follows `counted_before` slots
  int32_t counted_before = 0;
  int32_t first = 0;  // the run begins at this slot of its block
};

/// Slot s of the run takes the row its head's list names; every other slot stays NaN.
void check_shape(const Shape& shape, Queue& queue) {
  Random random(static_cast<uint64_t>(shape.dim + shape.slots));
  const int64_t capacity = 2 * shape.slots + 5, stride = shape.counted_before + shape.first + shape.slots + 4;
  test::Vector<Half> keys(static_cast<size_t>(shape.heads * capacity * shape.dim)), values(keys.size());
  for (Half& half : keys) half = float_to_half(random.normal());
  for (Half& half : values) half = float_to_half(random.normal());
  const KvLayerRows rows = KvLayerRows::head_major(keys.data(), values.data(), shape.heads, shape.dim, capacity);
  test::Vector<int32_t> list;
  for (int64_t i = 0; i < shape.heads * stride; ++i)
    list.push_back(static_cast<int32_t>(random.integer(0, capacity - 1)));
  test::Vector<int32_t> counts(static_cast<size_t>(TestRun::kLayers * shape.heads), 1 << 20);
  std::copy(shape.counts.begin(), shape.counts.end(), counts.begin() + TestRun::kLayer * shape.heads);

  TestRun store(random, shape.heads, shape.dim, 0, shape.capacity);
  const KvRun& block = store.run();
  KvRun run = slice_run(block, shape.first, shape.slots, shape.dim);
  run.counts = shape.counts.empty() ? nullptr : counts.data();
  run.counted_before = shape.counted_before;
  const int32_t half = shape.slots / 2;  // the same slots as one run or as two
  const test::Vector<KvRun> runs = {slice_run(run, 0, half, shape.dim),
                                    slice_run(run, half, shape.slots - half, shape.dim)};
  gather_kv({.rows = rows,
             .indices = list.data(),
             .index_stride = stride,
             .runs = runs.data(),
             .run_count = 2,
             .layer = TestRun::kLayer},
            queue);
  REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);

  for (int32_t layer = 0; layer < TestRun::kLayers; ++layer) {
    for (int32_t head = 0; head < shape.heads; ++head) {
      int32_t live = shape.slots;
      if (!shape.counts.empty())
        live = std::clamp(shape.counts[static_cast<size_t>(head)] - shape.counted_before - shape.first, 0, live);
      for (int32_t slot = 0; slot < shape.capacity; ++slot) {
        const int32_t i = slot - shape.first;
        const bool taken = layer == TestRun::kLayer && i >= 0 && i < live;
        const int64_t from =
            taken ? rows.at(list[static_cast<size_t>(head * stride + shape.counted_before + shape.first + i)], head)
                  : 0;
        for (int32_t e = 0; e < shape.dim; ++e) {
          const int64_t at = int64_t{slot} * shape.dim + e;
          REQUIRE(run_keys(block, layer, head)[at].bits == (taken ? rows.keys[from + e] : test::kHalfNan).bits);
          REQUIRE(run_values(block, layer, head)[at].bits == (taken ? rows.values[from + e] : test::kHalfNan).bits);
        }
      }
    }
  }
}

TEST_CASE("gather_kv copies every head's chosen rows into its live slots and touches nothing else") {
  test::for_each_backend([](Queue& queue) {
    check_shape({1, 8, 1, 1}, queue);
    check_shape({3, 64, 50, 64}, queue);
    check_shape({2, 72, 17, 20}, queue);
    check_shape({4, 128, 300, 301, {0, 1, 299, 5000}}, queue);
    check_shape({3, 80, 64, 64, {100, 164, 110}, 100}, queue);
    check_shape({2, 96, 16, 64, {40, 30}, 0, 24}, queue);
    check_shape({2, 16, 0, 8}, queue);
  });
}

}  // namespace
}  // namespace ocellus
