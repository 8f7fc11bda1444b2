#include "kernels/attention/attend_one.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/guard.h"
#include "tests/support/kv_cache.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"
#include "tests/support/test_queue.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;
using test::TestRun;

struct Shape {
  int32_t heads, kv_heads, dim;
  std::vector<std::vector<int32_t>> sessions;  // live slots of each session's runs
};

class Case {
 public:
  Case(const Shape& shape, uint64_t seed) : shape_(shape) {
    Random random(seed);
    for (const std::vector<int32_t>& session : shape.sessions) {
      run_begin_.push_back(static_cast<int32_t>(stores_.size()));
      int64_t slots = 0;
      for (const int32_t live : session) {
        stores_.emplace_back(random, shape.kv_heads, shape.dim, live,
                             live + static_cast<int32_t>(random.integer(0, 9)));
        slots += live;
      }
      most_slots_ = std::max(most_slots_, slots);
    }
    run_begin_.push_back(static_cast<int32_t>(stores_.size()));
    for (const TestRun& store : stores_) runs_.push_back(store.run());
    query_.assign(static_cast<size_t>(sessions() * stride()), std::numeric_limits<float>::quiet_NaN());
    for (int64_t b = 0; b < sessions(); ++b) {
      for (int64_t i = 0; i < width(); ++i) query_[static_cast<size_t>(b * stride() + i)] = random.normal();
    }
  }

  Guarded<float> attend(Queue& queue) {
    Guarded<float> out(sessions(), width(), width() + 16);
    const int64_t bytes = attend_one_scratch_bytes(sessions(), most_slots_, static_cast<int64_t>(runs_.size()),
                                                   shape_.heads, shape_.dim, false);
    Guarded<std::byte> scratch(1, bytes);
    std::memset(scratch.data(), 0xFF, static_cast<size_t>(bytes));  // NaN: what was there before must not matter
    cpu::attend_one({.query = {query_.data(), sessions(), width(), stride()},
                     .query_heads = shape_.heads,
                     .kv_heads = shape_.kv_heads,
                     .head_dim = shape_.dim,
                     .runs = runs_.data(),
                     .run_begin = run_begin_.data(),
                     .layer = {.index = TestRun::kLayer},
                     .output = out.view(),
                     .scratch = scratch.view()},
                    queue);
    CHECK(queue.ok());
    CHECK(out.intact());
    CHECK(scratch.intact());
    return out;
  }

  void check_numbers(const Guarded<float>& out) const {
    for (int64_t b = 0; b < sessions(); ++b) {
      const int32_t first = run_begin_[static_cast<size_t>(b)];
      const int64_t count = run_begin_[static_cast<size_t>(b) + 1] - first;
      for (int32_t head = 0; head < shape_.heads; ++head) {
        const int32_t kv_head = head / (shape_.heads / shape_.kv_heads);
        const auto slots = test::live_slots(runs_.data() + first, count, TestRun::kLayer, kv_head, shape_.dim);
        const float* query = query_.data() + b * stride() + head * shape_.dim;
        const std::vector<double> expected = slots.empty() ? std::vector<double>(static_cast<size_t>(shape_.dim))
                                                           : test::attend(query, slots, shape_.dim);
        for (int64_t e = 0; e < shape_.dim; ++e) {
          REQUIRE(std::abs(out.at(b, head * shape_.dim + e) - expected[static_cast<size_t>(e)]) < 3e-6);
        }
      }
    }
  }

  int64_t sessions() const { return static_cast<int64_t>(shape_.sessions.size()); }
  int64_t width() const { return int64_t{shape_.heads} * shape_.dim; }

 private:
  int64_t stride() const { return width() + 5; }

  Shape shape_;
  int64_t most_slots_ = 0;
  std::vector<TestRun> stores_;
  std::vector<KvRun> runs_;
  std::vector<int32_t> run_begin_;
  std::vector<float> query_;
};

std::vector<Shape> interesting_shapes() {
  std::vector<Shape> shapes = {
      {1, 1, 8, {{1}}},
      {8, 4, 64, {{64, 36}}},
      {8, 4, 64, {{256}, {255}, {257}, {1}}},
      {6, 2, 72, {{0, 3, 0, 0, 61, 200, 0}, {5}}},
      {4, 4, 80, {{64, 64, 64, 64, 64, 64, 1}}},
      {8, 1, 96, {{30, 500, 7}}},
      {5, 1, 128, {{700}}},
      {32, 1, 16, {{90}}},
      {7, 1, 256, {{17, 18}}},
      {2, 2, 64, {{0}, {12}}},  // a session without slots gives zeros
  };
  Random random(78);
  constexpr int32_t kDims[] = {8, 64, 72, 80, 96, 128};
  constexpr int32_t kGroups[] = {1, 2, 3, 4, 8};
  for (int i = 0; i < 20; ++i) {
    Shape shape;
    shape.dim = kDims[random.integer(0, 5)];
    shape.kv_heads = static_cast<int32_t>(random.integer(1, 3));
    shape.heads = shape.kv_heads * kGroups[random.integer(0, 4)];
    shape.sessions.resize(static_cast<size_t>(random.integer(1, 4)));
    for (std::vector<int32_t>& session : shape.sessions) {
      session = {1};
      for (int64_t runs = random.integer(0, 6); runs > 0; --runs)
        session.push_back(static_cast<int32_t>(random.integer(0, 1) * random.integer(1, 150)));
    }
    shapes.push_back(shape);
  }
  return shapes;
}

TEST_CASE("attend_one equals plain attention on every target, with the same bits on any number of threads") {
  test::TestQueue one(1), two(2), three(3);
  uint64_t seed = 0;
  for (const Shape& shape : interesting_shapes()) {
    CAPTURE(seed);
    CAPTURE(shape.heads);
    CAPTURE(shape.kv_heads);
    CAPTURE(shape.dim);
    Case instance(shape, ++seed);
    test::for_each_target([&] {
      const Guarded<float> out = instance.attend(*one);
      instance.check_numbers(out);
      const Guarded<float> by_two = instance.attend(*two), by_three = instance.attend(*three);
      for (int64_t b = 0; b < instance.sessions(); ++b) {
        const size_t bytes = static_cast<size_t>(instance.width()) * sizeof(float);
        CHECK(std::memcmp(&out.at(b, 0), &by_two.at(b, 0), bytes) == 0);
        CHECK(std::memcmp(&out.at(b, 0), &by_three.at(b, 0), bytes) == 0);
      }
    });
  }
}

TEST_CASE("a decode step's scores far outside the range of the exponential neither overflow nor vanish") {
  constexpr int32_t kDim = 64, kSlots = 600;
  test::for_each_target([&] {
    for (const float size : {1.0f, 1e3f, 1e6f, 1e30f}) {
      CAPTURE(size);
      Random random(9);
      TestRun past(random, 1, kDim, kSlots, kSlots);
      // Only one slot, in the second piece, points along the query.
      for (int32_t slot = 0; slot < kSlots; ++slot) {
        for (int32_t e = 0; e < kDim; ++e) {
          run_keys(past.run(), TestRun::kLayer, 0)[slot * kDim + e] = float_to_half(slot == 300 ? 8.0f : -8.0f);
          run_values(past.run(), TestRun::kLayer, 0)[slot * kDim + e] = float_to_half(slot == 300 ? 2.0f : -1.0f);
        }
      }
      const std::vector<float> query(kDim, size);
      const int32_t run_begin[] = {0, 1};
      Guarded<float> out(1, kDim);
      test::TestQueue queue(2);
      std::vector<std::byte> scratch(static_cast<size_t>(attend_one_scratch_bytes(1, kSlots, 1, 1, kDim, false)));
      cpu::attend_one({.query = {query.data(), 1, kDim},
                       .query_heads = 1,
                       .kv_heads = 1,
                       .head_dim = kDim,
                       .runs = &past.run(),
                       .run_begin = run_begin,
                       .layer = {.index = TestRun::kLayer},
                       .output = out.view(),
                       .scratch = {scratch.data(), 1, static_cast<int64_t>(scratch.size())}},
                      *queue);
      for (int64_t e = 0; e < kDim; ++e) REQUIRE(out.at(0, e) == doctest::Approx(2.0).epsilon(1e-6));
    }
  });
}

TEST_CASE("short scratch stops a decode step") {
  KvRun run;
  run.slots = 4;
  const int32_t run_begin[] = {0, 1};
  Guarded<float> out(1, 64);
  AttendOneArgs args{.query = {out.data(), 1, 64},
                     .query_heads = 1,
                     .kv_heads = 1,
                     .head_dim = 64,
                     .runs = &run,
                     .run_begin = run_begin,
                     .output = out.view(),
                     .scratch = {nullptr, 1, 16}};
  test::TestQueue queue(1);
  cpu::attend_one(args, *queue);
  CHECK(queue->status().code() == Code::kInternal);
  CHECK(out.untouched_count() == 64);
}

}  // namespace
}  // namespace ocellus
