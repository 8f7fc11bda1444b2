#pragma once

#include "kernels/rows/store_kv.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Turns attention scores into the scores of a rule, in place. In this order, for rows j < row_count:
///
///   clear       scores[g][j] = 0: the rule ranks by position only
///   by_values   scores[g][j] *= |v_gj|, the Euclidean norm of the row's values: the effect of the attention, not only
///               its amount
///   text_first  text rows get row_count more, above any sum of attention: they rank before visual ones (LOOK-M)
///   mean        every head gets the mean over the heads: one ranking for the layer (Elastic Cache)
///   first_rows  scores[g][j] = infinity for j < first_rows: these are kept
///
/// Shapes      scores [G, >= row_count]; is_visual [row_count], read with text_first; rows: values [G, capacity, E],
///             keys are not read
/// Types       scores f32; values f16; sums of squares and means in f32, added in the order of channels and heads on
///             the CPU, of lanes on CUDA
/// Divisible   E by 8
/// Special     NaN stays NaN
struct RefineScoresArgs {
  DeviceView<float> scores = {};
  KvLayerRows rows = {};
  int64_t row_count = 0;
  bool clear = false;
  bool by_values = false;
  bool mean = false;
  bool text_first = false;
  const uint8_t* is_visual = nullptr;
  int64_t first_rows = 0;
};
void refine_scores(const RefineScoresArgs& args, Queue& queue);

}  // namespace ocellus
