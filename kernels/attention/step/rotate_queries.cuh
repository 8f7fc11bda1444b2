// Queries for shifted tiles (KvRun::position_shift): rotated back by the shift. Rare, and so small rather than fast.
#pragma once

#include "kernels/attention/step/block.cuh"

namespace ocellus::cuda {

/// Fills `turned` [heads, kChannels + 8] with the room's queries rotated back by `shift` positions. The warp's lanes
/// call it together.
template <int kChunks>
__device__ inline void turn_queries(const StepParams& p, const StepRoom<kChunks>& room, int heads, int shift,
                                    __half* turned) {
  constexpr int kStride = StepRoom<kChunks>::kChannels + 8;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  __syncwarp();
#pragma unroll 1
  for (int pair = lane; pair < StepRoom<kChunks>::kChannels / 2; pair += kWarp) {
    float sine = 0.0f, cosine = 1.0f;
    const bool turns = pair < p.rope.rotated / 2;
    if (turns) {
      double step = exp2(p.rope.octaves_per_pair * pair) * static_cast<double>(p.rope.position_scale);
      if (p.rope.factors != nullptr) step /= static_cast<double>(__ldg(p.rope.factors + pair));
      const double circles = step * -shift * 0.15915494309189533577;  // 1 / (2 pi)
      sincospif(2.0f * static_cast<float>(circles - rint(circles)), &sine, &cosine);
    }
    const bool split = turns && p.rope.pairing == RopePairing::kHalves;
    const int first = split ? pair : 2 * pair, second = split ? pair + p.rope.rotated / 2 : 2 * pair + 1;
#pragma unroll 1
    for (int head = 0; head < heads; ++head) {
      const float x = __half2float(room.queries[head][first]), y = __half2float(room.queries[head][second]);
      turned[head * kStride + first] = round_half(x * cosine - y * sine);
      turned[head * kStride + second] = round_half(x * sine + y * cosine);
    }
  }
  __syncwarp();
}

/// Returns a head's query as score() takes it.
template <int kChunks>
__device__ inline void read_queries(const __half* query, int column, uint4 (&queries)[2 * kChunks]) {
#pragma unroll
  for (int i = 0; i < 2 * kChunks; ++i) queries[i] = *reinterpret_cast<const uint4*>(query + 32 * i + 8 * column);
}

}  // namespace ocellus::cuda
