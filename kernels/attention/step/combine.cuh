// The end of every attend_step kernel: combining the warps' results into the piece's, and the pieces' into the row's.
#pragma once

#include "kernels/attention/step/block.cuh"

namespace ocellus::cuda {

/// Counts to `last` and wraps around to 0; returns the count before. Orders the block's earlier writes and later reads
/// with those of the other blocks.
__device__ inline uint32_t count_up(uint32_t* counter, uint32_t last) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;\n"
               : "=r"(before)
               : "l"(__cvta_generic_to_global(counter)), "r"(last)
               : "memory");
  return before;
}

__device__ inline void add_scaled(float4& sum, float by, const float4& x) {
  sum.x += by * x.x;
  sum.y += by * x.y;
  sum.z += by * x.z;
  sum.w += by * x.w;
}
__device__ inline void store_output(__half* to, const float4& mixed, float sum) {
  const float by = 1.0f / sum;
  to[0] = round_half(mixed.x * by);
  to[1] = round_half(mixed.y * by);
  to[2] = round_half(mixed.z * by);
  to[3] = round_half(mixed.w * by);
}

/// The block's result, relative to its maximum: the output if the row has one piece, else the input of combine_pieces.
/// `shared` holds a warp's sums [heads, E / 4 + 1] every warp_stride units.
template <int kChunks>
__device__ inline void finish_piece(const StepParams& p, const StepPiece& piece, const StepRoom<kChunks>& room,
                                    const float4* shared, int warp_stride) {
  const int units = p.heads.dim / 4;
  const int64_t first = (int64_t{piece.group} * gridDim.x + blockIdx.x) * p.heads.per_block;
  for (int item = static_cast<int>(threadIdx.x); item < piece.heads * units; item += kStepThreads) {
    const int head = item / units, unit = item % units;
    // Warps without tiles have no result: the last result is read again with weight zero.
    float maximum = kNoScore, sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kStepWarps; ++w) maximum = fmaxf(maximum, room.maxima[min(w, piece.warps - 1)][head]);
    float4 mixed{};
#pragma unroll
    for (int w = 0; w < kStepWarps; ++w) {
      const int from = min(w, piece.warps - 1);
      const float factor = w == from ? exp2_of(room.maxima[from][head] - maximum) : 0.0f;
      sum += room.sums[from][head] * factor;
      add_scaled(mixed, factor, shared[from * warp_stride + head * (units + 1) + unit]);
    }
    if (piece.pieces == 1) {
      store_output(
          p.rows.output + piece.row * p.rows.output_stride + int64_t{piece.first_head} * p.heads.dim + 4 * item, mixed,
          sum);
      continue;
    }
    p.partials.mixed[(first + head) * units + unit] = mixed;
    if (unit == 0) p.partials.weighed[first + head] = make_float2(maximum, sum);
  }
}

/// True in the row's last block to arrive: all pieces can be read. Resets the counter.
__device__ inline bool all_pieces_done(const StepParams& p, const StepPiece& piece, int* is_last) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const uint32_t last = static_cast<uint32_t>(piece.pieces) - 1;
    *is_last = count_up(p.partials.done + piece.group, last) == last;
  }
  __syncthreads();
  return *is_last != 0;
}

/// Combines the row's pieces, always in the same order; kTogether of them are loaded at a time.
template <int kTogether>
__device__ inline void combine_pieces(const StepParams& p, const StepPiece& piece) {
  const int units = p.heads.dim / 4;
  for (int item = static_cast<int>(threadIdx.x); item < piece.heads * units; item += kStepThreads) {
    const int64_t first = int64_t{piece.group} * gridDim.x * p.heads.per_block + item / units;
    float maximum = kNoScore, sum = 0.0f;
    float4 mixed{};
    for (int begin = 0; begin < piece.pieces; begin += kTogether) {
      float2 weighed[kTogether];
      float4 parts[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int64_t from = first + int64_t{min(begin + i, piece.pieces - 1)} * p.heads.per_block;
        weighed[i] = __ldcg(p.partials.weighed + from);
        parts[i] = __ldcg(p.partials.mixed + from * units + item % units);
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const bool repeated = begin + i >= piece.pieces;
        const float larger = fmaxf(maximum, weighed[i].x);
        const float earlier = exp2_of(maximum - larger), factor = repeated ? 0.0f : exp2_of(weighed[i].x - larger);
        maximum = larger;
        sum = sum * earlier + weighed[i].y * factor;
        mixed = make_float4(mixed.x * earlier, mixed.y * earlier, mixed.z * earlier, mixed.w * earlier);
        add_scaled(mixed, factor, parts[i]);
      }
    }
    store_output(p.rows.output + piece.row * p.rows.output_stride + int64_t{piece.first_head} * p.heads.dim + 4 * item,
                 mixed, sum);
  }
}

/// Writes the result of an inactive row.
__device__ inline void clear_output(const StepParams& p, const StepPiece& piece) {
  wait_for_inputs();
  __half* output = p.rows.output + piece.row * p.rows.output_stride + int64_t{piece.first_head} * p.heads.dim;
  for (int i = static_cast<int>(threadIdx.x); i < piece.heads * p.heads.dim; i += kStepThreads)
    output[i] = __float2half_rn(0.0f);
}

}  // namespace ocellus::cuda
