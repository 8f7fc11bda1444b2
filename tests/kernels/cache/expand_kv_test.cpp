#include "kernels/cache/expand_kv.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/packed_cache.h"
#include "tests/support/packed_shapes.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::PackedCache;
using test::PackedShape;
using test::Random;
using test::RealSlot;

/// The f16 nearest to a number, give or take what f32 arithmetic does to it.
bool is_rounded(Half half, double exact, double size) {
  return std::abs(test::as_double(half) - exact) <= test::half_rounding(exact) * 1.001 + 4e-7 * size;
}

void check_row(const RealSlot& slot, const RopeParams& rope, const Half* key, const Half* value) {
  const std::vector<double> turned = test::rotated(slot.key, rope, slot.shift);
  double largest = 0;
  for (const double x : slot.key) largest = std::max(largest, std::abs(x));
  for (size_t e = 0; e < slot.key.size(); ++e) {
    REQUIRE(is_rounded(key[e], turned[e], largest));
    REQUIRE(is_rounded(value[e], slot.value[e], std::abs(slot.value[e]) + 4.0));
  }
}

void check_shape(const PackedShape& shape, uint64_t seed, int32_t most, Queue& queue,
                 int64_t rows_per_run = kPackedTileSlots) {
  Random random(seed);
  const PackedCache cache(random, shape.kv_heads, shape.dim, shape.sessions[0], shape.scales);
  const test::Vector<KvRun> runs = test::visible(cache.tiles(most));
  const auto count = static_cast<int64_t>(runs.size());
  // No more rows than the last run has.
  const int64_t capacity = (count - 1) * rows_per_run + runs.back().slots;
  Guarded<Half> keys(shape.kv_heads * capacity, shape.dim), values(shape.kv_heads * capacity, shape.dim);
  expand_kv({.runs = runs.data(),
             .run_count = static_cast<int32_t>(count),
             .layer = shape.layer(),
             .rope = shape.rope,
             .out = KvLayerRows::head_major(keys.data(), values.data(), shape.kv_heads, shape.dim, capacity),
             .rows_per_run = rows_per_run,
             .last_run_slots = runs.back().slots},
            queue);
  REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
  CHECK(keys.intact());
  CHECK(values.intact());
  int64_t written = 0;
  for (int32_t head = 0; head < shape.kv_heads; ++head) {
    const std::vector<RealSlot>& slots = cache.slots(head);
    int64_t live = 0;
    for (int64_t i = 0; i < count; ++i) {
      const KvRun& run = runs[static_cast<size_t>(i)];
      for (int32_t slot = 0; slot < live_slots(run, PackedCache::kLayer, shape.kv_heads, head); ++slot, ++live) {
        const int64_t row = head * capacity + i * rows_per_run + slot;
        REQUIRE(live < std::ssize(slots));
        check_row(slots[static_cast<size_t>(live)], shape.rope, &keys.at(row, 0), &values.at(row, 0));
      }
    }
    CHECK(live == std::ssize(slots));
    written += live * shape.dim;
  }
  // A written value may look like the pattern by chance, but not often.
  const int64_t all = shape.kv_heads * capacity * shape.dim;
  CHECK(keys.untouched_count() >= all - written);
  CHECK(values.untouched_count() >= all - written);
  CHECK(keys.untouched_count() <= all - written + 2 + written / 200);
}

TEST_CASE("expand_kv gives every live slot its row, turned and rounded, and writes nothing else") {
  test::for_each_backend_and_target([](Queue& queue) {
    uint64_t seed = 0;
    for (const PackedShape& shape : test::packed_shapes(queue.on_cuda())) {
      if (test::skip(++seed, 5)) continue;
      const std::string name = shape.name();
      CAPTURE(name);
      check_shape(shape, seed, seed % 2 == 0 ? kPackedTileSlots : 21, queue);
      check_shape(shape, seed, 16, queue, 16);
    }
  });
}

TEST_CASE("expand_kv divides the angles of pairs by the model's factors") {
  test::for_each_backend([](Queue& queue) {
    const test::Vector<float> factors = {1.0f, 1.5f, 4.0f, 8.0f, 8.0f, 2.0f, 1.0f, 3.0f};
    for (const RopePairing pairing : {RopePairing::kAdjacent, RopePairing::kHalves}) {
      PackedShape shape{.kv_heads = 2, .dim = 32, .format = KvFormat::k4Bit};
      shape.rope = {.pairing = pairing, .rotated = 16, .base = 500.0f, .factors = factors.data()};
      shape.sessions = {{{.format = KvFormat::k4Bit, .slots = 40, .shift = 1234}, {.slots = 9, .shift = -77}}};
      check_shape(shape, 3, kPackedTileSlots, queue);
    }
  });
}

TEST_CASE("expand_kv puts runs where their first rows are listed") {
  test::for_each_backend([](Queue& queue) {
    constexpr int32_t kHeads = 2, kDim = 32, kRows = 100;
    Random random(9);
    Guarded<Half> from(2 * kHeads * kRows, kDim), keys(kHeads * kRows, kDim), values(kHeads * kRows, kDim);
    for (int64_t row = 0; row < 2 * kHeads * kRows; ++row)
      for (int64_t e = 0; e < kDim; ++e) from.at(row, e) = float_to_half(random.normal());
    KvRun all{.data = reinterpret_cast<std::byte*>(from.data()), .slots = kRows, .capacity = kRows};
    all.head_stride = int64_t{2} * kRows * kDim;
    all.value_offset = kHeads * all.head_stride;
    // Two runs change places.
    test::Vector<KvRun> runs = {slice_run(all, 0, 40, kDim), slice_run(all, 40, 37, kDim),
                                slice_run(all, 77, 23, kDim)};
    test::Vector<int32_t> first_rows = {0, 63, 40};
    expand_kv({.runs = runs.data(),
               .run_count = 3,
               .layer = {.index = 5},
               .rope = {},
               .out = KvLayerRows::head_major(keys.data(), values.data(), kHeads, kDim, kRows),
               .first_rows = first_rows.data()},
              queue);
    REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
    CHECK(keys.intact());
    CHECK(values.intact());
    for (int64_t head = 0; head < kHeads; ++head)
      for (int64_t row = 0; row < kRows; ++row) {
        const int64_t source = head * kRows + (row < 40 ? row : row < 63 ? row + 37 : row - 23);
        for (int64_t e = 0; e < kDim; ++e) {
          REQUIRE(keys.at(head * kRows + row, e).bits == from.at(source, e).bits);
          REQUIRE(values.at(head * kRows + row, e).bits == from.at(kHeads * kRows + source, e).bits);
        }
      }
  });
}

TEST_CASE("too few rows to expand into are a failure") {
  test::TestQueue queue(1);
  KvRun run;
  ExpandKvArgs args;
  args.runs = &run;
  args.run_count = 1;
  args.out.heads = 1;
  args.out.head_dim = 8;
  args.out.capacity = kPackedTileSlots - 1;
  expand_kv(args, *queue);
  CHECK(queue->status().code() == Code::kInternal);
}

}  // namespace
}  // namespace ocellus
