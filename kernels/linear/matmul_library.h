// MatmulLibrary: state of the CUDA matrix product of many rows between calls: the cuBLASLt handle, and the algorithm
// chosen for every shape so far. During engine setup, each shape is run once (a shape: outputs, inputs, the rows
// rounded up to a power of two, types, epilogue); freeze() then ends the learning, after which nothing is chosen or
// loaded. The choice depends on shapes only and measures nothing, so that it may also happen while a stream is
// recorded; run a shape before it is recorded all the same, because its kernels are loaded then.
#pragma once

#include <memory>

#include "platform/device.h"
#include "platform/queue.h"
#include "platform/status.h"

namespace ocellus {

class MatmulLibrary : public OpMemory, public SetUpObject {
 public:
  static Status create(CudaDevice& device, std::unique_ptr<MatmulLibrary>* out);
  ~MatmulLibrary();
  MatmulLibrary(const MatmulLibrary&) = delete;
  MatmulLibrary& operator=(const MatmulLibrary&) = delete;

  /// Ends learning: an unknown shape then fails with kInternal, except that fewer rows use the plan of the next larger
  /// known number.
  void freeze();

  struct State;
  State& state() { return *state_; }

 private:
  MatmulLibrary() = default;
  State* state_ = nullptr;
};

}  // namespace ocellus
