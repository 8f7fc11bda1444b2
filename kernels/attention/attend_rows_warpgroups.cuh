#pragma once

#include "kernels/attention/attend_rows_place.cuh"
#include "platform/queue.h"

namespace ocellus::cuda {

/// As attend_rows_hopper, for some head sizes, on compute capability 9.0 only.
bool attend_rows_warpgroups(const RowsWork& work, Queue& queue);

}  // namespace ocellus::cuda
