#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/cache/carry_change.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 256;

__device__ float2 load_pair(const Half* row, const ChannelPair& at) {
  const __half* values = reinterpret_cast<const __half*>(row);
  return make_float2(__half2float(values[at.first]), __half2float(values[at.second]));
}

__device__ void add_to_pair(Half* row, const ChannelPair& at, float2 change) {
  __half* values = reinterpret_cast<__half*>(row);
  values[at.first] = round_half(__half2float(values[at.first]) + change.x);
  values[at.second] = round_half(__half2float(values[at.second]) + change.y);
}

/// Returns (cosine, sine) of a pair in a row of angles.
__device__ float2 turn_of(const float* angles, int pair, const ChannelPair& at) {
  return at.rotates ? reinterpret_cast<const float2*>(angles)[pair] : make_float2(1.0f, 0.0f);
}
__device__ float2 rotate_by(float2 turn, float2 x) {
  return make_float2(x.x * turn.x - x.y * turn.y, x.y * turn.x + x.x * turn.y);
}
__device__ float2 rotate_back(float2 turn, float2 x) { return rotate_by(make_float2(turn.x, -turn.y), x); }

/// A block takes one head of one image. To compute the change a thread takes pairs of channels, each over all rows in
/// place; to apply it, pairs of the other slots.
__global__ void __launch_bounds__(kThreads) carry_head(const __grid_constant__ CarryChangeArgs a) {
  extern __shared__ float2 changes[];  // [3, pairs]: change of keys, of keys as copies are rotated, of values
  wait_for_inputs();
  let_next_start();
  const CarriedImage& image = a.images[blockIdx.x];
  if (image.in_place == 0) return;
  const int64_t head = blockIdx.y;
  const int dim = a.rows.head_dim, pairs = dim / 2;
  Half* const keys = run_keys(image.block, a.layer, head);
  Half* const values = run_values(image.block, a.layer, head);
  for (int pair = static_cast<int>(threadIdx.x); pair < pairs; pair += kThreads) {
    const ChannelPair at = ChannelPair::of(a.rope, pair);
    float2 dk = make_float2(0, 0), dv = make_float2(0, 0);
    for (int i = 0; i < image.in_place; ++i) {
      const int64_t r = a.rows_in_place[image.first_row + i], row = a.rows.at(a.place(r), head);
      const float2 now =
          rotate_back(turn_of(a.angles.data + r * a.angles.stride, pair, at), load_pair(a.rows.keys + row, at));
      const float* stored_angles = a.slot_angles.data + (image.first_angle + i) * a.slot_angles.stride;
      const float2 then =
          rotate_back(turn_of(stored_angles, pair, at), load_pair(keys + static_cast<int64_t>(i) * dim, at));
      const float2 value = load_pair(a.rows.values + row, at);
      const float2 stored_value = load_pair(values + static_cast<int64_t>(i) * dim, at);
      dk = make_float2(dk.x + (now.x - then.x), dk.y + (now.y - then.y));
      dv = make_float2(dv.x + (value.x - stored_value.x), dv.y + (value.y - stored_value.y));
    }
    const float share = 1.0f / static_cast<float>(image.in_place);
    dk = make_float2(dk.x * share, dk.y * share);
    changes[pair] = dk;
    changes[pairs + pair] =
        rotate_by(turn_of(a.slot_angles.data + image.shift_angle * a.slot_angles.stride, pair, at), dk);
    changes[2 * pairs + pair] = make_float2(dv.x * share, dv.y * share);
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < (image.slots - image.in_place) * pairs; i += kThreads) {
    const int slot = image.in_place + i / pairs, pair = i % pairs;
    const ChannelPair at = ChannelPair::of(a.rope, pair);
    const float2 turn = turn_of(a.slot_angles.data + (image.first_angle + slot) * a.slot_angles.stride, pair, at);
    add_to_pair(keys + static_cast<int64_t>(slot) * dim, at, rotate_by(turn, changes[pair]));
    add_to_pair(values + static_cast<int64_t>(slot) * dim, at, changes[2 * pairs + pair]);
    if (image.first_copy < 0) continue;
    const int64_t copy = a.copies.at(image.first_copy + slot - image.in_place, head);
    add_to_pair(a.copies.keys + copy, at, rotate_by(turn, changes[pairs + pair]));
    add_to_pair(a.copies.values + copy, at, changes[2 * pairs + pair]);
  }
}

}  // namespace

void carry_change(const CarryChangeArgs& args, Queue& queue) {
  const dim3 grid(static_cast<unsigned>(args.image_count), static_cast<unsigned>(args.rows.heads));
  const int shared_bytes = 3 * args.rows.head_dim / 2 * static_cast<int>(sizeof(float2));
  launch<carry_head>(queue, "carry_change", {.grid = grid, .threads = kThreads, .shared_bytes = shared_bytes}, args);
}

}  // namespace cuda
}  // namespace ocellus
