#include "kernels/attention/attend_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/attend_rows_plan.h"
#include "kernels/base/highway_targets.h"
#include "tests/kernels/attention/attend_rows_case.h"
#include "tests/support/device.h"
#include "tests/support/kv_cache.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Activations;
using test::Guarded;
using test::Random;
using test::TestRun;
using Shape = test::RowsShape;
using Case = test::RowsCase;
using test::same_bits;

std::vector<Shape> interesting_shapes() {
  std::vector<Shape> shapes = {
      {1, 1, 1, 8, true, {}},
      {2, 8, 4, 64, true, {{5, 9}}},
      {3, 6, 2, 72, true, {{0, 4}, {64, 64}, {1, 1}, {0, 0}, {30, 70}}},
      {17, 8, 2, 80, false, {{100, 101}}},
      {33, 8, 1, 96, true, {{7, 7}, {58, 64}, {64, 64}}},
      {33, 3, 3, 128, false, {}},
      {70, 8, 4, 64, true, {{40, 64}, {3, 64}}},
      {130, 2, 1, 64, true, {}},
      {65, 4, 4, 64, false, {}},
      {5, 32, 1, 16, true, {{33, 40}}},
      {33, 4, 2, 64, true, {{10, 10}}, 64, 5},
      {17, 3, 1, 64, true, {}, 100, 0},
      {9, 4, 2, 72, false, {}, 30, 41},
  };
  Random random(77);
  constexpr int64_t kRows[] = {1, 2, 3, 17, 33};
  constexpr int32_t kDims[] = {8, 64, 72, 80, 96, 128};
  constexpr int32_t kGroups[] = {1, 2, 3, 4, 8};
  for (int i = 0; i < 20; ++i) {
    Shape shape;
    shape.rows = kRows[random.integer(0, 4)];
    shape.dim = kDims[random.integer(0, 5)];
    shape.kv_heads = static_cast<int32_t>(random.integer(1, 3));
    shape.heads = shape.kv_heads * kGroups[random.integer(0, 4)];
    shape.causal = random.integer(0, 1) == 0;
    shape.first_row = random.integer(0, 1) * random.integer(1, 70);
    shape.later_rows = random.integer(0, 1) * random.integer(1, 9);
    for (int64_t runs = random.integer(0, 4); runs > 0; --runs) {
      const auto slots = static_cast<int32_t>(random.integer(0, 1) * random.integer(1, 90));
      shape.runs.emplace_back(slots, slots + static_cast<int32_t>(random.integer(0, 20)));
    }
    shapes.push_back(shape);
  }
  return shapes;
}

TEST_CASE("attend_rows equals plain attention on every target, with the same bits on any number of threads") {
  test::TestQueue one(1), two(2), three(3);
  uint64_t seed = 0;
  for (const Shape& shape : interesting_shapes()) {
    OCELLUS_CAPTURE_SHAPE(shape);
    Case instance(shape, ++seed, *one);
    test::for_each_target([&] {
      const std::string target = hwy::TargetName(hwy::SupportedTargets());
      CAPTURE(target);
      const Activations out = instance.attend(*one);
      instance.check_numbers(out);
      CHECK(same_bits(out, instance.attend(*two), shape));
      CHECK(same_bits(out, instance.attend(*three), shape));
      const test::WithCpuMath as_bf16(*one, CpuMath::kBf16);
      if (test::attends_pairs(*one)) instance.check_numbers(instance.attend(*one));
    });
  }
}

/// Shapes that CUDA treats differently: every padded head size, slots split between blocks, wide tiles. Elsewhere fewer
/// heads of the widest ones do.
std::vector<Shape> shapes_for_tiles(bool on_cuda) {
  std::vector<Shape> shapes;
  for (const int32_t dim : {8, 32, 40, 64, 72, 80, 96, 128, 136, 256, 264, 512}) {
    shapes.push_back({70, 4, 2, dim, true, {{37, 40}, {21, 30}}, 19});
    shapes.push_back({20, 6, 2, dim, true, {{500, 500}, {81, 100}, {3, 3}}});  // split
  }
  shapes.push_back({37, 16, 2, 512, true, {{90, 90}, {33, 40}}, 31});
  shapes.push_back({67, 3, 1, 320, false, {{10, 10}}, 0, 70});
  shapes.push_back({1, 9, 3, 64, true, {{1000, 1000}}});
  shapes.push_back({3, 5, 5, 64, false, {{999, 1000}, {77, 80}}, 0, 7});
  shapes.push_back({40, 64, 1, 64, true, {{700, 700}}});
  shapes.push_back({2, 1, 1, 64, true, {}, 600});  // own rows split
  for (const int32_t dim :
       {48, 64, 72, 80, 96, 128, 200, 256}) {  // several tiles of one head, whose rows see different slots
    shapes.push_back({205, 2, 2, dim, true, {}});
    shapes.push_back({200, 1, 1, dim, true, {{90, 90}, {33, 40}}, 31});
    shapes.push_back({67, 3, 1, dim, false, {{10, 10}}, 0, 70});
  }
  for (const int32_t dim : {24, 64, 72, 80, 96, 128, 256}) {
    Shape images{130, 6, 6, dim, false, {}, 0, 0, 24, true};
    images.check_every = 37;
    shapes.push_back(images);
    Shape text{300, on_cuda ? 128 : 16, on_cuda ? 16 : 2, dim, true, {{100, 100}, {45, 64}}, 10};
    text.check_every = 211;
    shapes.push_back(text);
  }
  return shapes;
}

TEST_CASE("attend_rows equals plain attention on every backend, with the same bits every time") {
  test::for_each_backend([&](Queue& queue) {
    uint64_t seed = 100;
    std::vector<Shape> shapes = interesting_shapes();
    for (const Shape& shape : shapes_for_tiles(queue.on_cuda())) shapes.push_back(shape);
    for (const Shape& shape : shapes) {
      OCELLUS_CAPTURE_SHAPE(shape);
      if (test::skip(++seed, 5)) continue;
      Case instance(shape, seed, queue);
      const Activations out = instance.attend(queue);
      instance.check_numbers(out);
      CHECK(same_bits(out, instance.attend(queue), shape));
      if (!queue.on_cuda()) continue;
      INFO("lean");
      const test::Lean lean(queue);
      instance.check_numbers(instance.attend(queue));
    }
  });
}

TEST_CASE("chunk rows with a bias weigh more by its exponential, on every target and backend") {
  const auto check = [](Queue& queue, int32_t most_dim) {
    uint64_t seed = 300;
    for (const int32_t dim : {8, 64, 72, 96, 128, 264})
      for (const Shape& shape : {Shape{33, 4, 2, dim, true, {{40, 64}, {3, 64}}, 19},
                                 {205, 2, 2, dim, true, {}},
                                 {200, 3, 1, dim, true, {{90, 90}, {33, 40}}, 31},
                                 {67, 2, 1, dim, false, {}, 0, 70},
                                 {2, 1, 1, dim, true, {}, 600},
                                 {300, 16, 2, dim, true, {{100, 100}}}}) {
        Shape biased = shape;
        biased.biased = true;
        biased.check_every = shape.rows > 100 ? 37 : 3;
        OCELLUS_CAPTURE_SHAPE(biased);
        if (test::skip(++seed, 5) || dim > most_dim) continue;
        Case instance(biased, seed, queue);
        instance.check_numbers(instance.attend(queue));
        instance.list_bounds();
        instance.check_numbers(instance.attend(queue));
      }
  };
  test::TestQueue queue(2);
  test::for_each_target([&] { check(*queue, 96); });
  test::for_each_backend([&](Queue& any) { check(any, 512); });
}

/// Odd slots point along the query, even ones against it; own rows lie across.
void check_scores_of_size(float size, Queue& queue) {
  constexpr int32_t kDim = 64, kRows = 5, kSlots = 70;
  CAPTURE(size);
  Random random(9);
  TestRun past(random, 1, kDim, kSlots, kSlots);
  for (int32_t slot = 0; slot < kSlots; ++slot) {
    for (int32_t e = 0; e < kDim; ++e) {
      run_keys(past.run(), TestRun::kLayer, 0)[slot * kDim + e] = float_to_half(slot % 2 == 1 ? 8.0f : -8.0f);
      run_values(past.run(), TestRun::kLayer, 0)[slot * kDim + e] = float_to_half(slot % 2 == 1 ? 2.0f : -1.0f);
    }
  }
  test::Vector<KvRun> runs;
  for (int32_t first = 0; first < kSlots; first += kTileSlots)
    runs.push_back(slice_run(past.run(), first, std::min(kTileSlots, kSlots - first), kDim));
  test::Vector<Half> own(kRows * kDim, Half{});
  Activations query(queue, kRows, kDim), out(queue, kRows, kDim);
  for (int64_t t = 0; t < kRows; ++t)
    for (int64_t e = 0; e < kDim; ++e) query.set(t, e, size);
  Guarded<std::byte> scratch(1, attend_rows_scratch_bytes(kDim, queue.traits()));
  attend_rows(
      {.query = query.view(),
       .query_heads = 1,
       .rows = KvLayerRows::head_major(own.data(), own.data(), 1, kDim, kRows),
       .past = {.runs = runs.data(), .count = static_cast<int32_t>(runs.size()), .layer = {.index = TestRun::kLayer}},
       .output = out.view(),
       .scratch = scratch.view()},
      queue);
  REQUIRE(queue.finish().ok());
  for (int64_t t = 0; t < kRows; ++t)
    for (int64_t e = 0; e < kDim; ++e)
      REQUIRE(out.get(t, e) == doctest::Approx(2.0).epsilon(out.is_half() ? 1e-3 : 1e-6));
}

TEST_CASE("scores far outside the range of the exponential neither overflow nor vanish") {
  test::TestQueue queue(2);
  test::for_each_target([&] {
    for (const float size : {1.0f, 1e3f, 1e6f, 1e30f}) check_scores_of_size(size, *queue);
  });
  test::for_each_backend([&](Queue& any) {
    for (const float size : {1.0f, 1e3f, 6e4f}) check_scores_of_size(size, any);
  });
}

TEST_CASE("the plan covers every row once and keeps every thread busy where it can") {
  for (const int64_t rows : {1, 5, 16, 64, 256, 1200}) {
    for (const auto& [heads, kv_heads] : {std::pair<int64_t, int64_t>{6, 6}, {8, 4}, {9, 3}, {32, 1}, {64, 2}}) {
      for (const int64_t threads : {1, 2, 16, 100}) {
        const AttendRowsPlan plan = plan_attend_rows(rows, heads, kv_heads, threads);
        CHECK(plan.blocks * plan.rows >= rows);
        CHECK((plan.blocks - 1) * plan.rows < rows);
        CHECK(plan.rows * plan.group <= kAttendColumns);
      }
    }
  }
  CHECK(plan_attend_rows(256, 6, 6, 1).rows == 64);
  CHECK(plan_attend_rows(256, 6, 6, 2).rows == 64);
  CHECK(plan_attend_rows(256, 6, 6, 16).blocks * 6 >= 32);
}

TEST_CASE("tiles cover every row once, split only where few blocks would walk far, and fit their scratch") {
  constexpr int32_t kMultiprocessors = 132;
  for (const int64_t rows : {1, 40, 64, 65, 700, 2048}) {
    for (const int64_t heads : {1, 3, 32, 192}) {
      for (const int64_t stages : {1, 7, 8, 30, 500})
        for (const bool lean : {false, true}) {
          const AttendTilesPlan plan = plan_attend_tiles(rows, heads, stages, 64, kMultiprocessors, lean);
          CHECK(int64_t{plan.tiles} * plan.rows >= rows);
          CHECK((int64_t{plan.tiles} - 1) * plan.rows < rows);
          CHECK(int64_t{plan.splits} * plan.stages_per_split >= stages);
          CHECK((int64_t{plan.splits} - 1) * plan.stages_per_split < stages);
          if (plan.splits == 1) continue;
          CHECK(plan.rows == kAttendNarrowRows);
          CHECK(plan.tiles * heads * plan.splits <= attend_split_blocks(lean));
          CHECK(plan.splits * plan.tiles * heads * attend_split_floats(64) * 4 <= attend_split_scratch_bytes(64, lean));
          CHECK(plan.stages_per_split >= 2);
          CHECK(plan.splits == plan_attend_tiles(rows, heads, stages, 64, 8, lean).splits);
        }
    }
  }
  CHECK(plan_attend_tiles(1024, 16 * 12, 16, 64, kMultiprocessors, false).rows == kAttendWideRows);
  CHECK(plan_attend_tiles(60, 3, 313, 64, kMultiprocessors, false).splits > 30);
  CHECK(attend_tile_dim(72) == 80);
  CHECK(attend_tile_dim(136) == 256);
}

TEST_CASE("short scratch is a failure, not a wrong answer") {
  test::TestQueue queue(1);
  Guarded<float> out(1, 1);
  AttendRowsArgs args;
  args.rows.head_dim = 64;
  args.output = out.view();
  args.scratch.rows = 1;
  args.scratch.cols = 16;
  attend_rows(args, *queue);
  CHECK(queue->status().code() == Code::kInternal);
  CHECK(out.untouched_count() == 1);
}

}  // namespace
}  // namespace ocellus
