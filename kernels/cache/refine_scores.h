#pragma once

#include "kernels/base/hash_term.h"
#include "kernels/rows/store_kv.h"
#include "platform/everywhere.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Turns attention scores into the scores of a rule, in place. In this order, for rows j < row_count:
///
///   clear       scores[g][j] = 0: the rule ranks by position only
///   random      scores[g][j] = random_score(seed, g, j): a baseline for rules that read attention
///   by_readers  scores[g][j] /= the number of rows that attend to row j, row_count - j or readers[j]: the mean
///               in place of the sum
///   by_values   scores[g][j] *= |v_gj|, the Euclidean norm of the row's values: the effect of the attention, not only
///               its amount
///   text_first  text rows get row_count more, above any sum of attention: they rank before visual ones (LOOK-M)
///   mean        every head gets the mean over the heads: one ranking for the layer (Elastic Cache)
///   first_rows  scores[g][j] = infinity for j < first_rows: these are kept
///
/// Shapes      scores [G, >= row_count]; text_first: is_visual [row_count], or null; rows: values [G, capacity, E],
///             keys are not read; readers [row_count + 1] or null: see ObservingRows
/// Types       scores f32; values f16; sums of squares and means in f32, added in the order of channels and heads on
///             the CPU, of lanes on CUDA
/// Divisible   E by 8
/// Special     NaN stays NaN
struct RefineScoresArgs {
  DeviceView<float> scores = {};
  KvLayerRows rows = {};
  int64_t row_count = 0;
  bool clear = false;
  bool random = false;
  bool by_readers = false;
  const int32_t* readers = nullptr;
  bool by_values = false;
  bool mean = false;
  const uint8_t* text_first = nullptr;
  int64_t first_rows = 0;
  uint64_t seed = 0;
};
/// Number of rows whose attention to a row is in its score, at least one.
OCELLUS_EVERYWHERE inline float reader_count(const RefineScoresArgs& args, int64_t row) {
  const int64_t count = args.readers == nullptr ? args.row_count - row : args.readers[row];
  return count > 0 ? static_cast<float>(count) : 1.0f;
}
void refine_scores(const RefineScoresArgs& args, Queue& queue);

/// A number in [0, 1) that every backend computes alike, by SplitMix64.
OCELLUS_EVERYWHERE constexpr float random_score(uint64_t seed, int64_t head, int64_t row) {
  const uint64_t number = (seed << 48) + (static_cast<uint64_t>(head) << 32) + static_cast<uint64_t>(row) + 1;
  return static_cast<float>(mix_bits(number * 0x9E3779B97F4A7C15u) >> 40) * (1.0f / (1 << 24));
}

}  // namespace ocellus
