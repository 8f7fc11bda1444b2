// attend_rows on CUDA over runs whose heads kept different numbers of slots and whose scores are calibrated, in every
// way that a call is cut into tiles there. attend_packed_test has such runs for all backends, in smaller calls.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/attention/attend_rows.h"
#include "tests/support/device.h"
#include "tests/support/packed_cache.h"
#include "tests/support/packed_reference.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Activations;
using test::CachePart;
using test::Guarded;
using test::PackedCache;
using test::Random;
using test::RealSlot;

struct Shape {
  int64_t rows;
  int32_t heads, kv_heads, dim;
  std::vector<CachePart> parts;
  KvCalibration calibration = {};
  int64_t first_row = 0;
  int64_t check_every = 1;  // interval of checked pairs of row and head
};

class Case {
 public:
  Case(const Shape& shape, uint64_t seed, Queue& queue)
      : shape_(shape),
        random_(seed),
        cache_(random_, shape.kv_heads, shape.dim, shape.parts),
        tiles_(test::visible(cache_.tiles(kTileSlots))),
        query_(queue, shape.rows, int64_t{shape.heads} * shape.dim) {
    const int64_t capacity = shape.first_row + shape.rows;
    keys_.resize(static_cast<size_t>(shape.kv_heads * capacity * shape.dim));
    values_.resize(keys_.size());
    for (Half& half : keys_) half = float_to_half(random_.normal());
    for (Half& half : values_) half = float_to_half(random_.normal());
    rows_ = KvLayerRows::head_major(keys_.data(), values_.data(), shape.kv_heads, shape.dim, capacity);
    for (int64_t t = 0; t < shape.rows; ++t)
      for (int64_t i = 0; i < int64_t{shape.heads} * shape.dim; ++i) query_.set(t, i, random_.normal());
  }

  Activations attend(Queue& queue) {
    Activations out(queue, shape_.rows, int64_t{shape_.heads} * shape_.dim);
    const int64_t bytes = attend_rows_scratch_bytes(shape_.dim, queue.traits());
    Guarded<std::byte> scratch(1, bytes);
    std::memset(scratch.data(), 0xFF, static_cast<size_t>(bytes));
    Guarded<float> pairs(shape_.rows, int64_t{2} * shape_.heads, int64_t{2} * shape_.heads + 3);
    attend_rows({.query = query_.view(),
                 .query_heads = shape_.heads,
                 .rows = rows_,
                 .first_row = shape_.first_row,
                 .past = {.runs = tiles_.data(),
                          .count = static_cast<int32_t>(tiles_.size()),
                          .layer = cache_.layer(),
                          .calibration = shape_.calibration},
                 .calibration_scratch = pairs.view(),
                 .output = out.view(),
                 .scratch = scratch.view()},
                queue);
    REQUIRE(queue.finish().ok());
    CHECK(out.intact());
    CHECK(scratch.intact());
    CHECK(pairs.intact());
    return out;
  }

  /// Greatest difference from plain attention, in units of what rounding may change.
  double error(const Activations& out, const KvCalibration& calibration) const {
    double worst = 0;
    for (int32_t kv_head = 0; kv_head < shape_.kv_heads; ++kv_head) {
      const std::vector<RealSlot> past = cache_.slots(kv_head);
      for (int64_t t = 0; t < shape_.rows; ++t) {
        for (int32_t h = 0; h < shape_.heads / shape_.kv_heads; ++h) {
          const int32_t head = kv_head * (shape_.heads / shape_.kv_heads) + h;
          if ((t + head) % shape_.check_every == 0)
            worst = std::max(worst, error(out, calibration, t, head, kv_head, past));
        }
      }
    }
    return worst;
  }
  PackedCache& cache() { return cache_; }

 private:
  double error(const Activations& out, const KvCalibration& calibration, int64_t t, int32_t head, int32_t kv_head,
               std::vector<RealSlot> slots) const {
    for (int64_t own = 0; own <= shape_.first_row + t; ++own) {
      RealSlot slot;
      for (int64_t e = 0; e < shape_.dim; ++e) {
        slot.key.push_back(test::as_double(rows_.keys[rows_.at(own, kv_head) + e]));
        slot.value.push_back(test::as_double(rows_.values[rows_.at(own, kv_head) + e]));
      }
      slots.push_back(slot);
    }
    std::vector<double> query;
    for (int64_t e = 0; e < shape_.dim; ++e)
      query.push_back(static_cast<double>(query_.get(t, int64_t{head} * shape_.dim + e)));
    const std::vector<double> expected = test::attend_packed(query, slots, {}, calibration);
    double worst = 0;
    for (int64_t e = 0; e < shape_.dim; ++e) {
      const double value = expected[static_cast<size_t>(e)];
      // Every weight and then the result are rounded to f16; the mean of the values' magnitudes is below 2.
      const double allowed = 0x1p-11 * (2.0 + std::abs(value)) + 1e-4;
      const double difference = std::abs(static_cast<double>(out.get(t, int64_t{head} * shape_.dim + e)) - value);
      worst = difference <= allowed * worst ? worst : difference / allowed;  // a NaN stays
    }
    return worst;
  }

  Shape shape_;
  Random random_;
  PackedCache cache_;
  test::Vector<KvRun> tiles_;
  test::Vector<Half> keys_, values_;
  KvLayerRows rows_;
  Activations query_;
};

/// Text, an image that counts as packed, and survivors of another: by head none, one, two, a tile, all.
std::vector<CachePart> mixed_parts(int32_t kv_heads, int32_t image) {
  std::vector<int32_t> counts;
  for (int32_t head = 0; head < kv_heads; ++head) counts.push_back(head % 5 < 3 ? head % 5 : head % 5 == 3 ? 16 : 70);
  return {{.slots = 21, .room = 3},
          {.slots = image, .calibrated = true},
          {.slots = 40, .calibrated = true, .counts = counts},
          {.slots = 30, .room = 9, .calibrated = true, .counts = counts, .counted_before = 40}};
}

std::vector<Shape> shapes_for_tiles() {
  constexpr KvCalibration kPublished{true, 0.0f, 3.0f}, kWider{true, 2.0f, 0.0f}, kNone{};
  std::vector<Shape> shapes;
  for (const int32_t dim : {8, 32, 64, 72, 80, 96, 128, 136, 256, 264, 512}) {
    shapes.push_back({5, 10, 5, dim, mixed_parts(5, 0), kPublished});
    shapes.push_back({3, 6, 3, dim, mixed_parts(3, 45), kPublished, 19});
    shapes.push_back({20, 6, 2, dim, mixed_parts(2, 500), kWider, 0, 5});  // split
    shapes.push_back({40, 20, 5, dim, mixed_parts(5, 20), kNone, 3, 7});   // warpgroups
    shapes.push_back({150, 20, 5, dim, mixed_parts(5, 20), kNone, 0, 29});
  }
  shapes.push_back({1, 9, 3, 64, mixed_parts(3, 1500), {true, 1.0f, 3.0f}});
  shapes.push_back({40, 64, 1, 64, mixed_parts(1, 600), kPublished, 0, 17});
  for (const int32_t dim : {24, 64, 96, 128}) {  // wide tiles
    shapes.push_back({300, 128, 16, dim, mixed_parts(16, 50), kPublished, 10, 401});
    shapes.push_back({300, 128, 16, dim, mixed_parts(16, 50), kNone, 10, 401});
  }
  return shapes;
}

#define OCELLUS_CAPTURE_SHAPE(shape) \
  CAPTURE(shape.rows);               \
  CAPTURE(shape.heads);              \
  CAPTURE(shape.kv_heads);           \
  CAPTURE(shape.dim);                \
  CAPTURE(shape.calibration.tau_low);

TEST_CASE("attend_rows on CUDA counts live slots by head and calibrates, however it cuts its work") {
  Queue* const queue = test::cuda_queue();
  if (queue == nullptr) return;
  uint64_t seed = 0;
  for (const Shape& shape : shapes_for_tiles()) {
    OCELLUS_CAPTURE_SHAPE(shape);
    if (test::skip(++seed, 5)) continue;
    Case instance(shape, seed, *queue);
    const Activations out = instance.attend(*queue), again = instance.attend(*queue);
    CHECK(instance.error(out, shape.calibration) <= 1.0);
    if (shape.calibration.on) CHECK_FALSE(instance.error(out, {}) <= 1.0);  // it does make a difference
    for (int64_t t = 0; t < shape.rows; ++t)
      for (int64_t i = 0; i < int64_t{shape.heads} * shape.dim; ++i) REQUIRE(out.get(t, i) == again.get(t, i));
    const test::Lean lean(*queue);
    CHECK(instance.error(instance.attend(*queue), shape.calibration) <= 1.0);
  }
}

TEST_CASE("scores that are all equal are moved by tau and not torn apart") {
  Queue* const queue = test::cuda_queue();
  if (queue == nullptr) return;
  for (const KvCalibration calibration : {KvCalibration{true, 0.0f, 3.0f}, KvCalibration{true, 2.0f, 0.0f}}) {
    CAPTURE(calibration.tau_low);
    const Shape shape{4, 4, 2, 64, {{.slots = 20}, {.slots = 37, .calibrated = true}}, calibration};
    Case instance(shape, 5, *queue);
    const KvRun& run = instance.cache().runs()[1];
    for (int32_t head = 0; head < 2; ++head) {
      Half* const keys = run_keys(run, PackedCache::kLayer, head);
      for (int64_t i = shape.dim; i < int64_t{run.slots} * shape.dim; ++i) keys[i] = keys[i - shape.dim];
    }
    instance.cache().read_all_slots();
    const Activations out = instance.attend(*queue);
    CHECK(instance.error(out, calibration) <= 1.0);
  }
}

TEST_CASE("attend_rows on CUDA refuses to calibrate without room for it") {
  if (test::cuda_queue() == nullptr) return;
  ThreadPool pool;
  REQUIRE(pool.start(1).ok());
  Queue queue(pool);
  queue.use_cuda(test::cuda_queue()->cuda(), nullptr);
  const Shape shape{2, 2, 1, 64, {{.slots = 20, .calibrated = true}}, {true, 0.0f, 3.0f}};
  Random random(1);
  PackedCache cache(random, 1, 64, shape.parts);
  const test::Vector<KvRun> tiles = test::visible(cache.tiles(kTileSlots));
  Activations query(queue, 2, 128), out(queue, 2, 128);
  Guarded<std::byte> scratch(1, attend_rows_scratch_bytes(64, queue.traits()));
  Guarded<float> pairs(2, 3);
  AttendRowsArgs args;
  args.query = query.view();
  args.query_heads = 2;
  args.rows.heads = 1;
  args.rows.head_dim = 64;
  args.past.runs = tiles.data();
  args.past.count = static_cast<int32_t>(tiles.size());
  args.past.calibration = shape.calibration;
  args.calibration_scratch = pairs.view();
  args.output = out.view();
  args.scratch = scratch.view();
  attend_rows(args, queue);
  CHECK(queue.status().code() == Code::kInternal);
  CHECK(out.untouched_count() == 2 * 128);
}

}  // namespace
}  // namespace ocellus
