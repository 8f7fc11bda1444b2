// Gated causal convolution of few taps, column by column: the mixer of layers without attention (LFM2).
#pragma once

#include "kernels/base/step_tiles.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Rows of one call.
///
///   y[t] = gate[t] x[t];   output[t] = output_gate[t] sum over k of weights[k] y[t - (taps - 1) + k]
///
/// Shapes    gate, x, output_gate, output [T, D], rows may be strided; weights [D, taps], the newest row's tap last
/// Types     activations; weights, rows y and sums f32
/// Aliasing  output may be output_gate
struct ShortConv {
  ActivationView gate;
  ActivationView x;
  ActivationView output_gate;
  const float* weights = nullptr;
  int32_t taps = 3;  // 3 or 4
  ActivationView output;
};

/// States: the taps - 1 rows y of D values before a row, one after the other, the newest last. Lists [T] point `offset`
/// values before them, or are null: there are none.
struct ShortConvStates {
  const float* const* before = nullptr;  // row t follows these, and not the row before it in the call, if not null
  float* const* after = nullptr;         // the state after row t is stored there, if not null
  int64_t offset = 0;

  /// Returns the rows that row t follows.
  OCELLUS_EVERYWHERE const float* at(int64_t t) const {
    return before == nullptr || before[t] == nullptr ? nullptr : before[t] + offset;
  }
};

/// Rows that follow each other, before which others may stand. Lists point to rows y of D values, `..._offset` values
/// before them; these start at multiples of 16 bytes if D is a multiple of 8. Rows may be split between calls anywhere:
/// results are the same to the bit.
///
/// Shapes    before [taps - 1], the newest last; of a null row the values are 0. places [T]: row t's own y is stored
///           there, if not null; none is one of `before`. end [taps - 1, D], or empty: those before the next call
struct ShortConvArgs {
  ShortConv conv;
  const float* const* before = nullptr;
  int64_t before_offset = 0;
  float* const* places = nullptr;
  int64_t places_offset = 0;
  ShortConvStates states = {};
  DeviceView<float> end;
};
void short_conv(const ShortConvArgs& args, Queue& queue);

/// One step: row t is the token of tiles.steps[t]; active rows of one ring at consecutive positions follow each other.
/// Rows y lie in rings with a window of `taps` slots, each of D values in a row: a layer's part of a tile is [slots,
/// D]. Before slot number 0 the values are 0. Each active row stores its own, so that a ring has at least taps - 1
/// slots more than rows in one step. Rows that are not active have no output.
struct ShortConvStepArgs {
  ShortConv conv;
  StepTiles tiles;
  int32_t layer = 0;
};
void short_conv_step(const ShortConvStepArgs& args, Queue& queue);

/// Number of rows right before row t, at most taps - 1, that it sees in the call.
OCELLUS_EVERYWHERE inline int64_t rows_before(const ShortConvStates& states, int64_t t, int64_t most) {
  int64_t count = 0;
  while (count < most && count < t && states.at(t - count) == nullptr) ++count;
  return count;
}

/// True if row t of a step continues the row before it.
OCELLUS_EVERYWHERE inline bool follows_row(const StepTiles& tiles, int64_t t) {
  return t > 0 && tiles.steps[t - 1].active != 0 && tiles.steps[t - 1].position + 1 == tiles.steps[t].position &&
         tiles.runs[(t - 1) * tiles.per_row].data == tiles.runs[t * tiles.per_row].data;
}

/// Row y number `number` of row t's session.
OCELLUS_EVERYWHERE inline float* ring_row(const ShortConvStepArgs& args, int64_t t, int32_t number) {
  const StepSlot slot = ring_slot(number);
  const KvRun& tile = args.tiles.at(t, slot.tile);
  return reinterpret_cast<float*>(tile.data + args.layer * tile.layer_stride) + slot.slot * args.conv.output.cols;
}

}  // namespace ocellus
