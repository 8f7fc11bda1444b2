#pragma once

#include "kernels/attention/past_runs.h"
#include "kernels/rows/store_kv.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Chunk rows [begin, end).
struct RowSpan {
  int32_t begin = 0;
  int32_t end = 0;
};

template <>
struct TypeName<RowSpan> {
  static constexpr const char* value = "span";
};

/// Which of the chunk's own rows each query row sees. The first two are computed where they are needed and read
/// nothing; windows, pictures whose rows see each other, and blocks are lists, made once for all layers.
struct RowBounds {
  enum class Kind : uint8_t {
    kCausal,  // row t: [0, first_row + t + 1)
    kAll,     // all rows: [0, row_count)
    kListed   // row t: spans[t]
  };
  Kind kind = Kind::kCausal;
  /// [T] in the device's memory. None is empty, each ends at row_count at the latest; neither begins nor ends go back
  /// from one row to the next.
  const RowSpan* spans = nullptr;

  static constexpr RowBounds causal() { return {}; }
  static constexpr RowBounds all() { return {Kind::kAll, nullptr}; }
  static constexpr RowBounds listed(const RowSpan* spans) { return {Kind::kListed, spans}; }
};

/// Values of a bias are read in groups of this; those after the last row have no effect if they are numbers.
inline constexpr int64_t kRowBiasUnit = 64;

/// Attention of many query rows: out[t] = softmax over visible slots of (q[t] . k / sqrt(E)) times v, per query head;
/// head h reads key/value head h / (H / G). Query row t is row first_row + t of the chunk. Visible: every live slot
/// of every run with visible_from <= first_row + t (0 where rows see all rows), and chunk rows within its bounds. Text
/// prefill runs causally in blocks of rows over one chunk (first_row > 0); in the vision tower rows see all rows, there
/// are no runs, and there may be several sequences: query rows s * row_count .. belong to sequence s and see its rows
/// only.
///
/// Shapes      query [sequences * T, H * E] (rows may be strided); chunk rows in KvLayerRows; out the same;
///             runs [run_count] in device memory, on CUDA of at most kTileSlots slots each
/// Packed      on the CPU runs may be packed or shifted, and packed ones are calibrated on request. On CUDA runs are
///             f16 and not shifted: expand_kv copies the others, to be marked `calibrated` if they were packed.
///             Calibration takes a second pass over the runs' keys there, and covers the slots that a row sees
/// Weights     row_bias [row_count, rounded up to kRowBiasUnit] in device memory, aligned to 8 bytes, or null: added to
///             the scores q . k / sqrt(E) of the chunk's own rows. The logarithm of a number counts a row that often
///             (proportional attention: Bolya et al. 2023, equation 1). Only with one sequence
/// Types       query, out activations. CPU: keys and values f16 read as f32, all arithmetic in f32; factors of products
///             rounded to bf16 with CpuMath::kBf16 if has_pair_products(). CUDA: products of f16 (weights of the values
///             rounded to f16), softmax (running maximum) and sums in f32
/// Divisible   E by 8, E <= kMaxHeadDim on CUDA and with shifted runs; H by G; H / G <= 64; on CUDA all rows start at
///             multiples of 16 bytes; sequences > 1 only without runs and causality, with first_row 0
/// Aliasing    out may not overlap query
/// Scratch     attend_rows_scratch_bytes(E, traits); never a T x T matrix
/// Determinism the same bits whatever the number of threads
/// Errors      kInternal in the queue if scratch, or on CUDA the calibration's, is too small
struct AttendRowsArgs {
  ActivationView query;
  int32_t query_heads = 0;
  KvLayerRows rows;
  int64_t first_row = 0;
  int64_t row_count = 0;  // chunk rows that hold keys, at least first_row + T; not looked at if causal
  RowBounds bounds = {};
  const float* row_bias = nullptr;
  PastRuns past = {};
  int64_t sequences = 1;
  DeviceView<float> calibration_scratch = {};  // [T, 2 H], CUDA only, if the calibration is on
  ActivationView output;
  DeviceView<std::byte> scratch;
};

int64_t attend_rows_scratch_bytes(int32_t head_dim, const DeviceTraits& device);

void attend_rows(const AttendRowsArgs& args, Queue& queue);

}  // namespace ocellus
