// Shared by the backends' samplers, so that they are bit-equal: random numbers, and advancing a row. Compiled for the
// device too.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/base/kv_run.h"
#include "kernels/base/step_row.h"
#include "platform/round_up.h"

namespace ocellus {

/// The first word of Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): a pure function
/// of seed and counter, so that every backend draws the same numbers.
OCELLUS_EVERYWHERE constexpr uint32_t philox_word(uint64_t seed, uint64_t counter) {
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  uint32_t x0 = static_cast<uint32_t>(counter), x1 = static_cast<uint32_t>(counter >> 32), x2 = 0, x3 = 0;
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * x0;
    const uint64_t b = uint64_t{0xCD9E8D57} * x2;
    x0 = static_cast<uint32_t>(b >> 32) ^ x1 ^ key0;
    x1 = static_cast<uint32_t>(b);
    x2 = static_cast<uint32_t>(a >> 32) ^ x3 ^ key1;
    x3 = static_cast<uint32_t>(a);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return x0;
}

/// The random number of a draw is random_bits(..) / 2^kRandomBits: in [0, 1), exact as a float.
inline constexpr int kRandomBits = 24;
OCELLUS_EVERYWHERE constexpr uint32_t random_bits(uint64_t seed, uint64_t counter) {
  return philox_word(seed, counter) >> (32 - kRandomBits);
}
OCELLUS_EVERYWHERE constexpr float philox_uniform(uint64_t seed, uint64_t counter) {
  return static_cast<float>(random_bits(seed, counter)) * (1.0f / (1 << kRandomBits));
}

/// A mask has a bit for each token: bit token % kMaskTokens of word token / kMaskTokens.
inline constexpr int kMaskTokens = 32;
constexpr int64_t mask_words(int64_t tokens) { return divide_up(tokens, kMaskTokens); }
constexpr bool has_token(const uint32_t* mask, int64_t token) {
  return (mask[token / kMaskTokens] >> (token % kMaskTokens) & 1) != 0;
}
constexpr void add_token(uint32_t* mask, int64_t token) {
  mask[token / kMaskTokens] |= uint32_t{1} << (token % kMaskTokens);
}
constexpr void remove_token(uint32_t* mask, int64_t token) {
  mask[token / kMaskTokens] &= ~(uint32_t{1} << (token % kMaskTokens));
}

/// Advances a StepRow's or StepPlace's place after a step; `capacity` of its new tile.
template <class Row>
OCELLUS_EVERYWHERE inline void move_place(Row& row, int32_t capacity) {
  row.eviction.settles = row.eviction.evicts(row.position) ? 1 : 0;
  ++row.position;
  if (row.eviction.settles != 0) return;  // the token takes another slot
  ++row.eviction.slots;
  if (++row.new_slot < capacity) return;
  ++row.new_tile;
  row.new_slot = 0;
}

/// Advances the row after `token` was sampled. `tiles` are the row's own; null: position and slot stay.
OCELLUS_EVERYWHERE inline void move_on(StepRow& row, int32_t token, const KvRun* tiles) {
  row.token = token;
  row.recent.push(token);
  ++row.step;
  ++row.drawn_count;
  if (tiles != nullptr) move_place(row, tiles[row.new_tile].capacity);
}

/// The distance of a logit below the largest in units of 2^-20, rounded down and at most 2^32: top-n-sigma's standard
/// deviation is that of these integers, whose sums are exact in any order. `logit` is not minus infinity.
OCELLUS_EVERYWHERE constexpr uint32_t gap_units(float logit, float largest) {
  constexpr float kMost = 0x1.fffffep31f;
  const float units = (largest - logit) * 0x1p20f;
  return static_cast<uint32_t>(units < kMost ? units : kMost);
}
inline constexpr double kGapUnit = 0x1p-20;

/// Sums of gap_units() and of their squares, the latter in two halves.
struct GapSums {
  uint64_t count = 0;
  uint64_t sum = 0;
  uint64_t squares_high = 0, squares_low = 0;  // in units of 2^32 and 1

  OCELLUS_EVERYWHERE constexpr void add(uint32_t units) {
    const uint64_t square = uint64_t{units} * units;
    ++count;
    sum += units;
    squares_high += square >> 32;
    squares_low += square & 0xFFFFFFFFu;
  }
  /// The squared standard deviation of the logits.
  OCELLUS_EVERYWHERE double variance() const {
    const double n = static_cast<double>(count), mean = static_cast<double>(sum) / n;
    const double squares = static_cast<double>(squares_high) * 0x1p32 + static_cast<double>(squares_low);
    const double result = (squares / n - mean * mean) * (kGapUnit * kGapUnit);
    return result > 0 ? result : 0;
  }
};

/// The least logit that top-n-sigma keeps, rounded once, so that every backend computes the same float.
OCELLUS_EVERYWHERE inline float least_in_sigmas(float largest, float sigmas, double log_variance) {
  return static_cast<float>(static_cast<double>(largest) - static_cast<double>(sigmas) * std::exp(0.5 * log_variance));
}

/// The mean logit that typical-p measures distances from, rounded to a multiple of 2^-20 and to a float, so that
/// every backend nearly always has the same. `mean_gap`: by how much it is below the largest logit.
OCELLUS_EVERYWHERE inline float typical_centre(float largest, double mean_gap) {
  constexpr double kRound = 0x1.8p32;  // doubles of this size are multiples of 2^-20
  const double centre = static_cast<double>(largest) - mean_gap;
  return static_cast<float>((centre + kRound) - kRound);
}

/// Result of a block of the first CUDA kernel for its part of a row.
struct SamplePart {
  uint64_t best;  // order word of the most probable token; 0: all are NaN
  uint64_t hash;
};

/// Parts of a row: small ones for few rows, so that the whole device reads them; else fewer, all rows together at most
/// kMaxSampleParts or one per row. Results do not depend on the number.
inline constexpr int64_t kMaxSampleParts = 2048;
inline constexpr int64_t kSamplePartLogits = 1024;
constexpr int64_t sample_parts(int64_t rows, int64_t vocabulary) {
  const int64_t wanted = divide_up(vocabulary, kSamplePartLogits);
  const int64_t most = kMaxSampleParts / rows;
  return wanted < most ? wanted : most > 1 ? most : 1;
}

}  // namespace ocellus
