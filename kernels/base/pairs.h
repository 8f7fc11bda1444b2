#pragma once

namespace ocellus {

#if defined(__x86_64__)
/// True if vectors multiply pairs of bf16 faster than floats (AVX512_BF16): twice as fast on Zen 4, half as fast on
/// Sapphire Rapids.
inline bool has_pair_products() {
  static const bool has = __builtin_cpu_supports("avx512bf16") != 0 && __builtin_cpu_is("amd") != 0;
  return has;
}
#else
constexpr bool has_pair_products() { return false; }
#endif

}  // namespace ocellus
