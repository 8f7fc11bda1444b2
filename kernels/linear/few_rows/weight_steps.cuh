// Division of the weights between blocks and warps, and their copies into shared memory.
//
// Each block takes an equal share of the weight rows, in sequence, sixteen at a time: a unit. A unit is divided along
// the columns into steps; the warps of a block take the steps of all its units in turn, so that together they read the
// matrix from front to back. Each warp fetches its steps into a ring of shared memory well before it needs them; the
// first ones even before the kernel that computes the input has ended.
#pragma once

#include <cstdint>

#include "kernels/base/device_math.cuh"
#include "kernels/linear/few_rows/work.cuh"
#include "kernels/linear/weight_codes_k.cuh"

namespace ocellus::cuda {

inline constexpr int kUnitRows = 16;
inline constexpr int kRingSteps = 2;  // steps of a warp's ring

/// The part of a row in one step.
template <WeightFormat kFormat>
struct Step {
  static constexpr bool kPlain = is_plain(kFormat);
  static constexpr int weights() {
    switch (kFormat) {
      case WeightFormat::kF32: return 32;
      case WeightFormat::kF16:
      case WeightFormat::kBF16: return 64;
      case WeightFormat::kQ8_0:
      case WeightFormat::kQ4_1:
      case WeightFormat::kQ5_0:
      case WeightFormat::kQ5_1: return 128;
      default: return 256;
    }
  }
  static constexpr int bytes() {
    if constexpr (kPlain)
      return 128;
    else
      return weights() / Blocks<kFormat>::kElements * Blocks<kFormat>::kBytes;
  }
  static constexpr int kWeights = weights(), kBytes = bytes(), kGroups = kWeights / 32;
  /// True if every row and step starts at a multiple of 16.
  static constexpr bool kAligned = kPlain || kFormat == WeightFormat::kQ4_K || kFormat == WeightFormat::kQ5_K;
  /// Maximum number of 16-byte pieces that a step touches in one row.
  static constexpr int kPieces = kAligned ? kBytes / 16 : (kBytes + 15 + 15) / 16;
  static constexpr int kLanesPerRow = kPieces <= 8 ? 8 : 16;
  static_assert(kPieces <= 16);
  /// Warps of a block with ample shared memory.
  static constexpr int kWarps = kFormat == WeightFormat::kQ6_K ? 12 : 16;
};

/// Up to sixteen rows of one matrix.
struct Unit {
  const uint8_t* weights = nullptr;
  int matrix = 0;
  int first = 0;  // row of the matrix
  int count = 0;  // 0: no more units
};

/// Finds the rows of this block from its `index`-th `most` rows on, all of one matrix; none if the block has fewer.
/// Gated: of the first matrix.
__device__ inline Unit find_rows(const FewRowsWork& work, int index, int most) {
  const int block = static_cast<int>(blockIdx.x);
  const int first = block * work.share.rows + min(block, work.share.blocks_with_more);
  const int last = first + work.share.rows + (block < work.share.blocks_with_more ? 1 : 0);
  Unit rows;
  if (work.gated) {
    rows.first = first + most * index;
    rows.count = last - rows.first;
    return rows;
  }
  int begin = 0;  // first row of the matrix among all rows
  for (int i = 0; i < work.count; ++i) {
    const int from = max(first, begin) - begin, to = min(last - begin, work.matrices[i].rows);
    const int units = to > from ? divide_up(to - from, most) : 0;
    if (index < units) {
      rows.matrix = i;
      rows.first = from + most * index;
      rows.count = to - rows.first;
      break;
    }
    index -= units;
    begin += work.matrices[i].rows;
  }
  return rows;
}

/// Returns unit `index` of this block. Gated: the rows of the first matrix and then the same rows of the second.
__device__ inline Unit find_unit(const FewRowsWork& work, int index) {
  Unit unit = find_rows(work, work.gated ? index >> 1 : index, kUnitRows);
  if (work.gated) unit.matrix = index & 1;
  unit.count = max(0, min(kUnitRows, unit.count));
  unit.weights = work.matrices[unit.matrix].weights + unit.first * work.row_bytes;
  return unit;
}

/// Copies 16 bytes into shared memory; or `bytes` of them, and zeros for the rest.
__device__ inline void copy_piece(uint32_t to, const uint8_t* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline void copy_piece(uint32_t to, const uint8_t* from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ inline void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Offset of an address after a multiple of 16.
template <WeightFormat kFormat>
__device__ inline int beyond_sixteen(const uint8_t* p) {
  return Step<kFormat>::kAligned ? 0 : static_cast<int>(reinterpret_cast<uintptr_t>(p) & 15);
}

/// Starts the copy of one step into a slot of the ring. Row r starts at r pitch plus its source's offset modulo 16.
/// Plain rows are 128 bytes long; odd ones have their halves exchanged, so that eight lanes read 128 bytes from all
/// banks.
template <WeightFormat kFormat>
__device__ inline void fetch_step(const FewRowsWork& work, const Unit& unit, int step, uint32_t slot) {
  using Shape = Step<kFormat>;
  constexpr int kRowsAtOnce = kWarp / Shape::kLanesPerRow;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int piece = lane % Shape::kLanesPerRow, row = lane / Shape::kLanesPerRow;
  const int rows = unit.count - row;  // rows of this lane, those at multiples of kRowsAtOnce
  const int64_t at = int64_t{step} * Shape::kBytes, stride = kRowsAtOnce * work.row_bytes;
  const int bytes = static_cast<int>(min(int64_t{Shape::kBytes}, work.row_bytes - at)) - 16 * piece;
  const uint8_t* source = unit.weights + at + row * work.row_bytes + 16 * piece;
  const int place = Shape::kPlain ? piece ^ ((row & 1) << 2) : piece;
  uint32_t to = slot + static_cast<uint32_t>(row * work.pitch + 16 * place);
#pragma unroll
  for (int i = 0; i < kUnitRows; i += kRowsAtOnce) {
    if constexpr (Shape::kPlain) {  // zeros after the row
      if (i < rows) copy_piece(to, bytes > 0 ? source : unit.weights, max(0, min(16, bytes)));
    } else if constexpr (Shape::kAligned) {
      if (i < rows && piece < Shape::kPieces) copy_piece(to, source);
    } else {
      const auto address = reinterpret_cast<uintptr_t>(source);
      const int here = bytes + static_cast<int>(address & 15);  // from the multiple of 16 to the end of the step
      if (i < rows && here > 0)
        copy_piece(to, reinterpret_cast<const uint8_t*>(address & ~uintptr_t{15}), min(16, here));
    }
    to += static_cast<uint32_t>(kRowsAtOnce * work.pitch);
    source += stride;
  }
}

}  // namespace ocellus::cuda
