// Attention over caches with packed, moved, calibrated and unevenly kept slots: attend_step, and attend_rows (on CUDA
// over what expand_kv makes of them).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/attention/attend_rows.h"
#include "kernels/attention/attend_step.h"
#include "kernels/cache/expand_kv.h"
#include "tests/support/device.h"
#include "tests/support/kv_cache.h"
#include "tests/support/packed_cache.h"
#include "tests/support/packed_shapes.h"
#include "tests/support/pairs.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Activations;
using test::CachePart;
using test::Guarded;
using test::PackedCache;
using test::PackedShape;
using test::Random;
using test::RealSlot;

/// Where products are of bf16, which calibration stretches.
constexpr double kPairTolerance = 2.5e-2;

/// Compares rows [heads, E] of which every `step`-th is looked at with expected(row, head).
template <class Expected>
void check_heads(const std::vector<float>& out, const PackedShape& shape, int64_t step, double tolerance,
                 Expected expected) {
  const int64_t width = int64_t{shape.heads} * shape.dim, rows = static_cast<int64_t>(out.size()) / width;
  for (int64_t row = 0; row < rows; row += step) {
    for (int32_t head = 0; head < shape.heads; ++head) {
      const std::vector<double> values = expected(row, head);
      for (int32_t e = 0; e < shape.dim; ++e) {
        const double x = values[static_cast<size_t>(e)];
        const double got = static_cast<double>(out[static_cast<size_t>(row * width + head * shape.dim + e)]);
        CAPTURE(row);
        CAPTURE(head);
        CAPTURE(e);
        REQUIRE(std::abs(got - x) <= tolerance * (1.0 + std::abs(x)));
      }
    }
  }
}

/// Reads every row of a case's output.
std::vector<float> read_rows(const Activations& out, int64_t rows, int64_t width) {
  std::vector<float> all;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < width; ++i) all.push_back(out.get(row, i));
  return all;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Calls body(shape, seed, queue) for all that the backends attend over.
template <class Body>
void for_each_shape(Body body) {
  test::for_each_backend_and_target([&](Queue& queue) {
    uint64_t seed = 0;
    for (const PackedShape& shape : test::packed_shapes(queue.on_cuda())) {
      if (test::skip(++seed, 5)) continue;
      CAPTURE(seed);
      const std::string name = shape.name();
      CAPTURE(name);
      body(shape, seed, queue);
    }
  });
}

/// attend(shape, seed, queue) on one, two and seven threads.
template <class Attend>
void check_thread_counts(Attend attend) {
  test::TestQueue one(1), two(2), seven(7);
  uint64_t seed = 0;
  for (const PackedShape& shape : test::packed_shapes(false)) {
    if (++seed % 3 != 0) continue;
    const std::vector<float> first = attend(shape, seed, *one);
    CHECK(same_bits(attend(shape, seed, *two), first));
    CHECK(same_bits(attend(shape, seed, *seven), first));
  }
}

/// One decode step: every session has its parts, then a page with a few tokens and room for the new one.
class StepCase {
 public:
  StepCase(const PackedShape& shape, uint64_t seed, Queue& queue)
      : shape_(shape),
        random_(seed),
        query_(queue, rows(), width(), width() + 5),
        key_(queue, rows(), kv_width(), kv_width() + 3),
        value_(queue, rows(), kv_width(), kv_width() + 8),
        out_(queue, rows(), width(), width() + 16),
        angles_(rows(), shape.rope.rotated),
        steps_(shape.sessions.size()) {
    for (int64_t b = 0; b < rows(); ++b) add_session(b, queue.on_cuda());
    tiles_per_row_ = most_tiles_ + 2;
    for (std::vector<KvRun>& row : lists_) {
      row.resize(static_cast<size_t>(tiles_per_row_));
      tiles_.insert(tiles_.end(), row.begin(), row.end());
    }
    for (int64_t b = 0; b < rows(); ++b) {
      for (int64_t i = 0; i < width(); ++i) query_.set(b, i, shape.query_size * random_.normal());
      for (int64_t i = 0; i < kv_width(); ++i) key_.set(b, i, random_.normal());
      for (int64_t i = 0; i < kv_width(); ++i) value_.set(b, i, random_.normal());
      for (int64_t i = 0; i < shape.rope.rotated; ++i) angles_.at(b, i) = i % 2 == 0 ? 1.0f : 0.0f;  // not at all
    }
  }

  std::vector<float> attend(Queue& queue) {
    const int64_t bytes = attend_step_scratch_bytes(rows(), most_slots_, tiles_per_row_, shape_.heads, shape_.kv_heads,
                                                    shape_.dim, shape_.format, queue.traits());
    Guarded<std::byte> scratch(1, bytes);
    std::memset(scratch.data(), 0, static_cast<size_t>(bytes));
    attend_step(
        {.query = query_.view(),
         .key = key_.view(),
         .value = value_.view(),
         .heads = {shape_.heads, shape_.kv_heads, shape_.dim},
         .rope = shape_.rope,
         .angles = angles_.view(),
         .tiles = {.steps = steps_.data(), .runs = tiles_.data(), .per_row = tiles_per_row_, .most = most_tiles_},
         .layer = shape_.layer(),
         .calibration = shape_.calibration,
         .output = out_.view(),
         .scratch = scratch.view()},
        queue);
    REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
    CHECK(scratch.intact());
    CHECK(out_.intact());
    return read_rows(out_, rows(), width());
  }

  void check(const std::vector<float>& out) const {
    check_heads(out, shape_, 1, out_.is_half() ? 1e-2 : 1e-5,
                [&](int64_t b, int32_t head) { return expected_head(b, head); });
  }

  int64_t rows() const { return static_cast<int64_t>(shape_.sessions.size()); }

 private:
  int64_t width() const { return int64_t{shape_.heads} * shape_.dim; }
  int64_t kv_width() const { return int64_t{shape_.kv_heads} * shape_.dim; }

  void add_session(int64_t b, bool on_cuda) {
    const bool in_tiles = on_cuda || shape_.in_tiles;
    std::vector<CachePart> parts = shape_.sessions[static_cast<size_t>(b)];
    // Calibrated f16 slots are made for prefill; CUDA decodes over the packed ones.
    for (CachePart& part : parts) part.calibrated = part.calibrated && !on_cuda;
    const auto new_slot = static_cast<int32_t>(random_.integer(0, kTileSlots - 1));
    parts.push_back({.slots = new_slot, .room = kTileSlots - new_slot});
    caches_.emplace_back(random_, shape_.kv_heads, shape_.dim, parts, shape_.scales);
    const PackedCache& cache = caches_.back();
    std::vector<KvRun> list = in_tiles ? cache.tiles(shape_.in_tiles ? 9 : kPackedTileSlots) : cache.runs();
    if (in_tiles && new_slot > 0) {  // the new page is one tile, however many it is cut into
      while (list.back().data != cache.runs().back().data) list.pop_back();
      list.pop_back();
    }
    if (in_tiles) list.push_back(cache.runs().back());
    StepRow& step = steps_[static_cast<size_t>(b)];
    step.active = 1;
    step.new_slot = new_slot;
    step.new_tile = static_cast<int32_t>(list.size()) - 1;
    most_tiles_ = std::max(most_tiles_, static_cast<int64_t>(list.size()));
    for (int32_t head = 0; head < shape_.kv_heads; ++head)
      most_slots_ = std::max(most_slots_, static_cast<int64_t>(cache.slots(head).size()) + 1);
    lists_.push_back(list);
  }

  std::vector<double> expected_head(int64_t b, int32_t head) const {
    const int32_t kv_head = head / (shape_.heads / shape_.kv_heads);
    std::vector<RealSlot> slots = caches_[static_cast<size_t>(b)].slots(kv_head);
    RealSlot own;
    std::vector<double> query;
    for (int32_t e = 0; e < shape_.dim; ++e) {
      own.key.push_back(test::as_double(float_to_half(key_.get(b, kv_head * shape_.dim + e))));
      own.value.push_back(test::as_double(float_to_half(value_.get(b, kv_head * shape_.dim + e))));
      query.push_back(static_cast<double>(query_.get(b, head * shape_.dim + e)));
    }
    slots.push_back(own);
    return test::attend_packed(query, slots, shape_.rope, shape_.calibration);
  }

  PackedShape shape_;
  Random random_;
  std::vector<PackedCache> caches_;
  std::vector<std::vector<KvRun>> lists_;
  test::Vector<KvRun> tiles_;
  int64_t tiles_per_row_ = 0, most_tiles_ = 0, most_slots_ = 0;
  Activations query_, key_, value_, out_;
  Guarded<float> angles_;
  test::Vector<StepRow> steps_;
};

TEST_CASE("a decode step over packed, moved and unevenly kept slots equals plain attention, with the same bits again") {
  for_each_shape([](const PackedShape& shape, uint64_t seed, Queue& queue) {
    StepCase instance(shape, seed, queue);
    const std::vector<float> out = instance.attend(queue);
    instance.check(out);
    CHECK(same_bits(instance.attend(queue), out));
  });
}

TEST_CASE("a decode step over packed slots has the same bits on any number of threads") {
  check_thread_counts(
      [](const PackedShape& shape, uint64_t seed, Queue& queue) { return StepCase(shape, seed, queue).attend(queue); });
}

/// Some query rows of a chunk after the first session's cache.
class RowsCase {
 public:
  RowsCase(const PackedShape& shape, uint64_t seed, Queue& queue)
      : shape_(shape),
        random_(seed),
        cache_(random_, shape.kv_heads, shape.dim, shape.sessions[0], shape.scales),
        count_(kCounts[seed % 6]),
        first_row_(seed % 3 == 0 ? 20 : 0),
        own_keys_(static_cast<size_t>(shape.kv_heads * capacity() * shape.dim), test::kHalfNan),
        own_values_(own_keys_),
        query_(queue, count_, width(), width() + 8),
        out_(queue, count_, width(), width() + 16),
        ends_(count_, 2 * shape.heads) {
    own_ = KvLayerRows::head_major(own_keys_.data(), own_values_.data(), shape.kv_heads, shape.dim, capacity());
    for (int32_t head = 0; head < shape.kv_heads; ++head) {
      for (int64_t i = 0; i < (first_row_ + count_) * shape.dim; ++i) {
        own_.keys[own_.at(0, head) + i] = float_to_half(random_.normal());
        own_.values[own_.at(0, head) + i] = float_to_half(random_.normal());
      }
    }
    for (int64_t t = 0; t < count_; ++t)
      for (int64_t i = 0; i < width(); ++i) query_.set(t, i, random_.normal());
  }

  /// Runs as they are, which CUDA cannot read, or f16 copies of those that are packed or moved.
  std::vector<float> attend(bool over_copies, Queue& queue) {
    const std::vector<KvRun> list = over_copies ? copies(queue) : shape_.in_tiles ? cache_.tiles(9) : cache_.runs();
    const test::Vector<KvRun> runs = test::visible(list);
    const int64_t bytes = attend_rows_scratch_bytes(shape_.dim, queue.traits());
    Guarded<std::byte> scratch(1, bytes);
    std::memset(scratch.data(), 0xFF, static_cast<size_t>(bytes));
    attend_rows({.query = query_.view(),
                 .query_heads = shape_.heads,
                 .rows = own_,
                 .first_row = first_row_,
                 .past = {.runs = runs.data(),
                          .count = static_cast<int32_t>(runs.size()),
                          .layer = shape_.layer(),
                          .rope = shape_.rope,
                          .calibration = shape_.calibration},
                 .calibration_scratch = ends_.view(),
                 .output = out_.view(),
                 .scratch = scratch.view()},
                queue);
    REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
    CHECK(scratch.intact());
    CHECK(ends_.intact());
    CHECK(out_.intact());
    return read_rows(out_, count_, width());
  }

  void check(const std::vector<float>& out, double tolerance) const {
    check_heads(out, shape_, 1 + count_ / 9, tolerance,
                [&](int64_t t, int32_t head) { return expected_head(t, head); });
  }

 private:
  static constexpr int64_t kCounts[] = {1, 2, 5, 17, 40, 70};

  int64_t width() const { return int64_t{shape_.heads} * shape_.dim; }
  int64_t capacity() const { return first_row_ + count_ + 3; }

  std::vector<KvRun> copies(Queue& queue) {
    std::vector<KvRun> runs;
    test::Vector<KvRun> expanded;
    for (const KvRun& tile : cache_.tiles(kPackedTileSlots))
      (tile.packed || tile.position_shift != 0 ? expanded.push_back(tile) : runs.push_back(tile));
    const auto rows = static_cast<int64_t>(expanded.size()) * kPackedTileSlots + 1;
    copy_keys_.assign(static_cast<size_t>(shape_.kv_heads * rows * shape_.dim), test::kHalfNan);
    copy_keys_.resize(2 * copy_keys_.size(), test::kHalfNan);
    Half* const values = copy_keys_.data() + copy_keys_.size() / 2;
    const KvLayerRows out = KvLayerRows::head_major(copy_keys_.data(), values, shape_.kv_heads, shape_.dim, rows);
    expand_kv({.runs = expanded.data(),
               .run_count = static_cast<int32_t>(expanded.size()),
               .layer = shape_.layer(),
               .rope = shape_.rope,
               .out = out},
              queue);
    REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
    for (size_t i = 0; i < expanded.size(); ++i) {
      KvRun copy = expanded[i];
      copy.data = reinterpret_cast<std::byte*>(out.keys + out.at(static_cast<int64_t>(i) * kPackedTileSlots, 0));
      copy.layer_stride = 0;
      copy.head_stride = 2 * out.head_stride;
      copy.value_offset = 2 * (out.values - out.keys);
      copy.position_shift = 0;
      copy.calibrated = is_calibrated(copy);
      copy.packed = false;
      for (int32_t first = 0; first < copy.slots; first += kTileSlots)
        runs.push_back(slice_run(copy, first, std::min(kTileSlots, copy.slots - first), shape_.dim));
    }
    return runs;
  }

  std::vector<double> expected_head(int64_t t, int32_t head) const {
    const int32_t kv_head = head / (shape_.heads / shape_.kv_heads);
    std::vector<RealSlot> slots = cache_.slots(kv_head);
    std::erase_if(slots, [&](const RealSlot& slot) { return slot.visible_from > first_row_ + t; });
    for (int64_t row = 0; row <= first_row_ + t; ++row) {
      RealSlot own;
      for (int32_t e = 0; e < shape_.dim; ++e) {
        own.key.push_back(test::as_double(own_.keys[own_.at(row, kv_head) + e]));
        own.value.push_back(test::as_double(own_.values[own_.at(row, kv_head) + e]));
      }
      slots.push_back(own);
    }
    std::vector<double> query;
    for (int32_t e = 0; e < shape_.dim; ++e) query.push_back(static_cast<double>(query_.get(t, head * shape_.dim + e)));
    return test::attend_packed(query, slots, shape_.rope, shape_.calibration);
  }

  PackedShape shape_;
  Random random_;
  PackedCache cache_;
  int64_t count_, first_row_;
  test::Vector<Half> own_keys_, own_values_, copy_keys_;
  KvLayerRows own_;
  Activations query_, out_;
  Guarded<float> ends_;
};

TEST_CASE("prefill over packed, moved and unevenly kept slots equals plain attention, with the same bits again" *
          doctest::test_suite("long")) {
  for_each_shape([](const PackedShape& shape, uint64_t seed, Queue& queue) {
    RowsCase instance(shape, seed, queue);
    if (!queue.on_cuda()) instance.check(instance.attend(false, queue), 1e-5);
    const std::vector<float> out = instance.attend(true, queue);
    instance.check(out, 1e-2);
    CHECK(same_bits(instance.attend(true, queue), out));
    const test::WithCpuMath as_bf16(queue, CpuMath::kBf16);
    if (test::attends_pairs(queue)) instance.check(instance.attend(true, queue), kPairTolerance);
  });
}

TEST_CASE("prefill over packed slots has the same bits on any number of threads") {
  check_thread_counts([](const PackedShape& shape, uint64_t seed, Queue& queue) {
    return RowsCase(shape, seed, queue).attend(false, queue);
  });
}

}  // namespace
}  // namespace ocellus
