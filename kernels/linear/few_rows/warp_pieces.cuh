// Pieces of weight rows: how the warps of FewRowsPlan::kPerWarp share, divide and fetch rows, and the input rows
// divided in the same way. Each lane takes a unit of a piece: two neighbouring groups of 32 (one for Q8_0), or eight or
// sixteen plain weights.
#pragma once

#include "kernels/linear/few_rows/tensor_step.cuh"

namespace ocellus::cuda {

/// Maximum warps of a block; choose_warps() may take fewer.
inline constexpr int kMostWarps = 32;

template <WeightFormat kFormat>
struct Piece {
  static constexpr bool kPlain = is_plain(kFormat), kAligned = Step<kFormat>::kAligned;
  static constexpr int kUnitGroups = kFormat == WeightFormat::kQ8_0 ? 1 : 2;  // codes
  static constexpr int kWeights = kPlain ? kFormat == WeightFormat::kF32 ? 256 : 512 : kWarp * kUnitGroups * 32;
  static constexpr int kBytes = kWeights / Step<kFormat>::kWeights * Step<kFormat>::kBytes;
  static constexpr int kSlotBytes = kAligned ? kBytes : (kBytes + 15 + 15) / 16 * 16;
  /// Number of pieces in a warp's ring. 32 rings and an input row of 14336 fit a multiprocessor.
  static constexpr int kRing = 5840 / kSlotBytes;
  static_assert(kBytes % 16 == 0 && kRing >= 3);
};

/// Input rows in the order of the lanes: codes by piece, group of the unit, half of the group, and lane, 16 bytes each,
/// so that neighbouring lanes read neighbouring bytes; scales likewise. Plain: rows of f16.
template <WeightFormat kFormat>
struct LaneRows {
  using Part = Piece<kFormat>;
  uint8_t* values = nullptr;
  float2* scales = nullptr;  // as in RoundedRows
  int pieces = 0;

  static constexpr int kPieceBytes = Part::kPlain ? 2 * Part::kWeights : Part::kWeights;
  static constexpr int kPieceScales = Part::kPlain ? 0 : Part::kWeights / 32;
  template <bool kPlain>
  __device__ uint8_t* value_at(int t, int group, int word) const {
    uint8_t* row = values + t * pieces * kPieceBytes;
    if constexpr (kPlain) return row + 64 * group + 8 * word;
    const int unit = group / Part::kUnitGroups, within = group % Part::kUnitGroups;
    return row + ((unit / kWarp * Part::kUnitGroups + within) * 2 + word / 4) * 16 * kWarp + unit % kWarp * 16 +
           word % 4 * 4;
  }
  __device__ float2* scale_at(int t, int group) const {
    const int unit = group / Part::kUnitGroups, within = group % Part::kUnitGroups;
    return scales + t * pieces * kPieceScales + (unit / kWarp * Part::kUnitGroups + within) * kWarp + unit % kWarp;
  }
};

/// The weight rows that this warp multiplies, one after the other. Gated: rows of the first and the second matrix
/// alternate.
struct WarpRows {
  __device__ explicit WarpRows(const FewRowsWork& work) {
    const int block = static_cast<int>(blockIdx.x), warp = static_cast<int>(threadIdx.x) / kWarp;
    const int more = block < work.share.blocks_with_more ? 1 : 0;
    begin = block * work.share.rows + min(block, work.share.blocks_with_more);
    left = work.share.rows + more - warp;
    begin += warp;
    find(work);
  }
  /// Finds the row `begin` rows into the first matrix.
  __device__ void find(const FewRowsWork& work) {
    row = begin;
    matrix = 0;
    if (!work.gated)
      while (matrix + 1 < work.count && row >= work.matrices[matrix].rows) row -= work.matrices[matrix++].rows;
    weights = work.matrices[matrix].weights + row * work.row_bytes;
  }
  __device__ bool exists() const { return left > 0; }
  __device__ void advance(const FewRowsWork& work) {
    if (work.gated) {
      matrix ^= 1;
      weights = work.matrices[matrix].weights;
      if (matrix == 0) row += static_cast<int>(blockDim.x) / kWarp, left -= static_cast<int>(blockDim.x) / kWarp;
      weights += row * work.row_bytes;
      return;
    }
    const int warps = static_cast<int>(blockDim.x) / kWarp;
    left -= warps;
    begin += warps;
    row += warps;
    weights += warps * work.row_bytes;
    if (row >= work.matrices[matrix].rows && left > 0) find(work);
  }
  const uint8_t* weights = nullptr;
  int matrix = 0;
  int row = 0;    // index in the matrix
  int begin = 0;  // index over all matrices
  int left = 0;   // remaining rows of the block, including this one
};

/// Starts the copy of a piece. Its offset in the slot, modulo 16, is that in the matrix.
template <WeightFormat kFormat>
__device__ inline void fetch_piece(const FewRowsWork& work, const WarpRows& row, int piece, uint32_t slot) {
  using Part = Piece<kFormat>;
  const int at = piece * Part::kBytes, lane = static_cast<int>(threadIdx.x) % kWarp;
  const uint8_t* source = row.weights + at;
  const int beyond = beyond_sixteen<kFormat>(source);
  const int bytes = min(Part::kBytes, static_cast<int>(work.row_bytes) - at) + beyond - 16 * lane;
  source += 16 * lane - beyond;
#pragma unroll
  for (int i = 0; i < Part::kSlotBytes; i += 16 * kWarp) {
    if constexpr (Part::kAligned) {
      if (i < bytes) copy_piece(slot + static_cast<uint32_t>(16 * lane + i), source + i);
    } else {
      if (i < bytes) copy_piece(slot + static_cast<uint32_t>(16 * lane + i), source + i, min(16, bytes - i));
    }
  }
}

template <WeightFormat kFormat>
struct PieceFetcher {
  __device__ explicit PieceFetcher(const FewRowsWork& work) : row(work) {}
  __device__ void fetch(const FewRowsWork& work, int pieces, uint32_t slot) {
    if (row.exists()) {
      fetch_piece<kFormat>(work, row, piece, slot);
      if (++piece == pieces) {
        piece = 0;
        row.advance(work);
      }
    }
    close_copies();
  }
  WarpRows row;
  int piece = 0;
};

}  // namespace ocellus::cuda
