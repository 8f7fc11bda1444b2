#pragma once

#include "kernels/attention/attend_rows_place.cuh"
#include "platform/queue.h"

namespace ocellus::cuda {

/// attend_rows for heads of more than 256 channels, whose tiles would not fit into a block's memory: the warps of a
/// block share its rows and divide their channels. Own rows may be listed; runs are f16, and nothing is calibrated.
void attend_rows_long(RowsWork work, Queue& queue);

}  // namespace ocellus::cuda
