// pack_kv writes the same bytes on every target and backend.
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "kernels/cache/pack_kv.h"
#include "quant/weight_format.h"
#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Random;

struct Shape {
  int32_t heads, dim, bits, slots;
  float range;
  int32_t bits_of_values = 0;  // 0: bits

  KvFormat format() const { return kv_format_of(bits, bits_of_values == 0 ? bits : bits_of_values); }
};

/// Rows of one layer; among their values are both zeros, tiny ones, the largest, and halfway cases.
test::Vector<Half> draw(const Shape& shape, Random& random) {
  constexpr float kEdges[] = {0.0f, -0.0f, 6e-8f, -6e-8f, 65504.0f, -65504.0f, 0.5f, -0.5f};
  test::Vector<Half> halves(static_cast<size_t>(int64_t{shape.heads} * shape.slots * shape.dim));
  for (size_t i = 0; i < halves.size(); ++i) {
    const auto channel = static_cast<int32_t>(i % static_cast<size_t>(shape.dim));
    const float edge = kEdges[random.integer(0, channel % 4 == 0 ? 7 : 3)];
    const bool on_edge = channel % 4 != 1 && random.integer(0, 2) == 0;
    // Channels 2, 6, ...: zeros and multiples of an eighth only, so that the step's halves are met.
    const float value = channel % 4 == 2 ? static_cast<float>(random.integer(0, 16)) / 8 : random.normal(2.0f);
    halves[i] = float_to_half(on_edge ? edge : value);
  }
  return halves;
}

TEST_CASE("pack_kv writes the same bytes on every target and backend") {
  uint64_t seed = 0;
  for (int i = 0; i < 12; ++i) {
    const int32_t bits = 1 << i % 4;
    const auto form = static_cast<KvScaleForm>(i / 4);
    for (const Shape& shape :
         {Shape{3, 64, bits, 300, 1.0f}, Shape{1, 128, bits, 33, 0.3f}, Shape{2, 32, bits, 7, 0.5f},
          Shape{1, 32, bits, 2500, 1.0f}, Shape{1, 64, bits, 35, 1.0f, bits < 8 ? 2 * bits : 2}}) {
      CAPTURE(bits);
      CAPTURE(shape.slots);
      Random random(++seed);
      test::Vector<Half> keys = draw(shape, random), values = draw(shape, random);
      test::Vector<int32_t> indices;
      for (int32_t slot = 0; slot < shape.slots; ++slot)
        indices.push_back(static_cast<int32_t>(random.integer(0, shape.slots - 1)));
      const KvBlockLayout layout = KvBlockLayout::of(shape.format(), shape.dim, shape.slots, form);
      std::vector<std::byte> expected;
      test::for_each_backend_and_target([&](Queue& queue) {
        test::Vector<std::byte> block(static_cast<size_t>(shape.heads * layout.padded_bytes));
        std::memset(block.data(), 0x5A, block.size());
        test::Vector<PackJob> jobs(1);
        jobs[0].out.data = block.data();
        jobs[0].out.slots = jobs[0].out.capacity = shape.slots;
        jobs[0].out.packed = true;
        pack_kv({.rows = KvLayerRows::head_major(keys.data(), values.data(), shape.heads, shape.dim, shape.slots),
                 .indices = indices.data(),
                 .jobs = jobs.data(),
                 .job_count = 1,
                 .layer = {.format = shape.format(), .scales = form},
                 .key_range = shape.range,
                 .value_range = 1.0f},
                queue);
        REQUIRE(queue.finish().ok());
        if (expected.empty()) expected.assign(block.begin(), block.end());
        CHECK(std::memcmp(expected.data(), block.data(), block.size()) == 0);
      });
    }
  }
}

}  // namespace
}  // namespace ocellus
