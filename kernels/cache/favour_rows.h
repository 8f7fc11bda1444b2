#pragma once

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Raises the scores of listed rows, so that they rank before others (CSP: the union of two selections, filled up by a
/// third score):
///
///   scores[g][j] += amount   for the rows j of the head's list with reasons[g][j] > 0
///
/// Shapes    scores, reasons [G, >= every listed row + 1]; rows [G, >= counts[g]] row numbers, none twice; counts [G].
///           All in the device's memory
/// Lists     at most most_listed rows a head
struct FavourRowsArgs {
  DeviceView<float> scores = {};
  DeviceView<const float> reasons = {};
  DeviceView<const int32_t> rows = {};
  const int32_t* counts = nullptr;
  int64_t most_listed = 0;
  float amount = 0;
};
void favour_rows(const FavourRowsArgs& args, Queue& queue);

}  // namespace ocellus
