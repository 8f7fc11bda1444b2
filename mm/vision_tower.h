// The vision tower (SigLIP): pixels of one view to one row per patch.
#pragma once

#include "kernels/store_kv.h"
#include "mm/vision_model.h"
#include "platform/arena.h"
#include "platform/queue.h"

namespace ocellus {

/// Everything the tower and the projector write to, besides their output. Two rows serve two purposes each that are
/// never alive together; the names say both.
struct VisionScratch {
  DeviceView<float> hidden;           // [P, D] residual stream
  DeviceView<float> normed_or_mixed;  // [P, D]
  DeviceView<float> pixels_or_qkv;    // [3 * side, side] | [P, 3 D]
  DeviceView<float> patches_or_mlp;   // [P, 3 p^2] | [rows, F]
  DeviceView<Half> keys, values;      // [heads, P, E] of one layer
  DeviceView<std::byte> matmul_scratch;
  DeviceView<std::byte> attend_scratch;

  /// Normalised planar pixels of the view to encode: [3 * side, side]. Filled by render_view().
  DeviceView<float> pixels(const VisionConfig& config) const {
    return {pixels_or_qkv.data, 3 * int64_t{config.image_size}, config.image_size};
  }
};

/// Rows of the MLP are computed this many at a time: wide enough for full matrix speed, and the widest buffer of the
/// tower stays small.
inline constexpr int64_t kVisionMlpRows = 128;

/// Takes (or, while planning, records) the scratch of the image phase.
Status lay_out_vision_scratch(const VisionConfig& config, int thread_count, RowSink& sink, VisionScratch* out);

/// Reads scratch.pixels(), leaves the final-norm rows in scratch.hidden [P, D]. Stops between layers if asked to.
Status encode_view(const VisionModel& model, const VisionScratch& scratch, const StopSignal* stop, Queue& queue);

}  // namespace ocellus
