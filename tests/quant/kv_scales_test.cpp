#include "quant/kv_scales.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Random;

/// Ends of rows of scales: wide and narrow ones, none at all, the largest and the smallest f16 numbers.
std::vector<std::pair<float, float>> many_ends(Random& random) {
  std::vector<std::pair<float, float>> all = {
      {0.0f, 0.0f},        {1.0f, 1.0f}, {-65504.0f, 65504.0f}, {0.0f, 65504.0f},     {0.0f, 1e-7f},  {-1e-7f, 0.0f},
      {1e-6f, 1.0000001f}, {0.1f, 0.1f}, {65000.0f, 65504.0f},  {-3.0f, -2.9999998f}, {6e-8f, 1e-6f}, {-1e-9f, 1e-9f}};
  for (int i = 0; i < 500; ++i) {
    const float centre = random.normal(std::ldexp(1.0f, static_cast<int>(random.integer(-14, 8))));
    const float width = std::abs(random.normal(std::ldexp(1.0f, static_cast<int>(random.integer(-14, 8)))));
    all.emplace_back(centre, centre + width);
  }
  return all;
}

TEST_CASE("bits of f16 numbers below and above are the nearest there are") {
  Random random(3);
  for (int i = 0; i < 20000; ++i) {
    const float x = random.normal(std::ldexp(1.0f, static_cast<int>(random.integer(-26, 14))));
    const float below = float_of_half_bits(half_bits_below(x)), above = float_of_half_bits(half_bits_above(x));
    CAPTURE(x);
    REQUIRE(below <= x);
    REQUIRE(above >= x);
    // Either x is such a number, or the two are neighbours.
    if (below == above) continue;
    const auto nearest = half_to_float(float_to_half((below + above) / 2));
    REQUIRE((nearest == below || nearest == above));
  }
}

TEST_CASE("offsets are never above and steps never below what they stand for, and both are near it") {
  Random random(5);
  for (const auto& [least, greatest] : many_ends(random)) {
    CAPTURE(least);
    CAPTURE(greatest);
    const KvScaleCoding coding = KvScaleCoding::of(least, greatest);
    const double place = static_cast<double>(float_of_half_bits(coding.place));
    CHECK(coding.value(0) <= least);
    for (int i = 0; i < 40; ++i) {
      const float x = i == 0 ? least : i == 1 ? greatest : std::clamp(random.uniform(least, greatest), least, greatest);
      CAPTURE(x);
      const int32_t low = coding.code_below(x), high = coding.code_above(x);
      REQUIRE(low >= 0);
      REQUIRE(high <= KvScaleCoding::kMax);
      // A place, and what rounding to f16 moves.
      const double slack = 2 * place + 3e-3 * std::abs(static_cast<double>(x)) + 2e-7;
      REQUIRE(coding.value(low) <= x);
      REQUIRE(static_cast<double>(coding.value(low)) >= static_cast<double>(x) - slack);
      REQUIRE(std::isfinite(coding.value(high)));
      REQUIRE((coding.value(high) >= x || coding.value(high + 1) > kLargestScale));
      REQUIRE(static_cast<double>(coding.value(high)) <= static_cast<double>(x) + slack);
    }
  }
}

TEST_CASE("the step reaches the greatest value from any offset, and is no zero") {
  for (const int32_t bits : {8, 4, 2, 1}) {
    const auto levels = static_cast<double>((1 << bits) - 1);
    CHECK(static_cast<double>(reaching_step(3.0f, -1.0f, 1.0f, bits)) == doctest::Approx(4.0 / levels));
    CHECK(static_cast<double>(reaching_step(3.0f, -1.0f, 0.5f, bits)) == doctest::Approx(2.5 / levels));
    CHECK(reaching_step(2.0f, 2.0f, 1.0f, bits) > 0.0f);
    CHECK(reaching_step(65504.0f, -65504.0f, 1.0f, bits) <= kLargestScale);
  }
}

TEST_CASE("a row that is no number reads as none, whatever its codes") {
  for (const int32_t code : {0, 1, 63}) CHECK(std::isnan(KvScaleCoding::not_a_number().value(code)));
}

TEST_CASE("four codes of 6 bits fill three bytes, from the least significant bit on") {
  Random random(9);
  for (int i = 0; i < 1000; ++i) {
    uint8_t codes[4], bytes[3], again[4];
    for (uint8_t& code : codes) code = static_cast<uint8_t>(random.integer(0, 63));
    put_scale_codes(codes, bytes);
    get_scale_codes(bytes, again);
    for (int k = 0; k < 4; ++k) {
      REQUIRE(again[k] == codes[k]);
      for (int bit = 0; bit < 6; ++bit)
        REQUIRE((bytes[(6 * k + bit) / 8] >> (6 * k + bit) % 8 & 1) == (codes[k] >> bit & 1));
    }
  }
}

TEST_CASE("small scales take 16 bytes and 3 a channel, and codes begin on 16 bytes") {
  for (const int32_t dim : {8, 24, 32, 64, 72, 80, 96, 128, 256}) {
    const KvBlockLayout layout = KvBlockLayout::of(KvFormat::k2Bit, dim, 10, KvScaleForm::k6Bit);
    CAPTURE(dim);
    CHECK(layout.keys % 16 == 0);
    CHECK(layout.keys >= 16 + 3 * dim);
    CHECK(layout.keys < 16 + 3 * dim + 16);
    CHECK(scale_codes_at(kValueSteps, dim) + 3 * dim / 4 <= layout.keys);
    CHECK(scale_ends_at(kValueSteps) + 4 == scale_codes_at(kKeyOffsets, dim));
  }
  CHECK(KvBlockLayout::of(KvFormat::k1Bit, 64, 64, KvScaleForm::k6Bit).bytes == 208 + 2 * 64 * 8);
}

}  // namespace
}  // namespace ocellus
