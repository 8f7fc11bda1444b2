#pragma once

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Replaces scores by their sorted order, in place: with m = end - first rows,
///
///   scores[g][first + p] = the index, from 0 to m - 1, of the row among them that has the p-th lowest score
///
/// The public code of Elastic Cache ranks rows in this way: it uses indices of an argsort as ranks.
///
/// Shapes    scores [G, >= end]; other rows stay unchanged. order [G, >= m] is written: the indices as integers
/// Order     equal scores by row, the lowest first; NaN after all others
/// Special   indices up to 2^24 are exact
struct OrderScoresArgs {
  DeviceView<float> scores = {};
  int64_t first = 0;
  int64_t end = 0;
  DeviceView<int32_t> order = {};
};
void order_scores(const OrderScoresArgs& args, Queue& queue);

}  // namespace ocellus
