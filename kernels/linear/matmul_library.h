// MatmulLibrary: what the CUDA matrix product of many rows keeps between calls: the cuBLASLt handle, and for every
// shape it has met the algorithm chosen for it. While an engine is set up, each shape is run once (a shape: outputs,
// inputs, the rows rounded up to a power of two, types, epilogue); freeze() then ends the learning, after which nothing
// is chosen or loaded any more. Choosing looks at shapes only and measures nothing, so that it may happen while a
// stream is recorded, too; run a shape before it is recorded all the same, as its kernels are loaded then.
#pragma once

#include <memory>

#include "platform/device.h"
#include "platform/status.h"

namespace ocellus {

class MatmulLibrary {
 public:
  static Status create(CudaDevice& device, std::unique_ptr<MatmulLibrary>* out);
  ~MatmulLibrary();
  MatmulLibrary(const MatmulLibrary&) = delete;
  MatmulLibrary& operator=(const MatmulLibrary&) = delete;

  /// From now on a shape that was not met before fails with kInternal, except that fewer rows run by the plan of the
  /// next larger number that was met.
  void freeze();

  struct State;
  State& state() { return *state_; }

 private:
  MatmulLibrary() = default;
  State* state_ = nullptr;
};

}  // namespace ocellus
