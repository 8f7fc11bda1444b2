#pragma once

#include <cstddef>

#include "kernels/base/kv_run.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Unpacked f16 keys and values of one layer, row by row and head by head: head g of row t of sequence s starts at keys
/// + s * sequence_stride + t * row_stride + g * head_stride, its E values are contiguous; values likewise.
struct KvLayerRows {
  Half* keys = nullptr;
  Half* values = nullptr;
  int32_t heads = 0;       // G
  int32_t head_dim = 0;    // E
  int64_t capacity = 0;    // rows
  int64_t row_stride = 0;  // in values, as all strides here
  int64_t head_stride = 0;
  int64_t sequence_stride = 0;  // between independent sequences of the same length, such as images in the vision tower

  OCELLUS_EVERYWHERE int64_t at(int64_t row, int64_t head) const { return row * row_stride + head * head_stride; }
  /// Keys [G, capacity, E] and values alike: the layout that round_kv fills for one sequence.
  static KvLayerRows head_major(Half* keys, Half* values, int32_t heads, int32_t head_dim, int64_t capacity) {
    return {keys, values, heads, head_dim, capacity, head_dim, capacity * head_dim, 0};
  }
};

/// Rounds rows to f16 (to nearest even; magnitudes above 65504, the largest f16, become that) and lays them out by
/// head: out.keys[g][first + t] = k[t][g*E ..], the same for values; with `places`, places[t] instead of first + t.
///
/// Shapes    keys, values [T, G * E] (rows may be strided), already rotated; first + T <= out.capacity; places [T] in
///           device memory, all different and below out.capacity, or null
/// Types     keys, values activations
/// Divisible E by 8; on CUDA all rows start on 16 bytes
struct RoundKvArgs {
  ActivationView keys;
  ActivationView values;
  int64_t first = 0;
  const int32_t* places = nullptr;
  KvLayerRows out;

  OCELLUS_EVERYWHERE int64_t place(int64_t row) const { return places == nullptr ? first + row : places[row]; }
};
void round_kv(const RoundKvArgs& args, Queue& queue);

/// Copies chunk rows [0, count) of one layer into their cache slots: row t goes to slots[t], or is skipped if that has
/// no address.
///
/// Shapes    rows as above; slots [count], in device memory
/// Divisible E by 8; on CUDA all rows and slots start on 16 bytes
struct StoreKvArgs {
  KvLayerRows rows;
  int64_t count = 0;
  const KvSlot* slots = nullptr;
  int32_t layer = 0;
};
void store_kv(const StoreKvArgs& args, Queue& queue);

}  // namespace ocellus
