// One image's slots, packed and read again by a decode step: how close that comes to full precision, what calibration
// does, and that damage shows.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/attention/attend_step.h"
#include "kernels/cache/pack_kv.h"
#include "tests/support/device.h"
#include "tests/support/packed_cache.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Activations;
using test::Guarded;
using test::PackedCache;
using test::Random;

/// Rows of one image, as f16 and packed with `bits` bits, and the results of a decode step over each. The new slot's
/// key and value are zeros.
class Image {
 public:
  static constexpr int32_t kHeads = 4, kKvHeads = 2, kDim = 64, kSlots = 48;

  Image(Queue& queue, float size)
      : queue_(queue), query_(queue, 1, kHeads * kDim), half_cache_(random_, kKvHeads, kDim, {{.slots = kSlots}}) {
    for (int64_t i = 0; i < kHeads * kDim; ++i) query_.set(0, i, size * random_.normal());
  }

  std::vector<float> attend_half() { return attend(half_cache_, {}); }
  std::vector<float> attend_packed(int32_t bits, const KvCalibration& calibration) {
    PackedCache packed(random_, kKvHeads, kDim, {{.format = kv_format_of(bits), .slots = kSlots}});
    pack(packed);
    return attend(packed, calibration);
  }
  /// Makes one value of the rows something else.
  void set_key(int32_t head, int32_t slot, int32_t e, float value) {
    run_keys(half_cache_.runs()[0], PackedCache::kLayer, head)[slot * kDim + e] = float_to_half(value);
  }
  void set_value(int32_t head, int32_t slot, int32_t e, float value) {
    run_values(half_cache_.runs()[0], PackedCache::kLayer, head)[slot * kDim + e] = float_to_half(value);
  }

 private:
  void pack(const PackedCache& packed) {
    const KvRun& half = half_cache_.runs()[0];
    test::Vector<int32_t> list;
    for (int32_t i = 0; i < kSlots; ++i) list.push_back(i);
    test::Vector<PackJob> job(1);
    job[0].out = packed.runs()[0];
    KvLayerRows rows;
    rows.keys = run_keys(half, PackedCache::kLayer, 0);
    rows.values = run_values(half, PackedCache::kLayer, 0);
    rows.heads = kKvHeads;
    rows.head_dim = kDim;
    rows.capacity = kSlots;
    rows.row_stride = kDim;
    rows.head_stride = half.head_stride / 2;
    pack_kv({.rows = rows, .indices = list.data(), .jobs = job.data(), .job_count = 1, .layer = packed.layer()},
            queue_);
    REQUIRE_MESSAGE(queue_.finish().ok(), last_failure().sentence);
  }

  std::vector<float> attend(const PackedCache& past, const KvCalibration& calibration) {
    const PackedCache page(random_, kKvHeads, kDim, {{.slots = 0, .room = kTileSlots}});
    test::Vector<KvRun> tiles = test::visible(past.tiles(kPackedTileSlots));
    tiles.push_back(page.runs()[0]);
    const auto count = static_cast<int64_t>(tiles.size());
    test::Vector<StepRow> step(1);
    step[0].active = 1;
    step[0].new_tile = static_cast<int32_t>(count) - 1;
    Activations query = query_, zeros(queue_, 1, 2 * kKvHeads * kDim), out(queue_, 1, kHeads * kDim);
    for (int64_t i = 0; i < 2 * kKvHeads * kDim; ++i) zeros.set(0, i, 0.0f);
    Guarded<float> angles(1, 2);
    angles.at(0, 0) = 1.0f;
    angles.at(0, 1) = 0.0f;
    const int64_t bytes =
        attend_step_scratch_bytes(1, kSlots + 1, count, kHeads, kKvHeads, kDim, past.layer().format, queue_.traits());
    Guarded<std::byte> scratch(1, bytes);
    std::memset(scratch.data(), 0, static_cast<size_t>(bytes));
    attend_step({.query = query.view(),
                 .key = zeros.view().slice_cols(0, kKvHeads * kDim),
                 .value = zeros.view().slice_cols(kKvHeads * kDim, kKvHeads * kDim),
                 .heads = {kHeads, kKvHeads, kDim},
                 .rope = {.rotated = 2},
                 .angles = angles.view(),
                 .tiles = {.steps = step.data(), .runs = tiles.data(), .per_row = count, .most = count},
                 .layer = past.layer(),
                 .calibration = calibration,
                 .output = out.view(),
                 .scratch = scratch.view()},
                queue_);
    REQUIRE_MESSAGE(queue_.finish().ok(), last_failure().sentence);
    std::vector<float> all;
    for (int64_t i = 0; i < kHeads * kDim; ++i) all.push_back(out.get(0, i));
    return all;
  }

  Queue& queue_;
  Random random_{5};
  Activations query_;
  PackedCache half_cache_;
};

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

TEST_CASE("8 bits without calibration come close to full precision, and fewer bits less close") {
  test::for_each_backend([](Queue& queue) {
    Image image(queue, 1.0f);
    const std::vector<float> exact = image.attend_half();
    const float eight = largest_difference(image.attend_packed(8, {}), exact);
    const float four = largest_difference(image.attend_packed(4, {}), exact);
    const float one = largest_difference(image.attend_packed(1, {}), exact);
    CHECK(eight < 0.02f);
    CHECK(four < 0.3f);
    CHECK(four > 2 * eight);
    CHECK(one > 2 * four);
  });
}

TEST_CASE(
    "calibration by nothing leaves the scores as they are, and one that would turn their order makes them equal") {
  test::for_each_backend([](Queue& queue) {
    Image image(queue, 2.0f);
    const float close = queue.on_cuda() ? 2e-3f : 1e-5f;
    for (const int32_t bits : {8, 2}) {
      const std::vector<float> plain = image.attend_packed(bits, {});
      CHECK(largest_difference(image.attend_packed(bits, {true, 0.0f, 0.0f}), plain) < close);
      CHECK(largest_difference(image.attend_packed(bits, {true, 0.0f, 3.0f}), plain) > 0.05f);
      // Slope 0, whatever it would be: all packed scores are the least one less tau_low.
      const std::vector<float> flat = image.attend_packed(bits, {true, 1.0f, 100.0f});
      CHECK(largest_difference(image.attend_packed(bits, {true, 1.0f, 1000.0f}), flat) < close);
      CHECK(largest_difference(plain, flat) > 0.05f);
    }
  });
  for (const float spread : {0.0f, 1e-6f, 1.0f, 30.0f}) {
    for (const float tau_high : {0.0f, 1.0f, 3.0f, 50.0f}) {
      const float slope = KvCalibration{true, 0.5f, tau_high}.slope(spread);
      CHECK(slope >= 0.0f);
      CHECK(std::isfinite(slope));
    }
  }
}

TEST_CASE("a value that was not finite when it was packed shows in the heads and channels that read it") {
  test::for_each_backend([](Queue& queue) {
    Image bad_key(queue, 1.0f), bad_value(queue, 1.0f);
    bad_key.set_key(1, 7, 20, INFINITY);
    bad_value.set_value(0, 40, 3, std::nanf(""));
    const std::vector<float> by_key = bad_key.attend_packed(4, {}), by_value = bad_value.attend_packed(4, {});
    for (int32_t head = 0; head < Image::kHeads; ++head) {
      for (int32_t e = 0; e < Image::kDim; ++e) {
        const auto i = static_cast<size_t>(head * Image::kDim + e);
        CHECK(std::isnan(by_key[i]) == (head >= 2));
        CHECK(std::isnan(by_value[i]) == (head < 2 && e == 3));
      }
    }
  });
}

}  // namespace
}  // namespace ocellus
