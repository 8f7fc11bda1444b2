// One product by cuBLASLt, through the plans of a MatmulLibrary.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus::cuda {

/// out = gelu(x W^T + bias), or without gelu, or without bias; 8 divides cols; all addresses aligned to 16 bytes,
/// except that those of the outputs may be less aligned. May be recorded: it refers to device memory only.
struct LibraryProduct {
  const __half* input = nullptr;  // x [rows, cols]
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t input_stride = 0;
  const __half* weights = nullptr;  // W [output.cols, cols], rows contiguous
  const void* bias = nullptr;       // in the type of the outputs, or null
  bool gelu = false;                // the tanh form
  bool accumulate = false;          // adds to the outputs, before gelu
  ActivationView output;
  std::byte* workspace = nullptr;  // aligned to 256
  int64_t workspace_bytes = 0;
};

/// Returns false if cuBLASLt cannot do it in one step on this device: then nothing was done, and nothing failed. The
/// result is the same for all products of one kind.
bool multiply_by_library(const LibraryProduct& product, Queue& queue);

}  // namespace ocellus::cuda
