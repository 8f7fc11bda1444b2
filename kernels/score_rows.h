#pragma once

#include "kernels/kv_run.h"
#include "kernels/rope.h"
#include "kernels/store_kv.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// How much attention the rows of a chunk get from its last r rows: column sums of the attention of those r queries,
///
///   scores[g][j] = mean over the H / G query heads h of g of  sum over i in the last r rows, i >= j, of A[h, i, j]
///
/// A: softmax over everything row i sees, which is every live slot of every run and the chunk's rows 0 .. i. SnapKV and
/// DAVID score with a short window; r = row_count gives H2O's and Elastic Cache's sums over all queries. Two passes
/// over the slots; never a matrix of rows by rows.
///
/// Shapes      query [r, H * E], rotated (rows may be strided): chunk rows row_count - r .. row_count - 1; rows: the
///             chunk's keys [G, capacity, E], values are not read; scores [G, >= row_count]; runs [run_count] in the
///             device's memory, on CUDA of at most kTileSlots slots each
/// Packed      on the CPU runs may be packed or shifted. On CUDA runs are f16 and not shifted: expand_kv makes copies
///             of those that are not. Runs marked `calibrated` are calibrated if that is on, on both
/// Types       query activations, keys f16; CPU: all arithmetic in f32. CUDA: products of f16, the rest in f32
/// Divisible   E by 8, E <= 256; H by G; H / G <= 64; on CUDA all rows start on 16 bytes
/// Scratch     score_rows_scratch_bytes(r, row_count, H, E, traits)
/// Determinism the same bits whatever the number of threads
/// Special     where a query or key is not a number, scores of the rows that it touches are not numbers. r = 0: zeros
/// Errors      kInternal in the queue if scratch is too small, on CUDA kUnsupported for E > 256
struct ScoreRowsArgs {
  ActivationView query;
  int32_t query_heads = 0;
  KvLayerRows rows;
  int64_t row_count = 0;
  const KvRun* runs = nullptr;
  int32_t run_count = 0;
  KvLayer layer = {};
  RopeParams rope = {};  // for shifted runs
  KvCalibration calibration = {};
  DeviceView<float> scores;
  DeviceView<std::byte> scratch;
};

/// For at most `window` query rows and `row_count` rows.
int64_t score_rows_scratch_bytes(int64_t window, int64_t row_count, int32_t query_heads, int32_t head_dim,
                                 const DeviceTraits& device);

void score_rows(const ScoreRowsArgs& args, Queue& queue);

}  // namespace ocellus
