#pragma once

#include "kernels/attention/attend_rows_place.cuh"
#include "platform/queue.h"

namespace ocellus::cuda {

/// attend_rows with the products of whole warpgroups. Returns false, and launches
/// nothing, if the device, this build or the head size does not support it.
bool attend_rows_hopper(const RowsWork& work, Queue& queue);

}  // namespace ocellus::cuda
