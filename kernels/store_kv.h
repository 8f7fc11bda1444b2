#pragma once

#include <cstddef>

#include "kernels/kv_run.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Keys and values of one layer for the rows of one chunk, as the cache stores them unpacked, head-major: keys
/// [G, capacity, E] and values [G, capacity, E], f16. Row t of the chunk is slot t of every head.
struct KvLayerRows {
  Half* keys = nullptr;
  Half* values = nullptr;
  int32_t heads = 0;     // G
  int32_t head_dim = 0;  // E
  int64_t capacity = 0;  // rows
};

/// Rounds rows to f16 (to nearest even; magnitudes above 65504, the largest f16, become that) and lays them out by
/// head: out.keys[g][first + t] = k[t][g*E ..], the same for values.
///
/// Shapes    keys, values [T, G * E] f32 (rows may be strided), already rotated; first + T <= out.capacity
struct RoundKvArgs {
  DeviceView<const float> keys;
  DeviceView<const float> values;
  int64_t first = 0;
  KvLayerRows out;
};
void round_kv(const RoundKvArgs& args, Queue& queue);

/// Copies chunk rows [first, first + count) of one layer into slots [run_slot, run_slot + count) of an f16 run.
///
/// Shapes    rows as above; run: run_slot + count <= run.capacity, run.format kF16
struct StoreKvArgs {
  KvLayerRows rows;
  int64_t first = 0;
  int64_t count = 0;
  KvRun run;
  int64_t run_slot = 0;
  int32_t layer = 0;
};
void store_kv(const StoreKvArgs& args, Queue& queue);

/// Decode: session b's new key and value (row b) are rounded to f16, as above, into slot slots[b] of runs[b].
///
/// Shapes    keys, values [B, G * E] f32 (rows may be strided), already rotated; runs, slots [B]
struct AppendKvArgs {
  DeviceView<const float> keys;
  DeviceView<const float> values;
  int32_t head_dim = 0;
  const KvRun* runs = nullptr;
  const int32_t* slots = nullptr;
  int32_t layer = 0;
};
void append_kv(const AppendKvArgs& args, Queue& queue);

}  // namespace ocellus
