// The cache before a chunk, as the ops over a chunk's rows read one layer of it.
#pragma once

#include "kernels/base/kv_run.h"
#include "kernels/rows/rope.h"

namespace ocellus {

struct PastRuns {
  const KvRun* runs = nullptr;  // [count] in the device's memory
  int32_t count = 0;
  KvLayer layer = {};
  RopeParams rope = {};  // applied to shifted runs
  KvCalibration calibration = {};
};

}  // namespace ocellus
