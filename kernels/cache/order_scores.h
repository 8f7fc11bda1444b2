#pragma once

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Replaces scores by the order they sort into, in place: with m = end - first rows in question,
///
///   scores[g][first + p] = the number, from 0 to m - 1, of the row among them that has the p-th lowest score
///
/// To rank rows by that is what the public code of Elastic Cache does, which takes indices of an argsort for ranks.
///
/// Shapes    scores [G, >= end]; other rows stay. order [G, >= m] is written: the numbers as integers
/// Order     equal scores by row, the lowest first; what is not a number behind all others
/// Special   numbers up to 2^24 are exact
struct OrderScoresArgs {
  DeviceView<float> scores = {};
  int64_t first = 0;
  int64_t end = 0;
  DeviceView<int32_t> order = {};
};
void order_scores(const OrderScoresArgs& args, Queue& queue);

}  // namespace ocellus
