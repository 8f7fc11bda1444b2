#pragma once

#include <cstdint>

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Products of listed rows with each other, from which pick_rows chooses: products[i][j] = rows[list[i]] .
/// rows[list[j]].
///
/// Shapes    rows [T, D] f32, possibly strided; list [n], each below T; products [n, n], symmetric bit for bit
/// Types     sums in f32
struct RowProductsArgs {
  DeviceView<const float> rows;
  const int32_t* list = nullptr;
  DeviceView<float> products;
};
void row_products(const RowProductsArgs& args, Queue& queue);

}  // namespace ocellus
