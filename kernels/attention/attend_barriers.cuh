// Barriers between groups of threads of one block on compute capability 9.0: see "mbarrier", "bar" and "setmaxnreg"
// in the PTX manual.
#pragma once

#include <cstdint>

#include "kernels/attention/attend_tile.cuh"

namespace ocellus::cuda {

/// A barrier in shared memory. It passes from phase to phase whenever all arrivals that it expects have come.
using Barrier = uint64_t;

__device__ inline void start_barrier(Barrier& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}
__device__ inline void arrive(Barrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(shared_address(&barrier)) : "memory");
}
/// Arrives as soon as all copies that this thread has begun are complete.
__device__ inline void arrive_after_copies(Barrier& barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];\n" ::"r"(shared_address(&barrier)) : "memory");
}
/// Waits for the end of the current phase if its number is odd or even as `phase`; the one before has ended otherwise.
__device__ inline void await(Barrier& barrier, uint32_t phase) {
  asm volatile(
      "{.reg .pred over;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
      "@!over bra again;}\n" ::"r"(shared_address(&barrier)),
      "r"(phase)
      : "memory");
}

/// Barriers without memory, by number from 1 on: `threads` meet there, of which some wait.
__device__ inline void wait_at(int number, int threads) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(number), "r"(threads) : "memory");
}
__device__ inline void arrive_at(int number, int threads) {
  asm volatile("bar.arrive %0, %1;\n" ::"r"(number), "r"(threads) : "memory");
}
/// All of `threads` wait. Returns true if any of them passed true.
__device__ inline bool any_at(int number, int threads, bool condition) {
  int any;
  asm volatile(
      "{.reg .pred own, all; setp.ne.b32 own, %3, 0;\n"
      "bar.red.or.pred all, %1, %2, own;\n"
      "selp.b32 %0, 1, 0, all;}\n"
      : "=r"(any)
      : "r"(number), "r"(threads), "r"(int{condition})
      : "memory");
  return any != 0;
}

/// Registers of each thread of a warpgroup from here on.
template <int kCount>
__device__ void give_registers_up() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kCount));
}
template <int kCount>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kCount));
}

}  // namespace ocellus::cuda
