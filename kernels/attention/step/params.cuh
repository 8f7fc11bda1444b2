// Parameters of the kernels of attend_step, by subject. fill_params.cuh fills them in.
#pragma once

#include "kernels/attention/attend_step.h"
#include "kernels/attention/step/plan.h"
#include "kernels/base/launch.cuh"

namespace ocellus::cuda {

inline constexpr int kStepHeads = static_cast<int>(kAttendStepHeads);
inline constexpr int kStepWarps = static_cast<int>(kAttendStepWarps);
inline constexpr int kStepThreads = kStepWarps * kWarp;

/// Inputs and outputs of the call, one row per session. Strides in values.
struct StepInputs {
  const __half* query;  // [B, H * E]
  const __half* key;    // [B, G * E], like value
  const __half* value;
  int64_t query_stride, key_stride, value_stride;
  const float* angles;  // [B, rotated]
  int64_t angle_stride;
  __half* output;  // [B, H * E]
  int64_t output_stride;
};

/// Division of the heads.
struct StepHeads {
  float scale;         // scale of queries, so that scores are powers of two: exp(x) = 2^(x log2 e)
  int shared_by, dim;  // query heads per key/value head; channels
  int per_block;       // query heads of a block
  int tiles;           // blocks that share a key/value head's tiles
  int kv;
};

/// Input of the angles of shifted tiles.
struct StepRotation {
  int rotated;
  RopePairing pairing;
  double octaves_per_pair;
  float position_scale;
  const float* factors;
};

/// Results of pieces, which the last block of a row combines. A group of blocks shares a row and its query heads.
struct StepPartials {
  float4* mixed;    // [groups, pieces, heads, E / 4]
  float2* weighed;  // [groups, pieces, heads]: maximum score, sum of weights
  uint32_t* done;   // [groups]
};

struct StepCalibrationParams {
  uint32_t* ranges;         // [groups, kAttendStepRangeWords]; null, and zeros, without calibration
  float tau_low, tau_high;  // in the unit of the scores, powers of two
};

/// Storage of the layer, from its KvLayer.
struct StepStorage {
  int index, scale_bytes;              // scale_bytes: before the codes of packed tiles
  int key_row_bytes, value_row_bytes;  // bytes of a slot's codes in packed tiles
  KvScaleForm scales;                  // scales, format and offset of packed tiles
  KvFormat format;
  int64_t offset;  // offset of the layer in their data
};

struct StepParams {
  StepInputs rows;
  StepTiles tiles;
  StepPartials partials;
  StepHeads heads;
  StepStorage layer;
  bool cache_settled;
  bool batch_invariant;
  StepRotation rope;
  StepCalibrationParams calibration;
};

}  // namespace ocellus::cuda
