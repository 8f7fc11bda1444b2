// The vision tower (SigLIP): pixels of one or more views to one row per patch.
#pragma once

#include "kernels/store_kv.h"
#include "mm/vision_model.h"
#include "platform/arena.h"
#include "platform/queue.h"

namespace ocellus {

/// Everything the tower and the projector write to, besides their output, for up to W views at once. Two rows serve two
/// purposes each that are never alive together; the names say both.
struct VisionScratch {
  DeviceView<float> hidden;        // [W P, D] residual stream
  ActivationView normed_or_mixed;  // [W P, D]
  ActivationView qkv;              // [W P, 3 D]
  ActivationView patches_or_mlp;   // [W P, 3 p^2] | [rows, F]
  DeviceView<Half> keys, values;   // [heads, P, E] of one layer; none on CUDA, where activations are f16 themselves
  DeviceView<float> projected;     // [W tokens per view, D of the language model]
  DeviceView<std::byte> matmul_scratch;
  DeviceView<std::byte> attend_scratch;

  /// Takes (or, while planning, records) the scratch of the image phase.
  Status lay_out(const VisionConfig& config, int64_t views, const DeviceTraits& device, RowSink& sink);
};

/// Normalised planar pixels of the views to encode, [views * 3 * side, side]. On the CPU, where one view is encoded at
/// a time, they may lie where the tower's qkv rows come later.
DeviceView<float> pixels_over_qkv(const VisionConfig& config, const VisionScratch& scratch);

/// Layers [first, end).
struct LayerRange {
  int32_t first = 0;
  int32_t end = 0;
};

/// The three movements of encode_views: patches to hidden rows, some layers (stopping between them if asked to), and
/// the final norm.
void embed_views(const VisionModel& model, DeviceView<const float> pixels, int64_t views, const VisionScratch& scratch,
                 Queue& queue);
void encode_layers(const VisionModel& model, const LayerRange& range, int64_t views, const VisionScratch& scratch,
                   const StopSignal* stop, Queue& queue);
void normalise_views(const VisionModel& model, int64_t views, const VisionScratch& scratch, Queue& queue);

/// Reads the pixels of `views` views, leaves the final-norm rows in scratch.hidden [views * P, D]. Stops between layers
/// if asked to.
Status encode_views(const VisionModel& model, DeviceView<const float> pixels, int64_t views,
                    const VisionScratch& scratch, const StopSignal* stop, Queue& queue);

}  // namespace ocellus
