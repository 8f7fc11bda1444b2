#include "kernels/backends.h"
#include "kernels/base/launch.cuh"
#include "kernels/base/row_access.cuh"
#include "kernels/rows/rope.h"
#include "kernels/rows/rope_angles.cuh"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kUnits = RowPieces::kUnitsPerThread;
constexpr int kWidePairs = 4;
constexpr int kPairThreads = 64;
constexpr int64_t kRowsPerThread = 4;

/// A thread computes one pair's power once, for a few rows.
__global__ void fill_angles(const int32_t* positions, int64_t position_stride, int coordinates, int64_t count,
                            RopeParams params, double octaves, float* angles, int64_t angle_stride) {
  const int pair = static_cast<int>(blockIdx.y * kPairThreads + threadIdx.x);
  const bool live = pair < params.rotated / 2;
  const double step = live ? angle_step(params, octaves, pair) : 0;
  wait_for_inputs();
  let_next_start();
  if (!live) return;
  if (coordinates > 1) positions += params.sections.coordinate_of(pair);
  const int64_t first = blockIdx.x * kRowsPerThread;
  for (int64_t t = first; t < count && t < first + kRowsPerThread; ++t) {
    const float2 turn = turn_at(positions[t * position_stride], step);
    float* out = angles + t * angle_stride + 2 * pair;
    out[0] = turn.x;
    out[1] = turn.y;
  }
}

/// kPairs pairs of one head: channels a and b, and their places.
template <RopePairing kPairing, int kPairs>
struct Pairs {
  float a[kPairs], b[kPairs], angles[2 * kPairs];

  /// `x` is the first pair's first channel, `half` the distance of the halves.
  __device__ void load(const __half* x, int half, const float* turns) {
    if constexpr (kPairing == RopePairing::kHalves) {
      load_values(x, a);
      load_values(x + half, b);
    } else if constexpr (kPairs == 1) {
      a[0] = __half2float(x[0]);
      b[0] = __half2float(x[1]);
    } else {
      float both[2 * kPairs];
      load_values(x, both);
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        a[i] = both[2 * i];
        b[i] = both[2 * i + 1];
      }
    }
    if constexpr (kPairs == 1) {
      angles[0] = turns[0];
      angles[1] = turns[1];
    } else {
      load_values(turns, angles);
    }
  }
  __device__ void turn() {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const float cosine = angles[2 * i], sine = angles[2 * i + 1];
      const float turned = a[i] * cosine - b[i] * sine;
      b[i] = a[i] * sine + b[i] * cosine;
      a[i] = turned;
    }
  }
  __device__ void store(__half* x, int half) const {
    if constexpr (kPairing == RopePairing::kHalves) {
      store_values(x, a);
      store_values(x + half, b);
    } else if constexpr (kPairs == 1) {
      x[0] = round_half(a[0]);
      x[1] = round_half(b[0]);
    } else {
      float both[2 * kPairs];
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        both[2 * i] = a[i];
        both[2 * i + 1] = b[i];
      }
      store_values(x, both);
    }
  }
};

/// A unit is kPairs pairs of one head. Every second head takes the angles from `odd_angles` on.
template <RopePairing kPairing, int kPairs>
__global__ void rotate_rows(__half* values, int64_t stride, const float* angles, int64_t angle_stride, int head_dim,
                            int half, int odd_angles, int units, unsigned pieces) {
  const RowPlace place(pieces);
  values += place.row * stride;
  angles += place.row * angle_stride;
  const int units_per_head = half / kPairs;
  Pairs<kPairing, kPairs> pairs[kUnits];
  __half* x[kUnits];
  wait_for_inputs();
  let_next_start();
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int unit = static_cast<int>(place.first + i * place.step);
    if (unit >= units) continue;
    const int pair = unit % units_per_head * kPairs, head = unit / units_per_head;
    x[i] = values + head * head_dim + (kPairing == RopePairing::kAdjacent ? 2 * pair : pair);
    pairs[i].load(x[i], half, angles + 2 * pair + head % 2 * odd_angles);
  }
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    if (place.first + i * place.step >= units) continue;
    pairs[i].turn();
    pairs[i].store(x[i], half);
  }
}

template <RopePairing kPairing, int kPairs>
void turn_rows(const RotateArgs& args, int odd_angles, Queue& queue) {
  const int half = args.params.rotated / 2;
  const int units = static_cast<int>(args.values.cols / args.head_dim) * (half / kPairs);
  const RowPieces pieces(args.values.rows, units);
  launch<rotate_rows<kPairing, kPairs>>(queue, "rotate", {.grid = pieces.blocks, .threads = pieces.threads},
                                        half_data(args.values), args.values.stride, args.angles.data,
                                        args.angles.stride, args.head_dim, half, odd_angles, units, pieces.per_row);
}

template <RopePairing kPairing>
void turn_pairing(const RotateArgs& args, int odd_angles, Queue& queue) {
  // Values per access: kWidePairs channels of a half, or as many adjacent pairs.
  constexpr int kValues = kPairing == RopePairing::kAdjacent ? 2 * kWidePairs : kWidePairs;
  if (args.params.rotated / 2 % kWidePairs == 0 && args.head_dim % kValues == 0 && takes_wide(args.values, kValues) &&
      takes_wide(args.angles, 2 * kWidePairs))
    turn_rows<kPairing, kWidePairs>(args, odd_angles, queue);
  else
    turn_rows<kPairing, 1>(args, odd_angles, queue);
}

/// Either half of a head turns like a head of its own.
void turn_quarters(RotateArgs args, Queue& queue) {
  const int odd_angles = args.params.rotated / 2;
  args.head_dim /= 2;
  args.params.rotated /= 2;
  turn_pairing<RopePairing::kHalves>(args, odd_angles, queue);
}

}  // namespace

void rope_angles(const RopeAnglesArgs& args, Queue& queue) {
  const RopeParams& params = args.params;
  const dim3 grid(static_cast<unsigned>(divide_up(args.count, kRowsPerThread)),
                  static_cast<unsigned>(divide_up(params.rotated / 2, kPairThreads)));
  launch<fill_angles>(queue, "rope_angles", {.grid = grid, .threads = kPairThreads}, args.positions,
                      args.position_stride, args.coordinates, args.count, params, octaves_per_pair(params),
                      args.angles.data, args.angles.stride);
}

void rotate(const RotateArgs& args, Queue& queue) {
  if (!is_half(args.values, "rotate", queue)) return;
  switch (args.params.pairing) {
    case RopePairing::kAdjacent: return turn_pairing<RopePairing::kAdjacent>(args, 0, queue);
    case RopePairing::kHalves: return turn_pairing<RopePairing::kHalves>(args, 0, queue);
    case RopePairing::kQuarters: return turn_quarters(args, queue);
  }
}

}  // namespace cuda
}  // namespace ocellus
