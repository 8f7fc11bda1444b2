#pragma once

#include "kernels/base/kv_run.h"
#include "kernels/rows/store_kv.h"
#include "platform/queue.h"

namespace ocellus {

/// Copies chosen rows of one layer into f16 runs: slot s of head g of a run takes row
/// indices[g * index_stride + counted_before + first + s], for every live slot of the head.
///
/// Shapes    rows [G, capacity, E]; indices [index_stride] per head; runs [run_count]. All in the device's memory
/// Divisible E by 8; on CUDA all rows and slots start on 16 bytes
struct GatherKvArgs {
  KvLayerRows rows;
  const int32_t* indices = nullptr;
  int64_t index_stride = 0;
  const KvRun* runs = nullptr;
  int32_t run_count = 0;
  int32_t layer = 0;
};
void gather_kv(const GatherKvArgs& args, Queue& queue);

}  // namespace ocellus
