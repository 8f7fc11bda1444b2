#pragma once

#include "kernels/attention/attend_rows_place.cuh"
#include "platform/queue.h"

namespace ocellus::cuda {

/// attend_rows with the products of whole warpgroups, in tiles that see all their slots. False,
/// and nothing is launched, where the device, this build or the head size does not have them.
bool attend_rows_hopper(const RowsWork& work, Queue& queue);

}  // namespace ocellus::cuda
