#pragma once

#include <cmath>

#include "kernels/attention/past_runs.h"
#include "kernels/rows/store_kv.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Queries that score_rows counts.
enum class Observers : uint8_t { kAll, kVisual, kText };

/// Rows whose queries count.
struct ObservingRows {
  Observers kind = Observers::kAll;
  const uint8_t* is_visual = nullptr;  // [row_count], read if not all count
  /// [row_count + 1]: how many rows from each one on have a query; queries of the others are finite. Null: all have.
  const int32_t* readers = nullptr;
  float decay = 1;  // more than 0
  bool see_all = false;

  OCELLUS_EVERYWHERE bool has(int64_t row) const {
    if (readers != nullptr && readers[row] == readers[row + 1]) return false;
    return kind == Observers::kAll || (is_visual[row] != 0) == (kind == Observers::kVisual);
  }
  /// Weight of a row's attention if `last` is the chunk's last row.
  OCELLUS_EVERYWHERE float weight(int64_t row, int64_t last) const {
    return has(row) ? exp2f(static_cast<float>(last - row) * log2f(decay)) : 0.0f;
  }
};

/// Fact of the attention A of a row, summed over the rows that see it like its score:
///   kEntropy   -A ln A (MEDA)
///   kDensity   1 / (chunk rows that row i sees) if A is at least kDensityShare of the maximum attention of row i, else
///              0: over all j the share of rows that are not sparse (VL-Cache)
enum class AttentionFact : uint8_t { kNone, kEntropy, kDensity };
inline constexpr float kDensityShare = 0.01f;

/// Attention of a chunk's last r rows to its rows: column sums of the attention of those r queries,
///
///   scores[g][j] = mean over the H / G query heads h of g of  sum over i in the last r rows, i >= j, of A[h, i, j]
///
/// A: softmax over everything row i sees, which is every live slot of every run and the chunk's rows 0 .. i. SnapKV and
/// DAVID score with a short window; r = row_count gives H2O's and Elastic Cache's sums over all queries. Two passes
/// over the slots; never a matrix of rows by rows.
///
///   see_all     every query sees all of the chunk's rows, as in a vision tower: A[h, i, j] counts for all j, and the r
///               queries may be those of any rows. Without runs
///   observers   only queries of some rows count: those of the others are left out of the sums
///   decay       row i counts decay^(row_count - 1 - i) times: in the order of an exponential moving average over the
///               rows, whose constant factor 1 - decay is left out. 1: the sum. Without facts only
///   adds        the sums are added to what stands in `scores`
///   adds_one    A = e^x / (1 + sum of e^x) instead of softmax: the n-softmax of CSP
///   fact        facts[g][j] = the same mean and sum of the fact of A[h, i, j]
///
/// Shapes      query [r, H * E], rotated (rows may be strided): chunk rows row_count - r .. row_count - 1; rows: the
///             chunk's keys [G, capacity, E], values are not read; scores [G, >= row_count]; runs [run_count] in device
///             memory, on CUDA of at most kTileSlots slots each; facts [G, >= row_count], written if there is a fact
/// Packed      on the CPU runs may be packed or shifted. On CUDA runs are f16 and not shifted: expand_kv copies the
///             others. Runs marked `calibrated` are calibrated if that is on, on both
/// Types       query activations, keys f16; CPU: all arithmetic in f32. CUDA: products of f16, the rest in f32
/// Divisible   E by 8, E <= kMaxHeadDim; H by G; H / G <= 64; on CUDA all rows start on 16 bytes
/// Scratch     score_rows_scratch_bytes(r, row_count, H, E, traits)
/// Determinism the same bits whatever the number of threads
/// Special     a NaN in a query or key makes the scores of the rows that it touches NaN. r = 0: zeros
/// Errors      kInternal in the queue if scratch is too small, on CUDA kUnsupported for longer heads
struct ScoreRowsArgs {
  ActivationView query;
  int32_t query_heads = 0;
  KvLayerRows rows;
  int64_t row_count = 0;
  PastRuns past = {};
  ObservingRows observers;
  bool adds = false;
  bool adds_one = false;
  AttentionFact fact = AttentionFact::kNone;
  DeviceView<float> facts = {};
  DeviceView<float> scores;
  DeviceView<std::byte> scratch;
};

/// Scratch of at most `window` query rows and `row_count` rows.
int64_t score_rows_scratch_bytes(int64_t window, int64_t row_count, int32_t query_heads, int32_t head_dim,
                                 const DeviceTraits& device);

void score_rows(const ScoreRowsArgs& args, Queue& queue);

}  // namespace ocellus
