#include "kernels/attention/attend_step.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <optional>

#include "kernels/attention/step/plan.h"
#include "tests/kernels/attention/attend_step_shape.h"
#include "tests/support/device.h"
#include "tests/support/kv_cache.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"

namespace ocellus {
namespace {

using step_test::Cache;
using step_test::kLayer;
using step_test::Scratch;
using step_test::Session;
using step_test::Shape;
using test::Activations;
using test::Guarded;
using test::Random;

constexpr int32_t kRingStart = 1000;

class Case {
 public:
  Case(const Shape& shape, uint64_t seed, Queue& queue)
      : shape_(shape),
        random_(seed),
        cache_(shape_, random_),
        query_(queue, rows(), width(), width() + 5),
        key_(queue, rows(), kv_width(), kv_width() + 3),
        value_(queue, rows(), kv_width(), kv_width() + 8),
        out_(queue, rows(), width(), width() + 16),
        angles_(rows(), shape.rotated, shape.rotated + 2),
        steps_(shape.sessions.size()),
        ring_starts_(shape.sessions.size(), kRingStart) {
    for (int64_t b = 0; b < rows(); ++b) {
      for (int32_t i = 0; i < shape.rotated; i += 2) {
        const double angle = static_cast<double>(random_.uniform(-3, 3));
        angles_.at(b, i) = static_cast<float>(std::cos(angle));
        angles_.at(b, i + 1) = static_cast<float>(std::sin(angle));
      }
      const Session& session = shape.sessions[static_cast<size_t>(b)];
      StepRow& step = steps_[static_cast<size_t>(b)];
      step.active = session.active;
      const auto row = static_cast<size_t>(b);
      const bool is_listed = session.active && shape.window == 0;
      step.new_tile = is_listed ? cache_.new_tiles[row] : 1 << 30;
      step.new_slot = is_listed ? session.new_slot : -5;
      if (!session.active || shape.window == 0) continue;
      step.position = kRingStart + (cache_.ring_turn(row) + cache_.new_tiles[row]) * kTileSlots + session.new_slot;
    }
    fill(query_, width());
    fill(key_, kv_width());
    fill(value_, kv_width());
    given_query_.emplace(query_);
    given_key_.emplace(key_);
    given_value_.emplace(value_);
  }

  /// As before the step.
  void reset() {
    cache_.cells = cache_.at_first;
    copy(*given_key_, key_, kv_width());
    copy(*given_value_, value_, kv_width());
    forget_query();
  }
  /// As after a step, but for the query, which is what it was before.
  void forget_query() {
    copy(*given_query_, query_, width());
    for (int64_t b = 0; b < rows(); ++b)
      for (int64_t i = 0; i < width(); ++i) out_.set(b, i, std::numeric_limits<float>::quiet_NaN());
  }

  int64_t groups() const {
    return rows() * shape_.kv_heads * divide_up(int64_t{shape_.heads / shape_.kv_heads}, attend_step_heads(shape_.dim));
  }
  int64_t scratch_bytes(Queue& queue) const {
    int64_t most_slots = 0;
    for (int64_t b = 0; b < rows(); ++b)
      most_slots = std::max(most_slots, static_cast<int64_t>(cache_.live(b, 0).size()));
    return attend_step_scratch_bytes(rows(), most_slots, cache_.tiles_per_row, shape_.heads, shape_.kv_heads,
                                     shape_.dim, KvFormat::kF16, queue.traits());
  }

  void attend(Queue& queue, int64_t most_tiles, DeviceView<std::byte> scratch, bool cache_settled = false,
              bool stored = false) {
    attend_step({.query = query_.view(),
                 .key = key_.view(),
                 .value = value_.view(),
                 .heads = {shape_.heads, shape_.kv_heads, shape_.dim},
                 .rope = {.pairing = shape_.pairing, .rotated = shape_.rotated},
                 .angles = angles_.view(),
                 .tiles = {.steps = steps_.data(),
                           .runs = cache_.tiles.data(),
                           .per_row = cache_.tiles_per_row,
                           .most = most_tiles,
                           .window = shape_.window,
                           .ring_starts = ring_starts_.data(),
                           .stored = stored},
                 .layer = {.index = kLayer},
                 .cache_settled = cache_settled,
                 .output = out_.view(),
                 .scratch = scratch},
                queue);
  }

  void check() const {
    CHECK(out_.intact());
    CHECK(query_.intact());
    CHECK(key_.intact());
    CHECK(value_.intact());
    CHECK(cache_.untouched_elsewhere());
    for (int64_t b = 0; b < rows(); ++b) {
      const Session& session = shape_.sessions[static_cast<size_t>(b)];
      if (session.active) check_new_slot(b, session);
      for (int32_t head = 0; head < shape_.heads; ++head) check_head(b, head, session);
    }
  }

  std::vector<float> output() const {
    std::vector<float> all;
    for (int64_t b = 0; b < rows(); ++b)
      for (int64_t i = 0; i < width(); ++i) all.push_back(out_.get(b, i));
    return all;
  }
  int64_t rows() const { return static_cast<int64_t>(shape_.sessions.size()); }
  const Cache& cache() const { return cache_; }

 private:
  int64_t width() const { return int64_t{shape_.heads} * shape_.dim; }
  int64_t kv_width() const { return int64_t{shape_.kv_heads} * shape_.dim; }

  void fill(Activations& values, int64_t cols) {
    for (int64_t b = 0; b < rows(); ++b) {
      const bool active = shape_.sessions[static_cast<size_t>(b)].active;
      for (int64_t i = 0; i < cols; ++i)
        values.set(b, i, active ? random_.normal() : std::numeric_limits<float>::quiet_NaN());
    }
  }
  void copy(const Activations& from, Activations& to, int64_t cols) {
    for (int64_t b = 0; b < rows(); ++b)
      for (int64_t i = 0; i < cols; ++i) to.set(b, i, from.get(b, i));
  }

  /// One head of row b, rotated; `error` (if wanted): what f32 arithmetic may do to each channel.
  std::vector<double> rotated(const Activations& values, int64_t b, int32_t head, std::vector<double>* error) const {
    std::vector<double> x;
    for (int32_t e = 0; e < shape_.dim; ++e) x.push_back(static_cast<double>(values.get(b, head * shape_.dim + e)));
    if (error != nullptr) error->assign(x.size(), 0.0);
    for (int32_t i = 0; i < shape_.rotated / 2; ++i) {
      const bool halves = shape_.pairing == RopePairing::kHalves;
      const size_t first = static_cast<size_t>(halves ? i : 2 * i);
      const size_t second = static_cast<size_t>(halves ? i + shape_.rotated / 2 : 2 * i + 1);
      const double cosine = static_cast<double>(angles_.at(b, 2 * i)),
                   sine = static_cast<double>(angles_.at(b, 2 * i + 1));
      const double p = x[first], q = x[second];
      x[first] = p * cosine - q * sine;
      x[second] = p * sine + q * cosine;
      if (error != nullptr) (*error)[first] = (*error)[second] = 2e-7 * (std::abs(p) + std::abs(q));
    }
    return x;
  }
  void check_new_slot(int64_t b, const Session& session) const {
    for (int32_t head = 0; head < shape_.kv_heads; ++head) {
      std::vector<double> error;
      const std::vector<double> expected = rotated(*given_key_, b, head, &error);
      const Half* key = run_keys(cache_.new_tile(b), kLayer, head) + session.new_slot * shape_.dim;
      const Half* value = run_values(cache_.new_tile(b), kLayer, head) + session.new_slot * shape_.dim;
      for (int32_t e = 0; e < shape_.dim; ++e) {
        const double x = expected[static_cast<size_t>(e)], off = error[static_cast<size_t>(e)];
        REQUIRE(half_to_float(key[e]) >= half_to_float(float_to_half(static_cast<float>(x - off))));
        REQUIRE(half_to_float(key[e]) <= half_to_float(float_to_half(static_cast<float>(x + off))));
        REQUIRE(value[e].bits == float_to_half(given_value_->get(b, head * shape_.dim + e)).bits);
      }
    }
  }
  void check_head(int64_t b, int32_t head, const Session& session) const {
    std::vector<double> expected(static_cast<size_t>(shape_.dim));
    if (session.active) {
      const std::vector<double> exact = rotated(*given_query_, b, head, nullptr);
      const std::vector<float> query(exact.begin(), exact.end());
      expected = test::attend(query.data(), cache_.live(b, head / (shape_.heads / shape_.kv_heads)), shape_.dim);
    }
    // f16: the query is rounded (2^-11 of each product, so about 3e-4 of a score, at most 2e-3), then the weights, then
    // the output.
    const double absolute = out_.is_half() ? 3e-3 : 3e-6, relative = out_.is_half() ? 1e-3 : 0.0;
    for (int32_t e = 0; e < shape_.dim; ++e) {
      const double x = expected[static_cast<size_t>(e)];
      const double difference = std::abs(static_cast<double>(out_.get(b, head * shape_.dim + e)) - x);
      if (!session.active) REQUIRE(difference == 0.0);
      REQUIRE(difference <= absolute + relative * std::abs(x));
    }
  }

  Shape shape_;
  Random random_;
  Cache cache_;
  Activations query_, key_, value_, out_;
  std::optional<Activations> given_query_, given_key_, given_value_;
  Guarded<float> angles_;
  test::Vector<StepRow> steps_;
  test::Vector<int32_t> ring_starts_;
};

Session random_session(Random& random) {
  Session session;
  for (int64_t i = random.integer(0, 2); i > 0; --i)
    session.images.push_back(static_cast<int32_t>(random.integer(1, 150)));
  for (int64_t i = random.integer(0, 20); i > 0; --i)
    session.pages.push_back(static_cast<int32_t>(random.integer(0, 3) == 0 ? random.integer(0, 15) : 16));
  session.new_slot = static_cast<int32_t>(random.integer(0, 15));
  session.active = random.integer(0, 4) != 0;
  return session;
}

std::vector<Shape> interesting_shapes() {
  constexpr auto kAdjacent = RopePairing::kAdjacent, kHalves = RopePairing::kHalves;
  const Session alone;  // nothing but the new slot
  std::vector<Shape> shapes = {
      {1, 1, 8, 8, kAdjacent, {alone}},
      {4, 2, 64, 64, kHalves, {alone, {{}, {}, 15}}},
      {9, 3, 64, 64, kAdjacent, {{{256, 3}, {16, 16, 5, 0, 0, 16}, 7}}},
      {4, 4, 128, 64, kHalves, {{{}, std::vector<int32_t>(40, 16), 0}}},
      {2, 1, 96, 96, kHalves, {{{}, std::vector<int32_t>(70, 0), 3}}},  // whole pieces without a live slot
      {2, 2, 64, 64, kAdjacent, {{{}, {3}, 1, false}, {{}, {3}, 2, false}}},
  };
  Random random(31);
  constexpr int32_t kDims[] = {8, 64, 72, 96, 128, 256, 512};
  constexpr int32_t kGroups[] = {1, 2, 3, 4, 7, 8, 16, 32};
  for (int32_t i = 0; i < 56; ++i) {
    Shape shape{};
    shape.dim = kDims[i % 7];
    shape.kv_heads = static_cast<int32_t>(random.integer(1, 3));
    shape.heads = shape.kv_heads * kGroups[i / 7];
    shape.pairing = random.integer(0, 1) == 0 ? kAdjacent : kHalves;
    shape.rotated = random.integer(0, 2) == 0 ? 2 * static_cast<int32_t>(random.integer(1, shape.dim / 2)) : shape.dim;
    for (int64_t b = random.integer(1, 5); b > 0; --b) shape.sessions.push_back(random_session(random));
    shapes.push_back(shape);
  }
  return shapes;
}

void check_twice(const Shape& shape, uint64_t seed, Queue& queue) {
  CAPTURE(seed);
  CAPTURE(shape.heads);
  CAPTURE(shape.kv_heads);
  CAPTURE(shape.window);
  Case instance(shape, seed, queue);
  Scratch scratch(instance.scratch_bytes(queue), instance.groups(), queue);
  std::vector<float> first;
  for (const bool again : {false, true}) {
    instance.reset();
    instance.attend(queue, instance.cache().most_tiles, scratch.view(), again);  // settled or not: the same
    REQUIRE(queue.finish().ok());
    CHECK(scratch.intact());
    if (!again) instance.check();
    const std::vector<float> out = instance.output();
    if (again) CHECK(std::memcmp(out.data(), first.data(), out.size() * sizeof(float)) == 0);
    first = out;
  }
  // Prepared for more tiles than are live, as a recorded step is.
  for (const bool settled : {false, true}) {
    instance.reset();
    instance.attend(queue, instance.cache().tiles_per_row, scratch.view(), settled);
    REQUIRE(queue.finish().ok());
    instance.check();
  }
}

TEST_CASE("attend_step equals plain attention, stores the new slot and nothing else, with the same bits again") {
  test::for_each_backend([&](Queue& queue) {
    uint64_t seed = 0;
    for (const Shape& shape : interesting_shapes())
      if (!test::skip(++seed, 5)) check_twice(shape, seed, queue);
  });
}

TEST_CASE("attend_step takes heads that are longer than the tiles of prefill") {
  test::for_each_backend([&](Queue& queue) {
    const Session some{{40}, {16, 5}, 3}, many{{100}, std::vector<int32_t>(60, 16), 15};
    uint64_t seed = 0;
    for (const int32_t dim : {264, 320, 512})
      for (const int32_t group : {1, 3, 4, 5, 8, 9})
        if (!test::skip(++seed, 5))
          check_twice({2 * group, 2, dim, dim, RopePairing::kHalves, {{}, some, {{}, {}, 1, false}, many}}, seed,
                      queue);
    const Session pages{{}, std::vector<int32_t>(60, 16), 15};
    check_twice({8, 1, 512, 64, RopePairing::kAdjacent, {{}, pages}, 33}, ++seed, queue);
  });
}

TEST_CASE("a key that an earlier call has stored is neither turned nor stored again") {
  test::for_each_backend([&](Queue& queue) {
    for (const int32_t window : {0, 20})
      for (const int32_t dim : {64, 512}) {
        const std::vector<Session> sessions = {{}, {{}, {16, 16}, 7}, {{}, {16}, 2, false}};
        Case instance({6, 2, dim, dim, RopePairing::kHalves, sessions, window}, 9, queue);
        Scratch scratch(instance.scratch_bytes(queue), instance.groups(), queue);
        instance.reset();
        instance.attend(queue, instance.cache().tiles_per_row, scratch.view());
        REQUIRE(queue.finish().ok());
        const std::vector<float> first = instance.output();
        instance.forget_query();
        instance.attend(queue, instance.cache().tiles_per_row, scratch.view(), true, true);
        REQUIRE(queue.finish().ok());
        instance.check();
        const std::vector<float> out = instance.output();
        CHECK(std::memcmp(out.data(), first.data(), out.size() * sizeof(float)) == 0);
      }
  });
}

TEST_CASE("attend_step over thousands of slots, in many pieces") {
  test::for_each_backend([&](Queue& queue) {
    const std::vector<int32_t> pages(180, 16);
    const Session longest{{1024, 1100}, pages, 9};  // 5,014 slots
    check_twice({6, 2, 64, 64, RopePairing::kHalves, {longest}}, 1, queue);
    check_twice({4, 1, 128, 128, RopePairing::kAdjacent, {{{}, {5}, 3}, longest, {{40}, {16, 16}, 0, false}}}, 2,
                queue);
  });
}

TEST_CASE("attend_step sees the newest slots only, if it has a window") {
  test::for_each_backend([&](Queue& queue) {
    for (const int32_t window : {1, 2, 15, 16, 17, 33, 200, 1024}) {
      const Session some{{}, std::vector<int32_t>(3, 16), 0}, many{{}, std::vector<int32_t>(90, 16), 7};
      const std::vector<Session> sessions = {{}, {{}, {}, 15}, some, many};
      check_twice({8, 2, 64, 64, RopePairing::kHalves, sessions, window}, static_cast<uint64_t>(window), queue);
      check_twice({4, 1, 256, 256, RopePairing::kHalves, sessions, window}, static_cast<uint64_t>(window), queue);
    }
  });
}

TEST_CASE("calls of attend_step with different numbers of rows share scratch") {
  test::for_each_backend([&](Queue& queue) {
    const Session past{{300}, {16, 16}, 4}, other{{}, {16, 16, 16, 16}, 12};
    const Case most({8, 2, 64, 64, RopePairing::kHalves, {past, other, past, past}}, 1, queue);
    Scratch scratch(most.scratch_bytes(queue), most.groups(), queue);
    uint64_t seed = 2;
    for (const std::vector<Session>& sessions :
         {std::vector<Session>{past}, {past, other, past, past}, {other, past}, {past}}) {
      Case instance({8, 2, 64, 64, RopePairing::kHalves, sessions}, ++seed, queue);
      instance.reset();
      instance.attend(queue, instance.cache().tiles_per_row, scratch.view());
      REQUIRE(queue.finish().ok());
      instance.check();
      CHECK(scratch.intact());
    }
  });
}

TEST_CASE("a decode step stores keys too large for f16 as the largest, and enormous scores leave numbers") {
  constexpr int32_t kDim = 64, kSlots = 600, kBest = 300;
  constexpr int64_t kTiles = kSlots / kTileSlots + 1;
  test::for_each_backend([&](Queue& queue) {
    test::Vector<Half> cells(static_cast<size_t>(2 * kTiles * kTileSlots * kDim), test::kHalfNan);
    const KvRun run{reinterpret_cast<std::byte*>(cells.data()), 0,      0,
                    int64_t{2} * kTiles * kTileSlots * kDim,    kSlots, static_cast<int32_t>(kTiles * kTileSlots)};
    test::Vector<KvRun> tiles;
    for (int32_t i = 0; i < kTiles; ++i) tiles.push_back(slice_run(run, i * kTileSlots, kTileSlots, kDim));
    for (int32_t i = 0; i < kSlots * kDim; ++i) {
      run_keys(run, 0, 0)[i] = float_to_half(i / kDim == kBest ? 8.0f : -8.0f);
      run_values(run, 0, 0)[i] = float_to_half(i / kDim == kBest ? 2.0f : -1.0f);
    }
    Activations query(queue, 1, kDim), key(queue, 1, kDim), value(queue, 1, kDim), out(queue, 1, kDim);
    test::Vector<float> angles;
    for (int32_t e = 0; e < kDim; ++e) {
      query.set(0, e, e < kDim / 2 ? 50000.0f : 0.0f);
      key.set(0, e, -60000.0f);
      value.set(0, e, 1.0f);
      angles.push_back(std::numbers::sqrt2_v<float> / 2);  // an eighth of a turn
    }
    test::Vector<StepRow> steps(1);
    steps[0].active = 1;
    steps[0].new_tile = kSlots / kTileSlots;
    steps[0].new_slot = kSlots % kTileSlots;
    Scratch scratch(attend_step_scratch_bytes(1, kSlots + 1, kTiles, 1, 1, kDim, KvFormat::kF16, queue.traits()), 1,
                    queue);
    const AttendStepArgs args{.query = query.view(),
                              .key = key.view(),
                              .value = value.view(),
                              .heads = {1, 1, kDim},
                              .rope = {.pairing = RopePairing::kHalves, .rotated = kDim},
                              .angles = {angles.data(), 1, kDim},
                              .tiles = {.steps = steps.data(), .runs = tiles.data(), .per_row = kTiles, .most = kTiles},
                              .output = out.view(),
                              .scratch = scratch.view()};
    attend_step(args, queue);
    REQUIRE(queue.finish().ok());
    for (int32_t e = 0; e < kDim; ++e) REQUIRE(out.get(0, e) == doctest::Approx(2.0).epsilon(1e-6));
    // (-60000, -60000) turned by an eighth: (0, -84853).
    for (int32_t e = kDim / 2; e < kDim; ++e) REQUIRE(run_keys(run, 0, 0)[kSlots * kDim + e].bits == 0xFBFF);

    AttendStepArgs starved = args;
    starved.scratch.cols = 16;
    attend_step(starved, queue);
    CHECK(queue.status().code() == Code::kInternal);
    queue.clear();
  });
}

TEST_CASE("scratch planned for the most rows and tiles is enough for fewer, on any device") {
  Random random(5);
  for (int i = 0; i < 3000; ++i) {
    const int64_t rows = random.integer(1, 200), tiles = random.integer(1, 3000), kv_heads = random.integer(1, 32);
    const int64_t heads = kv_heads * random.integer(1, 32), dim = 8 * random.integer(1, 32);
    const int64_t planned = AttendStepScratch::most_bytes(rows, tiles, heads, kv_heads, dim);
    const int64_t some_rows = random.integer(1, rows), some_tiles = random.integer(1, tiles);
    const AttendStepPlan plan = plan_attend_step(some_rows, some_tiles, heads, kv_heads, dim, random.integer(1, 300));
    REQUIRE(plan.heads * plan.head_tiles >= heads / kv_heads);
    REQUIRE(plan.pieces >= 1);
    REQUIRE(AttendStepScratch::bytes(plan, some_rows, kv_heads, dim) <= planned);
    const auto planned_alike = [&](int64_t r, int64_t t) {
      return plan_attend_step(r, t, heads, kv_heads, dim, 1, KvFormat::kF16, true);
    };
    REQUIRE(AttendStepScratch::bytes(planned_alike(some_rows, some_tiles), some_rows, kv_heads, dim) <=
            AttendStepScratch::most_bytes(rows, tiles, heads, kv_heads, dim, KvFormat::kF16, true));
    REQUIRE(divide_up(some_tiles, planned_alike(some_rows, some_tiles).pieces) <= kAttendStepMostTiles);
  }
}

}  // namespace
}  // namespace ocellus
