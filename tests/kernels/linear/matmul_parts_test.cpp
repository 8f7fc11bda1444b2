// The parts of half-precision weights and of inputs that the tiles of AMX multiply: on every instruction set, with the
// tile's product in plain code.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernels/base/highway_targets.h"
#include "kernels/linear/matmul_tiles.h"
#include "platform/device.h"
#include "tests/kernels/linear/matmul_case.h"
#include "tests/support/pairs.h"

// GCC 12 takes the "undefined" operands inside the intrinsics for our uninitialised variables (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/linear/matmul_parts_test.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/linear/matmul_parts-inl.h"

#ifndef OCELLUS_TESTS_MATMUL_PARTS
#define OCELLUS_TESTS_MATMUL_PARTS
namespace ocellus {
namespace {

struct PartsCall {
  DeviceView<const float> input;
  WeightView weight;
  CpuMath math;
  std::byte *inputs, *thread;
  std::function<void(const TileProduct&)> multiply;
  std::function<void(int64_t t, int64_t panel, const float* sums)> finish;
};

}  // namespace
}  // namespace ocellus
#endif

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {

HWY_ATTR void run_parts(const PartsCall& c) {
  const PartTiles tiles(c.input, c.math, c.inputs);
  for (int64_t i = 0; i < part_blocks(c.input.rows); ++i) tiles.round_input(i);
  const uint8_t* rows[kPartRows];
  for (int64_t r = 0; r < kPartRows; ++r)
    rows[r] = c.weight.data + std::min(r, c.weight.rows - 1) * c.weight.row_bytes();
  tiles.multiply(c.weight.format, rows, c.weight.rows, c.thread, c.multiply, c.finish);
}

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {
namespace {

HWY_EXPORT(run_parts);

float value_of(uint32_t pair, int which) { return std::bit_cast<float>(which == 0 ? pair << 16 : pair & 0xFFFF0000u); }

/// What TDPBF16PS adds to a tile of sums.
void add_tile(const uint32_t* weights, const uint32_t* inputs, float* sums) {
  for (int n = 0; n < 16; ++n)
    for (int pair = 0; pair < 16; ++pair)
      for (int t = 0; t < 16; ++t)
        for (int which = 0; which < 2; ++which)
          sums[16 * n + t] += value_of(weights[16 * n + pair], which) * value_of(inputs[16 * pair + t], which);
}

void multiply_plainly(const TileProduct& p) {
  for (int64_t block = 0; block < p.blocks; ++block)
    for (int64_t panel = 0; panel < p.panels; ++panel) {
      float* sums = p.sums + (block * p.panels + panel) * kTileUnits;
      if (!p.adds) std::fill_n(sums, kTileUnits, 0.0f);
      for (int64_t i = 0; i < p.tiles; ++i)
        for (int64_t w = p.parts.weights - 1; w >= 0; --w)
          for (int64_t x = p.parts.inputs - 1; x >= 0; --x)
            if (w + x < 2)
              add_tile(p.weights + ((panel * p.tiles + i) * p.parts.weights + w) * kTileUnits,
                       p.inputs + ((block * p.tiles + i) * p.parts.inputs + x) * kTileUnits, sums);
    }
}

std::vector<float> multiply(const test::MatmulCase& c, CpuMath math,
                            const std::function<void(const TileProduct&)>& tile_product) {
  const int64_t outputs = c.weights[0].rows;
  std::vector<float> result(static_cast<size_t>(c.rows * outputs), NAN);
  test::Guarded<std::byte> inputs(1, part_bytes(c.rows, c.cols)), thread(1, part_thread_bytes(c.rows, c.cols));
  const TileUse use;
  HWY_DYNAMIC_DISPATCH(run_parts)
  ({{c.input.data(), c.rows, c.cols},
    c.weights[0].view(),
    math,
    inputs.view().data,
    thread.view().data,
    tile_product,
    [&](int64_t t, int64_t panel, const float* sums) {
      std::copy_n(sums, std::min<int64_t>(16, outputs - 16 * panel),
                  &result[static_cast<size_t>(t * outputs + 16 * panel)]);
    }});
  CHECK(inputs.intact());
  CHECK(thread.intact());
  return result;
}

/// The largest error in terms of the sum of the products' magnitudes, where both factors were taken by `take`.
double worst_error(const test::MatmulCase& c, const std::vector<float>& actual, float (*take)(float)) {
  const std::vector<float> weights = c.weights[0].decoded();
  double worst = 0.0;
  for (int64_t t = 0; t < c.rows; ++t)
    for (int64_t n = 0; n < c.weights[0].rows; ++n) {
      double expected = 0.0, magnitude = 1e-30;
      for (int64_t i = 0; i < c.cols; ++i) {
        const double product = double{take(weights[static_cast<size_t>(n * c.cols + i)])} * take(c.x(t, i));
        expected += product;
        magnitude += std::abs(product);
      }
      const double error = std::abs(actual[static_cast<size_t>(t * c.weights[0].rows + n)] - expected) / magnitude;
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
  return worst;
}

float take_all(float value) { return value; }

void check_parts(const std::function<void(const TileProduct&)>& tile_product) {
  uint64_t seed = 1;
  for (const WeightFormat format : {WeightFormat::kF16, WeightFormat::kBF16})
    for (const int64_t cols : {1, 16, 33, 256, 300, 544})
      for (const int64_t rows : {1, 16, 17, 70})
        for (const int64_t outputs : {1, 16, 21, 32}) {
          CAPTURE(std::string(format_info(format).name));
          CAPTURE(cols);
          CAPTURE(rows);
          CAPTURE(outputs);
          if (test::skip(++seed)) continue;
          const test::MatmulCase c(test::make_weights(format, {outputs}, cols, seed), rows, {}, seed + 1000);
          CHECK(worst_error(c, multiply(c, CpuMath::kF16, tile_product), take_all) <= test::kPartsError);
          const std::vector<float> rounded = multiply(c, CpuMath::kBf16, tile_product);
          CHECK(worst_error(c, rounded, test::as_bf16) <= 5e-6);
          if (rows * outputs > 16) CHECK(worst_error(c, rounded, take_all) > 4 * test::kPartsError);
        }
}

}  // namespace

TEST_CASE("products of parts have the precision of F16 on every instruction set, and rounded ones that of bf16") {
  test::for_each_target([] { check_parts(multiply_plainly); });
}

TEST_CASE("tiles of AMX give what their definition says, and more than bf16 alone") {
  if (!has_tile_products()) return;
  check_parts(multiply_parts);
}

TEST_CASE("what is not a number or infinite stays so in products of parts") {
  test::for_each_target([] {
    for (const WeightFormat format : {WeightFormat::kF16, WeightFormat::kBF16})
      for (const CpuMath math : {CpuMath::kF16, CpuMath::kBf16})
        for (const uint32_t bits : {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0x7FFFFFFFu, 0x7F800001u}) {
          test::MatmulCase c(test::make_weights(format, {5}, 40, 3), 9, {}, 4);
          c.input[8 * 40 + 3] = std::bit_cast<float>(bits);
          const std::vector<float> actual = multiply(c, math, multiply_plainly);
          CAPTURE(bits);
          for (size_t i = 0; i < 45; ++i) CHECK(std::isfinite(actual[i]) == (i < 40));
        }
  });
}

}  // namespace ocellus
#endif
