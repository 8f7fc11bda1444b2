#include "kernels/attention/attend_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/attend_rows_plan.h"
#include "tests/support/device.h"
#include "tests/support/kv_cache.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"

namespace ocellus {
namespace {

using test::Activations;
using test::Guarded;
using test::Random;
using test::Slot;
using test::TestRun;

/// What the rows see of each other where that is listed.
enum class Listed {
  kNot,
  kWindow,    // so many rows back
  kPictures,  // rows of a picture see all of it, others what came before
  kBlocks,    // only the rows of their block
  kAnything
};

struct Shape {
  int64_t rows;  // of a sequence
  int32_t heads, kv_heads, dim;
  bool causal;
  std::vector<std::pair<int32_t, int32_t>> runs;  // live slots, capacity
  int64_t first_row = 0;                          // of the chunk
  int64_t later_rows = 0;                         // chunk rows behind the last query row
  int64_t sequences = 1;
  bool side_by_side = false;  // own rows lie as the vision tower has them: query, key and value of a row together
  int64_t check_every = 1;    // of the pairs of row and head
  Listed listed = Listed::kNot;
  int64_t row_count() const { return first_row + rows + later_rows; }
};

/// An expected value, and the weighted mean of the magnitudes it is made of.
struct Expected {
  double value = 0, size = 0;
};

/// As test::attend, which knows no sizes.
std::vector<Expected> attend_with_sizes(const float* query, const std::vector<Slot>& slots, int64_t dim) {
  const std::vector<double> values = test::attend(query, slots, dim);
  std::vector<Half> sizes(slots.size() * static_cast<size_t>(dim));
  std::vector<Slot> sized = slots;
  for (size_t i = 0; i < slots.size(); ++i) {
    Half* const size = sizes.data() + i * static_cast<size_t>(dim);
    for (int64_t e = 0; e < dim; ++e) size[e].bits = slots[i].value[e].bits & 0x7FFF;
    sized[i].value = size;
  }
  const std::vector<double> means = test::attend(query, sized, dim);
  std::vector<Expected> out;
  for (size_t e = 0; e < values.size(); ++e) out.push_back({values[e], means[e]});
  return out;
}

/// Inputs of one call. Chunk rows behind the last, gaps between query rows and dead slots are NaN.
class Case {
 public:
  Case(const Shape& shape, uint64_t seed, Queue& queue)
      : shape_(shape),
        queue_(queue),
        random_(seed),
        query_(queue, shape.sequences * shape.rows, width(), width() + (queue.on_cuda() ? 8 : 5)) {
    make_spans();
    make_runs();
    make_rows();
    for (int64_t t = 0; t < shape_.sequences * shape_.rows; ++t)
      for (int64_t i = 0; i < width(); ++i) query_.set(t, i, random_.normal());
  }

  /// Runs the op and checks everything but the numbers.
  Activations attend(Queue& queue) {
    Activations out(queue, shape_.sequences * shape_.rows, width(), width() + 16);
    const int64_t bytes = attend_rows_scratch_bytes(shape_.dim, queue.traits());
    Guarded<std::byte> scratch(1, bytes);
    std::memset(scratch.data(), 0xFF, static_cast<size_t>(bytes));  // NaN: what was there before must not matter
    attend_rows({.query = query_.view(),
                 .query_heads = shape_.heads,
                 .rows = rows_,
                 .first_row = shape_.first_row,
                 .row_count = shape_.row_count(),
                 .bounds = bounds(),
                 .past = {.runs = runs_.data(),
                          .count = static_cast<int32_t>(runs_.size()),
                          .layer = {.index = TestRun::kLayer}},
                 .sequences = shape_.sequences,
                 .output = out.view(),
                 .scratch = scratch.view()},
                queue);
    REQUIRE(queue.finish().ok());
    CHECK(out.intact());
    CHECK(scratch.intact());
    return out;
  }

  /// Lists what its rows see without a list.
  void list_bounds() {
    for (int64_t row = 0; row < shape_.rows; ++row) spans_.push_back(span_of(row));
    shape_.listed = Listed::kAnything;
  }

  void check_numbers(const Activations& out) {
    for (int64_t t = 0; t < shape_.sequences * shape_.rows; ++t) {
      for (int32_t head = 0; head < shape_.heads; ++head) {
        if ((t + head) % shape_.check_every == 0) check_numbers(out, t, head);
      }
    }
  }

 private:
  int64_t width() const { return int64_t{shape_.heads} * shape_.dim; }

  RowBounds bounds() const {
    if (shape_.listed != Listed::kNot) return RowBounds::listed(spans_.data());
    return shape_.causal ? RowBounds::causal() : RowBounds::all();
  }

  void make_spans() {
    if (shape_.listed == Listed::kNot) return;
    const auto row_count = static_cast<int32_t>(shape_.row_count());
    const auto window = static_cast<int32_t>(random_.integer(1, 100));
    int32_t begin = 0, end = 0;  // of the picture or the block
    for (int32_t row = 0; row < row_count; ++row) {
      if (row == end) {
        begin = row;
        end = static_cast<int32_t>(std::min<int64_t>(row_count, row + random_.integer(1, 150)));
        if (shape_.listed == Listed::kPictures && random_.integer(0, 1) == 0) end = row + 1;  // text
      }
      RowSpan span = {begin, end};
      if (shape_.listed == Listed::kWindow) span = {std::max(0, row + 1 - window), row + 1};
      if (shape_.listed == Listed::kPictures) span.begin = 0;
      if (shape_.listed == Listed::kAnything) {
        const RowSpan before = spans_.empty() ? RowSpan{0, 1} : spans_.back();
        span.begin = static_cast<int32_t>(random_.integer(before.begin, std::min(row, before.begin + 5)));
        span.end = static_cast<int32_t>(random_.integer(std::max(row + 1, before.end), row_count));
        if (random_.integer(0, 9) > 0) span.end = std::max(row + 1, before.end);
      }
      if (row >= shape_.first_row && row < shape_.first_row + shape_.rows) spans_.push_back(span);
    }
  }

  void make_runs() {
    for (const auto& [slots, capacity] : shape_.runs) {
      stores_.emplace_back(random_, shape_.kv_heads, shape_.dim, slots, capacity);
      KvRun run = stores_.back().run();
      if (shape_.listed != Listed::kNot)
        run.visible_from = static_cast<uint16_t>(random_.integer(0, 1) * random_.integer(0, shape_.row_count()));
      if (!queue_.on_cuda() || slots == 0) {
        runs_.push_back(run);
        continue;
      }
      // Tiles: full ones with a rest at the end, or of any sizes.
      for (int32_t first = 0; first < slots;) {
        const auto most = static_cast<int32_t>(stores_.size() % 2 == 0 ? random_.integer(1, kTileSlots) : kTileSlots);
        const int32_t count = std::min(slots - first, most);
        runs_.push_back(slice_run(run, first, count, shape_.dim));
        first += count;
      }
    }
  }

  void make_rows() {
    const int64_t dim = shape_.dim, row_width = shape_.kv_heads * dim;
    const int64_t capacity = shape_.row_count() + (shape_.side_by_side ? 0 : 3);
    const int64_t spread = shape_.side_by_side ? 3 : 2;
    store_.assign(static_cast<size_t>(spread * shape_.sequences * capacity * row_width), test::kHalfNan);
    if (shape_.side_by_side) {
      rows_ = {store_.data() + row_width,
               store_.data() + 2 * row_width,
               shape_.kv_heads,
               shape_.dim,
               capacity,
               3 * row_width,
               dim,
               capacity * 3 * row_width};
    } else {
      Half* const values = store_.data() + shape_.sequences * capacity * row_width;
      rows_ = KvLayerRows::head_major(store_.data(), values, shape_.kv_heads, shape_.dim, capacity);
      rows_.sequence_stride = capacity * row_width;
    }
    for (int64_t sequence = 0; sequence < shape_.sequences; ++sequence) {
      for (int64_t head = 0; head < shape_.kv_heads; ++head) {
        for (int64_t row = 0; row < shape_.row_count(); ++row) {
          const int64_t at = sequence * rows_.sequence_stride + rows_.at(row, head);
          for (int64_t e = 0; e < dim; ++e) rows_.keys[at + e] = float_to_half(random_.normal());
          for (int64_t e = 0; e < dim; ++e) rows_.values[at + e] = float_to_half(random_.normal());
        }
      }
    }
  }

  void check_numbers(const Activations& out, int64_t t, int32_t head) {
    const int32_t kv_head = head / (shape_.heads / shape_.kv_heads);
    const int64_t sequence = t / shape_.rows, row = t % shape_.rows;
    std::vector<KvRun> runs(runs_.begin(), runs_.end());
    runs.erase(std::remove_if(runs.begin(), runs.end(),
                              [&](const KvRun& run) { return run.visible_from > shape_.first_row + row; }),
               runs.end());
    std::vector<Slot> visible =
        test::live_slots(runs.data(), static_cast<int64_t>(runs.size()), TestRun::kLayer, kv_head, shape_.dim);
    const RowSpan span = span_of(row);
    for (int64_t own = span.begin; own < span.end; ++own) {
      const int64_t at = sequence * rows_.sequence_stride + rows_.at(own, kv_head);
      visible.push_back({rows_.keys + at, rows_.values + at});
    }
    std::vector<float> query;
    for (int64_t e = 0; e < shape_.dim; ++e) query.push_back(query_.get(t, head * shape_.dim + e));
    const std::vector<Expected> expected = attend_with_sizes(query.data(), visible, shape_.dim);
    for (int64_t e = 0; e < shape_.dim; ++e) {
      const auto& [value, size] = expected[static_cast<size_t>(e)];
      // On CUDA every weight and then the result are rounded to f16, and weights below 2^-24 are lost.
      const double tolerance = out.is_half() ? 0x1p-11 * (size + std::abs(value)) + 1e-4 : 3e-6;
      CAPTURE(t);
      CAPTURE(head);
      CAPTURE(e);
      REQUIRE(std::abs(out.get(t, head * shape_.dim + e) - value) < tolerance);
    }
  }

  RowSpan span_of(int64_t row) const {
    if (shape_.listed != Listed::kNot) return spans_[static_cast<size_t>(row)];
    return {0, static_cast<int32_t>(shape_.causal ? shape_.first_row + row + 1 : shape_.row_count())};
  }

  Shape shape_;
  Queue& queue_;
  Random random_;
  test::Vector<RowSpan> spans_;
  std::vector<TestRun> stores_;
  test::Vector<KvRun> runs_;
  test::Vector<Half> store_;
  KvLayerRows rows_;
  Activations query_;
};

bool same_bits(const Activations& a, const Activations& b, const Shape& shape) {
  for (int64_t t = 0; t < shape.sequences * shape.rows; ++t) {
    for (int64_t i = 0; i < int64_t{shape.heads} * shape.dim; ++i) {
      const float x = a.get(t, i), y = b.get(t, i);
      if (std::memcmp(&x, &y, sizeof x) != 0) return false;
    }
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

#define OCELLUS_CAPTURE_SHAPE(shape)       \
  CAPTURE(shape.rows);                     \
  CAPTURE(shape.heads);                    \
  CAPTURE(shape.kv_heads);                 \
  CAPTURE(shape.dim);                      \
  CAPTURE(shape.causal);                   \
  CAPTURE(static_cast<int>(shape.listed)); \
  CAPTURE(shape.first_row);                \
  CAPTURE(shape.sequences)

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
    });
  }
}

/// Shapes that CUDA treats differently: every padded head size, slots split between blocks, wide tiles.
std::vector<Shape> shapes_for_tiles() {
  std::vector<Shape> shapes;
  for (const int32_t dim : {8, 32, 40, 64, 72, 80, 96, 128, 136, 256}) {
    shapes.push_back({70, 4, 2, dim, true, {{37, 40}, {21, 30}}, 19});
    shapes.push_back({20, 6, 2, dim, true, {{500, 500}, {81, 100}, {3, 3}}});  // split
  }
  shapes.push_back({1, 9, 3, 64, true, {{1000, 1000}}});
  shapes.push_back({3, 5, 5, 64, false, {{999, 1000}, {77, 80}}, 0, 7});
  shapes.push_back({40, 64, 1, 64, true, {{700, 700}}});
  shapes.push_back({2, 1, 1, 64, true, {}, 600});  // own rows split
  for (const int32_t dim : {48, 64, 72, 128}) {    // several tiles of one head, whose rows see different slots
    shapes.push_back({205, 2, 2, dim, true, {}});
    shapes.push_back({200, 1, 1, dim, true, {{90, 90}, {33, 40}}, 31});
    shapes.push_back({67, 3, 1, dim, false, {{10, 10}}, 0, 70});
  }
  for (const int32_t dim : {24, 64, 72, 96, 128}) {
    Shape images{130, 6, 6, dim, false, {}, 0, 0, 24, true};
    images.check_every = 37;
    shapes.push_back(images);
    Shape text{300, 128, 16, dim, true, {{100, 100}, {45, 64}}, 10};
    text.check_every = 211;
    shapes.push_back(text);
  }
  return shapes;
}

TEST_CASE("attend_rows equals plain attention on every backend, with the same bits every time") {
  test::for_each_backend([&](Queue& queue) {
    uint64_t seed = 100;
    std::vector<Shape> shapes = interesting_shapes();
    for (const Shape& shape : shapes_for_tiles()) shapes.push_back(shape);
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

/// Short and long chunks, heads of every padded size, with and without a past, in one piece and split.
std::vector<Shape> listed_shapes() {
  std::vector<Shape> shapes;
  const auto add = [&](Shape shape, int64_t check_every) {
    shape.check_every = check_every;
    for (const Listed listed : {Listed::kWindow, Listed::kPictures, Listed::kBlocks, Listed::kAnything}) {
      shape.listed = listed;
      shapes.push_back(shape);
    }
  };
  add({1, 1, 1, 8, true, {}}, 1);
  add({3, 8, 2, 64, true, {{5, 9}, {0, 3}}, 17, 4}, 1);
  for (const int32_t dim : {32, 64, 72, 96, 128, 136}) add({70, 4, 2, dim, true, {{37, 40}, {21, 30}}, 19, 33}, 3);
  add({205, 3, 3, 64, true, {}, 100, 7}, 5);
  add({40, 2, 2, 72, true, {}, 700, 20}, 1);
  add({500, 2, 1, 40, true, {{100, 100}}}, 11);
  add({330, 16, 16, 80, true, {}, 0, 70}, 61);
  return shapes;
}

TEST_CASE("rows see no more and no less than their listed bounds, with the same bits on any number of threads") {
  test::TestQueue one(1), two(2), three(3);
  uint64_t seed = 1000;
  for (const Shape& shape : listed_shapes()) {
    OCELLUS_CAPTURE_SHAPE(shape);
    if (test::skip(++seed, 3)) continue;
    Case instance(shape, seed, *one);
    test::for_each_target([&] {
      const Activations out = instance.attend(*one);
      instance.check_numbers(out);
      CHECK(same_bits(out, instance.attend(*two), shape));
      CHECK(same_bits(out, instance.attend(*three), shape));
    });
  }
}

TEST_CASE("rows see no more and no less than their listed bounds on every backend") {
  test::for_each_backend([&](Queue& queue) {
    uint64_t seed = 2000;
    for (const Shape& shape : listed_shapes()) {
      OCELLUS_CAPTURE_SHAPE(shape);
      Case instance(shape, ++seed, queue);
      const Activations out = instance.attend(queue);
      instance.check_numbers(out);
      CHECK(same_bits(out, instance.attend(queue), shape));
      if (!queue.on_cuda()) continue;
      const test::Lean lean(queue);
      instance.check_numbers(instance.attend(queue));
    }
  });
}

TEST_CASE("listed bounds that say what causal or all rows see give the same bits on the CPU") {
  test::TestQueue queue(2);
  for (const bool causal : {true, false}) {
    const Shape shape{150, 4, 2, 64, causal, {{90, 100}}, 60, 11};
    Case instance(shape, 5, *queue);
    const Activations out = instance.attend(*queue);
    instance.list_bounds();
    CHECK(same_bits(out, instance.attend(*queue), shape));
  }
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
