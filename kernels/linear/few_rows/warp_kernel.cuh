// The few-row product of up to four input rows: every warp multiplies whole rows of weights, without tensor cores and
// without synchronising with other warps. A row is divided into pieces; a warp fetches its pieces into a ring of shared
// memory well before it needs them, the first ones even before the kernel that computes the input has ended. The warps
// of a block take its rows in turn, so that together they read the matrix from front to back.
#pragma once

#include "kernels/linear/activation.cuh"
#include "kernels/linear/few_rows/round_input.cuh"
#include "kernels/linear/few_rows/warp_pieces.cuh"

namespace ocellus::cuda {

__device__ inline int dot_of_codes(const Words<4>& words, const uint4& x, int sum) {
  sum = __dp4a(static_cast<int>(words[0]), static_cast<int>(x.x), sum);
  sum = __dp4a(static_cast<int>(words[1]), static_cast<int>(x.y), sum);
  sum = __dp4a(static_cast<int>(words[2]), static_cast<int>(x.z), sum);
  return __dp4a(static_cast<int>(words[3]), static_cast<int>(x.w), sum);
}

/// A lane's unit of a piece of codes.
template <WeightFormat kFormat, int kRows>
__device__ inline void multiply_code_piece(const uint8_t* weights, int piece, int groups, const LaneRows<kFormat>& x,
                                           int rows, float (&sums)[kRows]) {
  using Part = Piece<kFormat>;
  using Format = Blocks<kFormat>;
  using Rows = LaneRows<kFormat>;
  constexpr int kGroups = Part::kUnitGroups, kUnitsPerBlock = Format::kElements / 32 / kGroups;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int i = 0; i < kGroups; ++i) {
    if ((piece * kWarp + lane) * kGroups + i >= groups) break;
    const uint8_t* block;
    int group = 0;
    if constexpr (kUnitsPerBlock > 1) {
      block = weights + lane / kUnitsPerBlock * Format::kBytes;
      group = lane % kUnitsPerBlock * kGroups + i;
    } else {
      block = weights + (lane * kGroups + i) * Format::kBytes;
    }
    Words<4> low, high;
    Format::template codes<4>(block, group, 0, low, high);
    const GroupScale scale = Format::scale(block, group);
    const uint8_t* values = x.values + piece * Rows::kPieceBytes + (2 * i * kWarp + lane) * 16;
    const float2* scales = x.scales + piece * Rows::kPieceScales + i * kWarp + lane;
#pragma unroll
    for (int t = 0; t < kRows; ++t) {
      const int row = min(t, rows - 1) * x.pieces;
      const uint4 front = *reinterpret_cast<const uint4*>(values + row * Rows::kPieceBytes);
      const uint4 back = *reinterpret_cast<const uint4*>(values + row * Rows::kPieceBytes + 16 * kWarp);
      const float2 in = scales[row * Rows::kPieceScales];
      if constexpr (Format::kHalves) {
        const float first = exact_value(dot_of_codes(low, front, kExactBits));
        const float second = exact_value(dot_of_codes(high, back, kExactBits));
        sums[t] = fmaf(in.x, scale.scale * first + scale.second * second, sums[t]);
      } else {
        const float value = exact_value(dot_of_codes(high, back, dot_of_codes(low, front, kExactBits)));
        sums[t] = fmaf(scale.scale * in.x, value, sums[t]);
        if constexpr (kHalfMinimums<kFormat>) {
          const uint2 number = Format::half_minimums(block, group);
          const Words<4> first = {number.x, number.x, number.x, number.x},
                         second = {number.y, number.y, number.y, number.y};
          const float minimum = exact_value(dot_of_codes(second, back, dot_of_codes(first, front, kExactBits)));
          sums[t] = fmaf(-scale.second * in.x, minimum, sums[t]);
        } else if constexpr (Format::kMinimum) {
          sums[t] = fmaf(-scale.second, in.y, sums[t]);
        }
      }
    }
  }
}

__device__ inline float dot_of_halves(uint32_t a, uint32_t b, float sum) {
  const float2 x = __half22float2(*reinterpret_cast<const __half2*>(&a));
  const float2 y = __half22float2(*reinterpret_cast<const __half2*>(&b));
  return fmaf(x.y, y.y, fmaf(x.x, y.x, sum));
}

template <WeightFormat kFormat, int kRows>
__device__ inline void multiply_plain_piece(const uint8_t* weights, int piece, int cols, const LaneRows<kFormat>& x,
                                            int rows, float (&sums)[kRows]) {
  using Part = Piece<kFormat>;
  constexpr int kEightBytes = Part::kBytes * 8 / Part::kWeights;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int i = 0; i < Part::kWeights / (8 * kWarp); ++i) {
    const int at = i * kWarp + lane, col = piece * Part::kWeights + 8 * at;
    if (col >= cols) break;
    const uint4 w = load_eight_halves<kFormat>(weights + at * kEightBytes);
#pragma unroll
    for (int t = 0; t < kRows; ++t) {
      const uint8_t* row = x.values + min(t, rows - 1) * x.pieces * LaneRows<kFormat>::kPieceBytes;
      const uint4 in = *reinterpret_cast<const uint4*>(row + 2 * col);
      sums[t] = dot_of_halves(w.y, in.y, dot_of_halves(w.x, in.x, sums[t]));
      sums[t] = dot_of_halves(w.w, in.w, dot_of_halves(w.z, in.z, sums[t]));
    }
  }
}

/// Values added to an output, read well before they are needed: by lane t for input row t.
struct Addends {
  __device__ Addends(const FewRowsWork& work, const WarpRows& row) {
    const int t = static_cast<int>(threadIdx.x) % kWarp;
    if (t >= work.input.rows) return;
    if (work.matrices[row.matrix].bias != nullptr) bias = work.matrices[row.matrix].bias[row.row];
    if (!work.accumulate) return;
    const FewRowsMatrix& matrix = work.matrices[work.gated ? 0 : row.matrix];
    const int64_t at = t * matrix.output_stride + row.row;
    before = matrix.half_output ? __half2float(static_cast<const __half*>(matrix.output)[at])
                                : static_cast<const float*>(matrix.output)[at];
  }
  float bias = 0;
  float before = 0;
};

/// Lane t writes the output of input row t.
__device__ inline void finish_warp_row(const FewRowsWork& work, const WarpRows& row, const Addends& addends,
                                       float value, float& gate) {
  const int t = static_cast<int>(threadIdx.x) % kWarp;
  value += addends.bias;
  if (work.gated && row.matrix == 0) {
    gate = value;
    return;
  }
  if (t >= work.input.rows) return;
  const FewRowsMatrix& matrix = work.matrices[work.gated ? 0 : row.matrix];
  const int64_t at = t * matrix.output_stride + row.row;
  value = (work.gated ? activated(gate, work.activation) * value : activated(value, work.activation)) + addends.before;
  if (matrix.half_output)
    static_cast<__half*>(matrix.output)[at] = round_half(value);
  else
    static_cast<float*>(matrix.output)[at] = value;
}

template <WeightFormat kFormat, int kRows>
__global__ void __launch_bounds__(kMostWarps* kWarp, 1) multiply_per_warp(const __grid_constant__ FewRowsWork work) {
  using Part = Piece<kFormat>;
  extern __shared__ uint4 shared_memory[];
  let_next_start();
  auto* shared = reinterpret_cast<uint8_t*>(shared_memory);
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const uint8_t* ring = shared + warp * Part::kRing * Part::kSlotBytes;
  const auto ring_address =
      static_cast<uint32_t>(__cvta_generic_to_shared(shared)) + warp * Part::kRing * Part::kSlotBytes;
  const int pieces = divide_up(work.input.cols, Part::kWeights);

  PieceFetcher<kFormat> fetcher(work);
  WarpRows row = fetcher.row;
#pragma unroll 1
  for (int i = 0; i < Part::kRing; ++i) fetcher.fetch(work, pieces, ring_address + i * Part::kSlotBytes);

  LaneRows<kFormat> x;
  x.values = shared + work.shared.values_at;
  x.scales = reinterpret_cast<float2*>(shared + work.shared.scales_at);
  x.pieces = pieces;
  take_input<Part::kPlain>(work.input, x, reinterpret_cast<float*>(shared + work.shared.room_at));

  int slot = 0;
  float gate = 0;
#pragma unroll 1
  for (; row.exists(); row.advance(work)) {
    const Addends addends(work, row);
    float sums[kRows] = {};
#pragma unroll 1
    for (int piece = 0; piece < pieces; ++piece) {
      wait_for_copies<Part::kRing - 1>();
      __syncwarp();
      const uint8_t* weights =
          ring + slot * Part::kSlotBytes + beyond_sixteen<kFormat>(row.weights + piece * Part::kBytes);
      if constexpr (Part::kPlain)
        multiply_plain_piece<kFormat, kRows>(weights, piece, work.input.cols, x, work.input.rows, sums);
      else
        multiply_code_piece<kFormat, kRows>(weights, piece, work.input.cols / 32, x, work.input.rows, sums);
      __syncwarp();
      fetcher.fetch(work, pieces, ring_address + slot * Part::kSlotBytes);
      slot = slot + 1 == Part::kRing ? 0 : slot + 1;
    }
    float value = 0;
#pragma unroll
    for (int t = 0; t < kRows; ++t) {
      const float sum = warp_sum(sums[t]);
      if (t == lane) value = sum;
    }
    finish_warp_row(work, row, addends, value, gate);
  }
}

}  // namespace ocellus::cuda
