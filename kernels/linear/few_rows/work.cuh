// Parameters of the kernels of the few-row product: one launch.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/linear/few_rows/plan.h"
#include "kernels/linear/matmul.h"

namespace ocellus::cuda {

inline constexpr int kMaxMatricesOfWork = 3;

struct FewRowsMatrix {
  const uint8_t* weights = nullptr;
  const float* bias = nullptr;
  void* output = nullptr;
  int64_t output_stride = 0;
  int rows = 0;
  bool half_output = false;
};

struct FewRowsInput {
  const void* data = nullptr;
  int64_t stride = 0;
  const float* norm_weight = nullptr;
  float epsilon = 0;
  int rows = 0;  // T
  int cols = 0;  // K
  bool is_half = false;
  bool is_wide = false;  // four values can be read at once
};

/// Input rows in the order of the tensor cores, group of 32 by group; `columns` input rows are adjacent. Plain: 64
/// bytes of f16. Codes: words 0, 4, 1, 5, 2, 6, 3, 7 of the group's int8, and {scale, scale * sum of the codes}.
struct RoundedRows {
  uint8_t* values = nullptr;
  float2* scales = nullptr;
  int columns = 0;

  template <bool kPlain>
  __device__ uint8_t* value_at(int t, int group, int word) const {
    const int64_t place = int64_t{group} * columns + t;
    return values + (kPlain ? 64 * place + 8 * word : 32 * place + 4 * ((word & 3) * 2 + (word >> 2)));
  }
  __device__ float2* scale_at(int t, int group) const { return scales + int64_t{group} * columns + t; }
};

/// Division of the weight rows among blocks: the first blocks take one row more.
struct BlockShare {
  int rows = 0;
  int blocks_with_more = 0;
};

/// Places in a block's shared memory, after the rings.
struct FewRowsShared {
  int staged_bytes = 0;  // bytes of inputs rounded beforehand, scales after values, to copy there: all or none
  int values_at = 0, scales_at = 0, partials_at = 0, gates_at = 0, room_at = 0;
  bool two_buffers = false;  // two buffers of partial sums: units then need one barrier instead of two
};

/// The input of FewRowsPlan::kTiles: rows of f16 that start at multiples of 16 bytes.
struct TileInputRows {
  const __half* data = nullptr;
  int64_t stride = 0;
  int rows = 0, cols = 0;
};

/// Division of the work of a block of FewRowsPlan::kTiles among its warps (tile_units.cuh).
struct TileShare {
  TileInputRows input;
  int column_warps = 1;
  int groups = 1;
  int unit_rows = 16;
  int partials_at = 0;  // in shared memory, after the rings
};

struct FewRowsWork {
  FewRowsInput input;
  FewRowsMatrix matrices[kMaxMatricesOfWork];
  int count = 0;
  BlockShare share;
  int64_t row_bytes = 0;  // per weight row
  int pitch = 0;          // bytes between the rows of a step in the ring
  bool gated = false;
  bool accumulate = false;
  Activation activation = Activation::kNone;
  RoundedRows rounded;  // inputs rounded beforehand
  FewRowsShared shared;
  TileShare tiles;
};

}  // namespace ocellus::cuda
