#include "quant/kv_format.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "quant/weight_format.h"
#include "tests/support/packed_codes.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Random;

constexpr int32_t kPackedBits[] = {8, 4, 2, 1};

TEST_CASE("formats and their bits name each other") {
  for (const int32_t bits : {16, 8, 4, 2, 1}) {
    CHECK(has_kv_format(bits));
    CHECK(key_bits(kv_format_of(bits)) == bits);
    CHECK(value_bits(kv_format_of(bits)) == bits);
    CHECK(is_packed(kv_format_of(bits)) == (bits < 16));
  }
  CHECK(kv_format_of(16) == KvFormat::kF16);
  CHECK(kv_format_of(2) == KvFormat::k2Bit);
  CHECK(kv_format_of(1) == KvFormat::k1Bit);
  for (const int32_t bits : {-1, 0, 3, 5, 7, 12, 32}) CHECK_FALSE(has_kv_format(bits));
}

TEST_CASE("keys and values may differ in bits, packed both and by a factor of four at most") {
  int32_t pairs = 0;
  for (const int32_t keys : {16, 8, 4, 2, 1}) {
    for (const int32_t values : {16, 8, 4, 2, 1}) {
      const bool one_is_f16 = (keys == 16) != (values == 16), far = keys * values == 8 && (keys == 8 || values == 8);
      CHECK(has_kv_format(keys, values) == !(one_is_f16 || far));
      if (!has_kv_format(keys, values)) continue;
      const KvFormat format = kv_format_of(keys, values);
      CHECK(key_bits(format) == keys);
      CHECK(value_bits(format) == values);
      CHECK(most_bits(format) == std::max(keys, values));
      CHECK(is_packed(format) == (keys < 16));
      pairs += keys != values;
    }
  }
  CHECK(pairs == 10);
  CHECK_FALSE(has_kv_format(4, 3));
  CHECK_FALSE(has_kv_format(0, 0));
}

TEST_CASE("a block is scales, keys and values without gaps, padded to 16 bytes") {
  const KvBlockLayout halves = KvBlockLayout::of(KvFormat::kF16, 72, 5);
  CHECK(halves.key_row_bytes == 144);
  CHECK(halves.value_row_bytes == 144);
  CHECK(halves.keys == 0);
  CHECK(halves.values == 720);
  CHECK(halves.bytes == 1440);
  CHECK(halves.padded_bytes == 1440);
  const KvBlockLayout two = KvBlockLayout::of(KvFormat::k2Bit, 72, 5);
  CHECK(two.key_row_bytes == 18);
  CHECK(two.keys == 4 * 72 * 2);
  CHECK(two.values == two.keys + 90);
  CHECK(two.bytes == two.values + 90);
  CHECK(two.padded_bytes == 768);
  // Where bits differ, the values start on 16 bytes, too.
  const KvBlockLayout unequal = KvBlockLayout::of(kv_format_of(4, 1), 72, 5);
  CHECK(unequal.key_row_bytes == 36);
  CHECK(unequal.value_row_bytes == 9);
  CHECK(unequal.slot_bytes() == 45);
  CHECK(unequal.values == unequal.keys + 192);
  CHECK(unequal.bytes == unequal.values + 45);
  const KvBlockLayout large = KvBlockLayout::of(KvFormat::k8Bit, 256, int64_t{1} << 30);  // beyond 32 bits
  CHECK(large.bytes == 2048 + (int64_t{1} << 39));
}

TEST_CASE("the first channel's code stands in the most significant bits") {
  const uint8_t row[] = {0x1B, 0xC4};  // 0001 1011 1100 0100
  const std::vector<int32_t> by_eight = {0x1B, 0xC4}, by_four = {1, 11, 12, 4}, by_two = {0, 1, 2, 3, 3, 0, 1, 0},
                             by_one = {0, 0, 0, 1, 1, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0};
  for (const auto& [bits, expected] : {std::pair{8, by_eight}, {4, by_four}, {2, by_two}, {1, by_one}}) {
    for (size_t e = 0; e < expected.size(); ++e)
      CHECK(test::kv_code_at(row, bits, static_cast<int64_t>(e)) == expected[e]);
  }
}

/// The decoded [least, greatest] after its ends were coded with rounded scales.
struct ReadBack {
  float low, high;
};
ReadBack read_back(float least, float greatest, float range, int32_t bits) {
  const KvScale scale = KvScale::of(least, greatest, range, bits);
  const float offset = half_to_float(float_to_half(scale.offset)), step = half_to_float(float_to_half(scale.step));
  CHECK(std::isfinite(offset));
  CHECK(std::isfinite(step));
  CHECK(step > 0);
  const float most = static_cast<float>((1 << bits) - 1);
  const auto read = [&](float x) {
    return offset + step * std::clamp(std::nearbyint((x - offset) / step), 0.0f, most);
  };
  return {read(least), read(greatest)};
}

TEST_CASE("the ends of a channel's range are read back within half a step's rounding") {
  Random random(6);
  for (const int32_t bits : kPackedBits) {
    for (int i = 0; i < 1000; ++i) {
      const float size = std::ldexp(1.0f, static_cast<int>(random.integer(-8, 14)));
      float least = half_to_float(float_to_half(random.uniform(-size, size)));
      float greatest = half_to_float(float_to_half(random.uniform(-size, size)));
      if (least > greatest) std::swap(least, greatest);
      const ReadBack read = read_back(least, greatest, 1.0f, bits);
      CHECK(read.low == least);
      // The step is off by at most 2^-11 of itself, and by at most 2^-25 where it is small, in each of the steps.
      const float slack = 6e-4f * (greatest - least) + 4e-8f * static_cast<float>(1 << bits) + 2e-6f * size;
      CHECK(std::abs(read.high - greatest) <= slack);
    }
  }
}

TEST_CASE("a constant channel is read back exactly, whatever its value") {
  for (const int32_t bits : kPackedBits) {
    for (const float value : {0.0f, 1.0f, -3.140625f, 65504.0f, -65504.0f, 5.9604645e-8f, -6.1e-5f}) {
      const float constant = half_to_float(float_to_half(value));
      const ReadBack read = read_back(constant, constant, 1.0f, bits);
      CHECK(read.low == constant);
      CHECK(read.high == constant);
    }
  }
}

TEST_CASE("the widest range and the narrowest keep finite scales") {
  for (const int32_t bits : kPackedBits) {
    const KvScale widest = KvScale::of(-65504.0f, 65504.0f, 1.0f, bits);
    CHECK(widest.offset == -65504.0f);
    CHECK(widest.step == (bits == 1 ? 65504.0f : doctest::Approx(131008.0 / ((1 << bits) - 1)).epsilon(1e-6)));
    read_back(-65504.0f, 65504.0f, 1.0f, bits);
    read_back(0.0f, 5.9604645e-8f, 1.0f, bits);
    read_back(1.0f, 1.0009765625f, 1.0f, bits);
  }
}

TEST_CASE("a range below one shrinks both ends towards zero") {
  const KvScale scale = KvScale::of(-2.0f, 4.0f, 0.5f, 1);
  CHECK(scale.offset == -1.0f);
  CHECK(scale.step == 3.0f);
  // A channel far from zero becomes a constant near its shrunk upper end.
  const KvScale far = KvScale::of(8.0f, 10.0f, 0.3f, 2);
  CHECK(far.offset == doctest::Approx(2.4));
  CHECK(far.step == doctest::Approx(0.2));
}

}  // namespace
}  // namespace ocellus
