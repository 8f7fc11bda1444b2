#include "kernels/attention/step/packed_codes.h"

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "kernels/attention/step/plan.h"
#include "quant/weight_format.h"
#include "tests/support/packed_codes.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Random;

float number_of(uint32_t bits) { return half_to_float(Half{static_cast<uint16_t>(bits)}); }

/// One row of codes, with bytes beyond its end as shared memory may hold them.
template <class Shape>
std::vector<uint8_t> random_row(Random& random) {
  std::vector<uint8_t> row(static_cast<size_t>(16 * Shape::kUnits));
  for (uint8_t& byte : row) byte = static_cast<uint8_t>(random.integer(0, 255));
  return row;
}
uint32_t half_of(const std::vector<uint8_t>& row, int half) {
  const size_t at = static_cast<size_t>(2 * half);
  return static_cast<uint32_t>(row[at] | row[at + 1] << 8);
}

/// Both numbers of code i of a word are what the channels hold.
template <class Shape>
void check_numbers(uint32_t word, const std::array<int32_t, 2>& expected, int i) {
  using Codes = typename Shape::Codes;
  const uint32_t numbers = Codes::numbers(word, Codes::moved(word), i);
  for (int k = 0; k < 2; ++k) {
    const float number = number_of(numbers >> (16 * k) & 0xFFFF);
    REQUIRE(number == std::ldexp(static_cast<float>(expected[static_cast<size_t>(k)]), Codes::number_exponent(i)));
  }
}

template <class Shape>
void check_shape() {
  using Codes = typename Shape::Codes;
  CAPTURE(Shape::kBits);
  CAPTURE(Shape::kChunks);
  Random random(7);
  for (int round = 0; round < 50; ++round) {
    const std::vector<uint8_t> row = random_row<Shape>(random), other = random_row<Shape>(random);
    std::vector<int> seen_in_keys(static_cast<size_t>(64 * Shape::kChunks)), seen_in_values = seen_in_keys;
    for (int unit = 0; unit < Shape::kUnits; ++unit) {
      for (int half = 0; half < 8; ++half) {
        for (int i = 0; i < Shape::kPerHalf; ++i) {
          const int channel = Shape::first_channel(unit, half) + Codes::channel(i);
          const int32_t code = test::kv_code_at(row.data(), Shape::kBits, channel);
          // Values: a word holds the same half of two slots.
          check_numbers<Shape>(half_of(row, 8 * unit + half) | half_of(other, 8 * unit + half) << 16,
                               {code, test::kv_code_at(other.data(), Shape::kBits, channel)}, i);
          ++seen_in_values[static_cast<size_t>(channel)];
          if (half % 2 != 0) continue;
          // Keys: two neighbours.
          const int next = channel + Shape::kPerHalf;
          check_numbers<Shape>(half_of(row, 8 * unit + half) | half_of(row, 8 * unit + half + 1) << 16,
                               {code, test::kv_code_at(row.data(), Shape::kBits, next)}, i);
          ++seen_in_keys[static_cast<size_t>(channel)];
          ++seen_in_keys[static_cast<size_t>(next)];
        }
      }
    }
    REQUIRE(seen_in_values == std::vector<int>(seen_in_values.size(), 1));
    REQUIRE(seen_in_keys == seen_in_values);
  }
  for (int i = 0; i < Shape::kPerHalf; ++i) {
    CHECK(number_of(half_power_bits(Codes::query_exponent(i))) == std::ldexp(1.0f, Codes::query_exponent(i)));
    CHECK(std::bit_cast<float>(float_power_bits(-Codes::number_exponent(i))) ==
          std::ldexp(1.0f, -Codes::number_exponent(i)));
  }
  CHECK(std::bit_cast<float>(float_power_bits(Codes::kScoreExponent)) == std::ldexp(1.0f, Codes::kScoreExponent));
}

TEST_CASE("packed codes read as f16 numbers are those of their channels, every channel once") {
  check_shape<PackedShape<1, 2>>();
  check_shape<PackedShape<1, 4>>();
  check_shape<PackedShape<2, 1>>();
  check_shape<PackedShape<2, 2>>();
  check_shape<PackedShape<2, 4>>();
  check_shape<PackedShape<4, 1>>();
  check_shape<PackedShape<4, 2>>();
  check_shape<PackedShape<4, 4>>();
  check_shape<PackedShape<8, 1>>();
  check_shape<PackedShape<8, 2>>();
  check_shape<PackedShape<8, 4>>();
}

template <int kBits>
void check_widened(Random& random, int halvings) {
  const int32_t narrow = kBits >> halvings;
  CAPTURE(kBits);
  CAPTURE(narrow);
  for (int round = 0; round < 50; ++round) {
    const uint32_t from[2] = {static_cast<uint32_t>(random.bits()), static_cast<uint32_t>(random.bits())};
    uint32_t to[4];
    widen_unit<kBits>(halvings, from, to);
    const auto* narrow_row = reinterpret_cast<const uint8_t*>(from);
    const auto* row = reinterpret_cast<const uint8_t*>(to);
    for (int64_t e = 0; e < 128 / kBits; ++e)
      REQUIRE(test::kv_code_at(row, kBits, e) == test::kv_code_at(narrow_row, narrow, e));
  }
}

TEST_CASE("codes of half or a quarter of the bits are the same codes once widened") {
  Random random(8);
  check_widened<8>(random, 1);
  check_widened<8>(random, 2);
  check_widened<4>(random, 1);
  check_widened<4>(random, 2);
  check_widened<2>(random, 1);
}

TEST_CASE("scratch planned with packed tiles is enough for fewer rows and tiles, with them or without, on any device") {
  Random random(6);
  for (int i = 0; i < 3000; ++i) {
    const int64_t rows = random.integer(1, 200), tiles = random.integer(1, 3000), kv_heads = random.integer(1, 32);
    const int64_t heads = kv_heads * random.integer(1, 32), dim = 32 * random.integer(1, 8);
    const KvFormat packed = KvFormat::k2Bit;
    const int64_t planned = AttendStepScratch::most_bytes(rows, tiles, heads, kv_heads, dim, packed);
    const int64_t most_groups = plan_attend_step(rows, tiles, heads, kv_heads, dim, 1, packed).groups(rows, kv_heads);
    const int64_t zeros = AttendStepScratch::counters_bytes(most_groups, packed);
    const int64_t some_rows = random.integer(1, rows), some_tiles = random.integer(1, tiles);
    for (const KvFormat format : {KvFormat::kF16, packed}) {
      const AttendStepPlan plan =
          plan_attend_step(some_rows, some_tiles, heads, kv_heads, dim, random.integer(1, 300), format);
      const int64_t groups = plan.groups(some_rows, kv_heads);
      const int64_t counters = AttendStepScratch::counters_bytes(groups, format);
      const int64_t needed = AttendStepScratch::bytes(plan, some_rows, kv_heads, dim, format);
      REQUIRE(needed <= planned);
      REQUIRE(needed - counters <= planned - zeros);  // results do not reach what is zero between calls
      REQUIRE(counters <= zeros);
      // A lane reads the entry of one tile at most.
      REQUIRE(divide_up(some_tiles, plan.pieces) <= kAttendStepMostTiles);
    }
  }
}

}  // namespace
}  // namespace ocellus
