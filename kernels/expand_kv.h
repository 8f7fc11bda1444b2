#pragma once

#include "kernels/kv_run.h"
#include "kernels/rope.h"
#include "kernels/store_kv.h"
#include "platform/queue.h"

namespace ocellus {

/// Writes packed or shifted runs of one layer as f16: live slot s of run i becomes row i * kPackedTileSlots + s of out,
/// its keys rotated on by the run's position shift. For prefill on CUDA, where many queries read each slot; decoding
/// reads the packed words themselves.
///
/// Shapes    runs [run_count] of at most kPackedTileSlots slots each; out.keys, out.values [G, capacity, E] with
///           capacity >= run_count * kPackedTileSlots. All in the device's memory
/// Types     codes or f16 to f16; offset + step * code and the rotation in f32
/// Divisible E by 8 and at most 256; on CUDA all rows and blocks start on 16 bytes
/// Special   rows without a live slot are not written
/// Errors    kInternal in the queue if out has too few rows
struct ExpandKvArgs {
  const KvRun* runs = nullptr;
  int32_t run_count = 0;
  KvLayer layer = {};
  RopeParams rope;
  KvLayerRows out;
};
void expand_kv(const ExpandKvArgs& args, Queue& queue);

}  // namespace ocellus
