#include "kernels/attend_rows.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "kernels/attend_rows_plan.h"
#include "tests/support/guard.h"
#include "tests/support/kv_cache.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"
#include "tests/support/test_queue.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;
using test::Slot;
using test::TestRun;

struct Shape {
  int64_t rows;
  int32_t heads, kv_heads, dim;
  bool causal;
  std::vector<std::pair<int32_t, int32_t>> runs;  // live slots, capacity
  int64_t first_row = 0;                          // of the chunk
  int64_t later_rows = 0;                         // chunk rows behind the last query row
  int64_t row_count() const { return first_row + rows + later_rows; }
};

/// Inputs of one call. Chunk rows behind the last, gaps between query rows and dead slots are NaN.
class Case {
 public:
  Case(const Shape& shape, uint64_t seed) : shape_(shape), random_(seed) {
    for (const auto& [slots, capacity] : shape.runs) {
      stores_.emplace_back(random_, shape.kv_heads, shape.dim, slots, capacity);
    }
    for (const TestRun& store : stores_) runs_.push_back(store.run());
    const int64_t capacity = shape.row_count() + 3;
    keys_.assign(static_cast<size_t>(shape.kv_heads * capacity * shape.dim), test::kHalfNan);
    values_ = keys_;
    rows_ = {keys_.data(), values_.data(), shape.kv_heads, shape.dim, capacity};
    for (int64_t head = 0; head < shape.kv_heads; ++head) {
      for (int64_t i = 0; i < shape.row_count() * shape.dim; ++i) {
        keys_[static_cast<size_t>(head * capacity * shape.dim + i)] = float_to_half(random_.normal());
        values_[static_cast<size_t>(head * capacity * shape.dim + i)] = float_to_half(random_.normal());
      }
    }
    query_.assign(static_cast<size_t>(shape.rows * stride()), std::numeric_limits<float>::quiet_NaN());
    for (int64_t t = 0; t < shape.rows; ++t) {
      for (int64_t i = 0; i < width(); ++i) query_[static_cast<size_t>(t * stride() + i)] = random_.normal();
    }
  }

  /// Runs the op and checks everything but the numbers.
  Guarded<float> attend(Queue& queue) {
    Guarded<float> out(shape_.rows, width(), width() + 16);
    const int64_t bytes = attend_rows_scratch_bytes(shape_.dim, queue.thread_count());
    Guarded<std::byte> scratch(1, bytes);
    std::memset(scratch.data(), 0xFF, static_cast<size_t>(bytes));  // NaN: what was there before must not matter
    attend_rows({.query = {query_.data(), shape_.rows, width(), stride()},
                 .query_heads = shape_.heads,
                 .rows = rows_,
                 .first_row = shape_.first_row,
                 .row_count = shape_.row_count(),
                 .runs = runs_.data(),
                 .run_count = static_cast<int32_t>(runs_.size()),
                 .layer = TestRun::kLayer,
                 .causal = shape_.causal,
                 .output = out.view(),
                 .scratch = scratch.view()},
                queue);
    CHECK(queue.ok());
    CHECK(out.intact());
    CHECK(scratch.intact());
    return out;
  }

  void check_numbers(const Guarded<float>& out) const {
    for (int32_t head = 0; head < shape_.heads; ++head) {
      const int32_t kv_head = head / (shape_.heads / shape_.kv_heads);
      const std::vector<Slot> past =
          test::live_slots(runs_.data(), static_cast<int64_t>(runs_.size()), TestRun::kLayer, kv_head, shape_.dim);
      for (int64_t t = 0; t < shape_.rows; ++t) {
        std::vector<Slot> visible = past;
        for (int64_t own = 0; own < (shape_.causal ? shape_.first_row + t + 1 : shape_.row_count()); ++own) {
          const int64_t at = (kv_head * rows_.capacity + own) * shape_.dim;
          visible.push_back({rows_.keys + at, rows_.values + at});
        }
        const float* query = query_.data() + t * stride() + head * shape_.dim;
        const std::vector<double> expected = test::attend(query, visible, shape_.dim);
        for (int64_t e = 0; e < shape_.dim; ++e) {
          REQUIRE(std::abs(out.at(t, head * shape_.dim + e) - expected[static_cast<size_t>(e)]) < 3e-6);
        }
      }
    }
  }

 private:
  int64_t width() const { return int64_t{shape_.heads} * shape_.dim; }
  int64_t stride() const { return width() + 5; }

  Shape shape_;
  Random random_;
  std::vector<TestRun> stores_;
  std::vector<KvRun> runs_;
  std::vector<Half> keys_, values_;
  KvLayerRows rows_;
  std::vector<float> query_;
};

bool same_bits(const Guarded<float>& a, const Guarded<float>& b, int64_t rows, int64_t cols) {
  for (int64_t t = 0; t < rows; ++t) {
    if (std::memcmp(&a.at(t, 0), &b.at(t, 0), static_cast<size_t>(cols) * sizeof(float)) != 0) return false;
  }
  return true;
}

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
    CAPTURE(shape.rows);
    CAPTURE(shape.heads);
    CAPTURE(shape.kv_heads);
    CAPTURE(shape.dim);
    CAPTURE(shape.causal);
    CAPTURE(shape.first_row);
    Case instance(shape, ++seed);
    test::for_each_target([&] {
      const std::string target = hwy::TargetName(hwy::SupportedTargets());
      CAPTURE(target);
      const Guarded<float> out = instance.attend(*one);
      instance.check_numbers(out);
      const int64_t width = int64_t{shape.heads} * shape.dim;
      CHECK(same_bits(out, instance.attend(*two), shape.rows, width));
      CHECK(same_bits(out, instance.attend(*three), shape.rows, width));
    });
  }
}

TEST_CASE("scores far outside the range of the exponential neither overflow nor vanish") {
  constexpr int32_t kDim = 64, kRows = 5, kSlots = 70;
  test::for_each_target([&] {
    for (const float size : {1.0f, 1e3f, 1e6f, 1e30f}) {
      CAPTURE(size);
      Random random(9);
      TestRun past(random, 1, kDim, kSlots, kSlots);
      // Odd slots point along the query, even ones against it; own rows lie across.
      for (int32_t slot = 0; slot < kSlots; ++slot) {
        for (int32_t e = 0; e < kDim; ++e) {
          run_keys(past.run(), TestRun::kLayer, 0)[slot * kDim + e] = float_to_half(slot % 2 == 1 ? 8.0f : -8.0f);
          run_values(past.run(), TestRun::kLayer, 0)[slot * kDim + e] = float_to_half(slot % 2 == 1 ? 2.0f : -1.0f);
        }
      }
      std::vector<Half> own(kRows * kDim, Half{});
      const std::vector<float> query(kRows * kDim, size);
      Guarded<float> out(kRows, kDim);
      test::TestQueue queue(2);
      std::vector<std::byte> scratch(static_cast<size_t>(attend_rows_scratch_bytes(kDim, 2)));
      attend_rows({.query = {query.data(), kRows, kDim},
                   .query_heads = 1,
                   .rows = {own.data(), own.data(), 1, kDim, kRows},
                   .runs = &past.run(),
                   .run_count = 1,
                   .layer = TestRun::kLayer,
                   .output = out.view(),
                   .scratch = {scratch.data(), 1, static_cast<int64_t>(scratch.size())}},
                  *queue);
      for (int64_t t = 0; t < kRows; ++t)
        for (int64_t e = 0; e < kDim; ++e) REQUIRE(out.at(t, e) == doctest::Approx(2.0).epsilon(1e-6));
    }
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

TEST_CASE("a moved run or short scratch is a failure, not a wrong answer") {
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

  KvRun moved;
  moved.position_shift = -1;
  test::TestQueue other(1);
  args.runs = &moved;
  args.run_count = 1;
  args.scratch.cols = 1 << 20;
  attend_rows(args, *other);
  CHECK(other->status().code() == Code::kInternal);
  CHECK(std::strstr(last_failure().sentence, "moved by -1") != nullptr);
}

}  // namespace
}  // namespace ocellus
