// Codes of packed rows, eight channels at a time, for any number of bits: for kernels that expand rows. Kernels that
// compute with the codes read them in words of their own (step/packed_codes.h).
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace ocellus::cuda {

inline constexpr int kCodeUnit = 8;  // channels; as many bytes as a code has bits

__device__ inline uint64_t load_code_unit(const uint8_t* from, int bits) {
  switch (bits) {
    case 8: return *reinterpret_cast<const uint64_t*>(from);
    case 4: return *reinterpret_cast<const uint32_t*>(from);
    case 2: return *reinterpret_cast<const uint16_t*>(from);
    default: return *from;
  }
}
/// Code i of a unit: a byte's first code is in its upper bits.
__device__ inline int code_in_unit(uint64_t unit, int bits, int i) {
  const int at = i * bits;
  return static_cast<int>(unit >> (at / 8 * 8 + 8 - bits - at % 8)) & ((1 << bits) - 1);
}

}  // namespace ocellus::cuda
