#pragma once

#include "platform/queue.h"
#include "quant/weight_format.h"

namespace ocellus {

/// weights[i] = mean + a uniformly distributed random number of mean 0 and the given standard deviation
///
/// Shapes      weights [rows, cols] in a file format, rows contiguous
/// Types       F32, F16, BF16: as above. Block formats: every code is random, every block has the same scale (MXFP4:
///             one of two), chosen for the deviation (within 4%), and the minimum that gives mean 0 if the format has
///             one; mean is not used
/// Divisible   cols by the block size of the format; data aligned to 16
/// Determinism a function of the seed and of each weight's place, whatever the number of threads and the backend
///             (if both mean and deviation are given, the last bit may differ between backends)
struct FillWeightsArgs {
  uint8_t* data = nullptr;
  WeightFormat format = WeightFormat::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  float mean = 0;
  float deviation = 0;
  uint64_t seed = 0;
};

void fill_weights(const FillWeightsArgs& args, Queue& queue);

/// Returns the seed that gives rows from `row` on, a multiple of 8, the same bytes as in `whole`: for tensors that are
/// filled in parts.
uint64_t seed_at_row(const FillWeightsArgs& whole, int64_t row);

}  // namespace ocellus
