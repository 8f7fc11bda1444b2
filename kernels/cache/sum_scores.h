#pragma once

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Sum of a layer's scores: total = sum over heads g and rows j < row_count of scores[g][j].
///
/// Shapes    scores [G, >= row_count] f32; total: one number in device memory
/// Types     added in f64 in a fixed order, rounded once
struct SumScoresArgs {
  DeviceView<const float> scores = {};
  int64_t row_count = 0;
  float* total = nullptr;
};
void sum_scores(const SumScoresArgs& args, Queue& queue);

}  // namespace ocellus
