// Cache runs for attention tests. Everything that is not a live slot of the layer under test holds NaN, so that a read
// outside shows in the result.
#pragma once

#include <cstdint>

#include "kernels/base/kv_run.h"
#include "quant/weight_format.h"
#include "tests/support/random.h"
#include "tests/support/visible_memory.h"

namespace ocellus::test {

inline constexpr Half kHalfNan{0x7E00};

class TestRun {
 public:
  static constexpr int32_t kLayers = 3;
  static constexpr int32_t kLayer = 1;  // the one filled with numbers

  /// Runs may be empty and may have room after their live slots.
  TestRun(Random& random, int32_t heads, int32_t dim, int32_t slots, int32_t capacity)
      : halves_(static_cast<size_t>(int64_t{2} * kLayers * heads * capacity * dim), kHalfNan) {
    const int64_t matrix = int64_t{2} * capacity * dim;  // bytes of one head's keys
    run_.data = reinterpret_cast<std::byte*>(halves_.data());
    run_.layer_stride = 2 * heads * matrix;
    run_.head_stride = 2 * matrix;
    run_.value_offset = matrix;
    run_.slots = slots;
    run_.capacity = capacity;
    for (int32_t head = 0; head < heads; ++head) {
      for (int64_t i = 0; i < int64_t{slots} * dim; ++i) {
        run_keys(run_, kLayer, head)[i] = float_to_half(random.normal());
        run_values(run_, kLayer, head)[i] = float_to_half(random.normal());
      }
    }
  }
  const KvRun& run() const { return run_; }

 private:
  Vector<Half> halves_;
  KvRun run_;
};

}  // namespace ocellus::test
