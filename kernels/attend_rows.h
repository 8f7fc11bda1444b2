#pragma once

#include "kernels/kv_run.h"
#include "kernels/store_kv.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Attention of many query rows: out[t] = softmax over visible slots of (q[t] . k / sqrt(E)) times v, per query head;
/// head h reads key/value head h / (H / G). Query row t is row first_row + t of the chunk. Visible: every live slot
/// of every run, then the chunk's own rows: 0 .. first_row + t if causal, else 0 .. row_count - 1. Text prefill runs
/// causally in blocks of rows over one chunk (first_row > 0); the vision tower is not causal and has no runs.
///
/// Shapes      query [T, H * E] f32 (rows may be strided); chunk rows in KvLayerRows; out [T, H * E]
/// Types       keys and values f16, read as f32; scores, softmax (running maximum) and sums in f32
/// Divisible   E by 8; H by G; H / G <= 64
/// Aliasing    out may not overlap query
/// Scratch     attend_rows_scratch_bytes(E, threads); never a T x T matrix
/// Determinism the same bits whatever the number of threads
/// Errors      kInternal in the queue if scratch is too small, or if a run's position shift is not 0: shifts have to
///             wait for linked segments
struct AttendRowsArgs {
  DeviceView<const float> query;
  int32_t query_heads = 0;
  KvLayerRows rows;
  int64_t first_row = 0;
  int64_t row_count = 0;  // chunk rows that hold keys, at least first_row + T; not looked at if causal
  const KvRun* runs = nullptr;
  int32_t run_count = 0;
  int32_t layer = 0;
  bool causal = true;
  DeviceView<float> output;
  DeviceView<std::byte> scratch;
};

int64_t attend_rows_scratch_bytes(int32_t head_dim, int thread_count);

void attend_rows(const AttendRowsArgs& args, Queue& queue);

}  // namespace ocellus
