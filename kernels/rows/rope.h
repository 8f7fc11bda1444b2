#pragma once

#include "platform/queue.h"
#include "platform/views.h"
#include "quant/kv_format.h"

namespace ocellus {

/// Channels of a head that form a pair: (2i, 2i+1), or (i, i + rotated/2). kQuarters: the second within either half of
/// the head, (i, i + rotated/4) and (rotated/2 + i, 3 rotated/4 + i), for `rotate` only.
enum class RopePairing : uint8_t { kAdjacent, kHalves, kQuarters };

/// Division of a head's pairs among the coordinates of a position (M-RoPE): time, line and column. Interleaved, the
/// pairs 3i + 1 belong to the lines and 3i + 2 to the columns, as many as their counts say, and all others to time;
/// otherwise the pairs of each coordinate are consecutive.
struct RopeSections {
  int32_t counts[3] = {};  // pairs of time, line and column; all 0: a position is one number
  bool interleaved = false;

  OCELLUS_EVERYWHERE bool used() const { return counts[0] + counts[1] + counts[2] > 0; }
  /// Returns the pair's coordinate: 0 time, 1 line, 2 column.
  OCELLUS_EVERYWHERE int32_t coordinate_of(int32_t pair) const {
    if (!interleaved) return pair < counts[0] ? 0 : pair < counts[0] + counts[1] ? 1 : 2;
    const int32_t coordinate = pair % 3;
    return coordinate > 0 && pair < 3 * counts[coordinate] ? coordinate : 0;
  }
};

/// Rotary position parameters of a model. angle(p, i) = p * position_scale * base^(-2i / rotated) / factors[i].
struct RopeParams {
  RopePairing pairing = RopePairing::kAdjacent;
  int32_t rotated = 0;  // rotated channels of a head, even, <= E
  float base = 10000.0f;
  float position_scale = 1.0f;     // 1 / factor for linear scaling
  const float* factors = nullptr;  // [rotated / 2] or null (rope_freqs of Llama 3)
  RopeSections sections = {};

  /// Numbers of a position: 1 or 3.
  OCELLUS_EVERYWHERE int32_t coordinates() const { return sections.used() ? 3 : 1; }
};

/// The two channels of a head's pair. Pairs after the rotated ones are adjacent channels, which stay unchanged.
struct ChannelPair {
  int32_t first, second;
  bool rotates;
  OCELLUS_EVERYWHERE static ChannelPair of(const RopeParams& rope, int32_t pair) {
    const bool rotates = 2 * pair < rope.rotated;
    if (!rotates || rope.pairing == RopePairing::kAdjacent) return {2 * pair, 2 * pair + 1, rotates};
    return {pair, pair + rope.rotated / 2, true};
  }
};

/// out[t] = cos and sin of every pair's angle, computed in f64 and rounded once:
/// out[t][2i] = cos(angle(positions[t], i)), out[t][2i + 1] = sin(...). Computed once per step, used by every layer.
///
/// With three coordinates, pair i takes the one of its section: positions[t][sections.coordinate_of(i)].
///
/// Shapes    positions [T, coordinates], position_stride numbers apart; out [T, rotated]
struct RopeAnglesArgs {
  const int32_t* positions = nullptr;
  int64_t position_stride = 1;
  int32_t coordinates = 1;  // 1: all pairs take the same number, whatever the sections; 3: see RopeSections
  int64_t count = 0;
  RopeParams params;
  DeviceView<float> angles;
};
void rope_angles(const RopeAnglesArgs& args, Queue& queue);

/// Rotates every head of x in place: (a, b) -> (a cos - b sin, a sin + b cos). Channels past `rotated` stay.
///
/// Shapes    x [T, heads * E] (rows may be strided); angles [T, rotated]
/// Types     activations; computed in f32
struct RotateArgs {
  ActivationView values;
  int32_t head_dim = 0;
  RopeParams params;
  DeviceView<const float> angles;
};
void rotate(const RotateArgs& args, Queue& queue);

}  // namespace ocellus
