#pragma once

#include "kernels/rows/store_kv.h"

namespace ocellus {

/// Difference of rows from their stored values (CacheBlend, Yao et al. 2025, as in its code: by values, which are not
/// rotated):
///
///   change_t = sum over heads and channels ( v_t - stored_v_t )^2, 0 for rows that are not stored
///
/// Shapes    rows [G, capacity, E] of one layer; slots [count], those without an address are not stored; changes
///           [count]. All in device memory
/// Types     f16, sums in f32
/// Divisible E by 8; on CUDA all rows and slots start on 16 bytes
/// Errors    kInternal for heads of more than kMaxHeadDim values on the CPU
struct ValueChangeArgs {
  KvLayerRows rows;
  int64_t count = 0;
  const KvSlot* slots = nullptr;
  int32_t layer = 0;
  float* changes = nullptr;
};
void value_change(const ValueChangeArgs& args, Queue& queue);

}  // namespace ocellus
