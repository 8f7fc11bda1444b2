#pragma once

#include "platform/queue.h"
#include "platform/views.h"
#include "quant/weight_format.h"

namespace ocellus {

/// Adds positions to views whose tower has a class row before the patch rows, and writes the class rows.
/// With p = (first + t) % (P + 1): x[t] = class_row + positions[0] where p is 0, else x[t] += positions[p].
///
/// Shapes    x [T, D] (rows may be strided): rows first .. first + T - 1 of views with P + 1 rows each; class_row [D];
///           positions [P + 1, D] in any weight format
/// Types     f32
/// Divisible D by 8
struct PlaceClassRowsArgs {
  DeviceView<float> values;
  const float* class_row = nullptr;
  WeightView positions;
  int64_t first = 0;
};
void place_class_rows(const PlaceClassRowsArgs& args, Queue& queue);

}  // namespace ocellus
