#include "runtime/library/library_sketch.h"

#include <algorithm>

namespace ocellus {
namespace {

/// The finaliser of MurmurHash3: its bits are the signs, the same in every process.
uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 33)) * 0xFF51AFD7ED558CCDull;
  value = (value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53ull;
  return value ^ (value >> 33);
}

}  // namespace

void sketch_embedding(std::span<const float> embedding, uint64_t* out) {
  float values[kSketchBits] = {};
  for (size_t i = 0; i < embedding.size(); ++i) {
    const bool is_turned = (mix(i / 64 + 1) >> (i % 64) & 1) != 0;
    values[i % kSketchBits] += is_turned ? -embedding[i] : embedding[i];
  }
  for (int64_t half = 1; half < kSketchBits; half *= 2) {
    for (int64_t begin = 0; begin < kSketchBits; begin += 2 * half) {
      for (int64_t i = begin; i < begin + half; ++i) {
        const float sum = values[i] + values[i + half];
        values[i + half] = values[i] - values[i + half];
        values[i] = sum;
      }
    }
  }
  std::fill_n(out, kSketchWords, 0);
  for (int64_t bit = 0; bit < kSketchBits; ++bit) out[bit / 64] |= uint64_t{values[bit] > 0} << (bit % 64);
}

}  // namespace ocellus
