// Limits of CUDA devices that kernels are laid out for: "Compute Capabilities" in the CUDA C++ Programming Guide.
// tools/check_kernels.py checks those that only compiled kernels show.
#pragma once

namespace ocellus::cuda {

/// Maximum shared memory of a block, by compute capability: 87 for 8.7.
constexpr int most_shared_bytes(int capability) {
  if (capability < 90) return capability == 80 || capability == 87 ? 163 * 1024 : 99 * 1024;
  return capability < 120 ? 227 * 1024 : 99 * 1024;
}
/// As much as every device has.
inline constexpr int kLeastSharedBytes = most_shared_bytes(86);

}  // namespace ocellus::cuda
