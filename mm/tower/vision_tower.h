// Vision towers: pixels of one or more views to R rows a view, one per patch and, in a CLIP tower, a class row before
// them. What differs between families is in the
// tensors that the model has (vision_model.h).
#pragma once

#include "kernels/rows/store_kv.h"
#include "mm/tower/vision_model.h"
#include "platform/arena.h"
#include "platform/queue.h"

namespace ocellus {

/// Everything the tower and the projector write to, for up to W views at once; W is 1 where the device takes rows in
/// blocks. B rows go through a part of the tower together: all, or a block.
///
/// The embedding, the layers and the projector take turns with one row of the plan, in which lie
///
///   pixels                         where views are encoded one by one
///   keys | values | normed_or_mixed
///   joined | projected
///
/// Some buffers have two or more names: these are never alive together, either.
struct VisionScratch {
  DeviceView<float> pixels;        // [3 side, side]; none where WaitingViews has them
  DeviceView<Half> keys, values;   // [R, D] of one layer; none where all rows are there at once as f16
  ActivationView normed_or_mixed;  // [B, D]
  ActivationView joined;           // [W tokens per view, scale^2 D]; f32 where it is normalised
  DeviceView<float> projected;     // [W tokens per view, D of the language model]; on CUDA, and where rows are one map

  DeviceView<float> hidden;  // [W R, D] residual stream
  ActivationView wide;       // patches [B, 3 p^2]; query, key and value [B, 3 D] or at most two of them; mlp [B, F];
                             // projector's normalised rows [B, scale^2 D] and middle [B, projector_width]
  DeviceView<std::byte> op_scratch;  // of matmul and attend_rows

  /// Takes (or, while planning, records) the scratch of the image phase.
  Status lay_out(const VisionConfig& config, int64_t views, const DeviceTraits& device, RowSink& sink);
  /// Takes only the row that holds the pixels, where it holds any. It comes first in lay_out(), so that in a scope of
  /// its own it lies at the same place: pixels that are written now will be there then.
  Status lay_out_pixels(const VisionConfig& config, int64_t views, const DeviceTraits& device, Phase phase,
                        RowSink& sink);

 private:
  int64_t cut_turns(const VisionConfig& config, int64_t views, const DeviceTraits& device, std::byte* memory);
  Status take_turns(const VisionConfig& config, int64_t views, const DeviceTraits& device, Phase phase, RowSink& sink);
};

/// Layers [first, end).
struct LayerRange {
  int32_t first = 0;
  int32_t end = 0;
};

/// The three movements of encode_views: patches to hidden rows, some layers (stopping between them if asked to), and
/// the final norm, where there is one.
void embed_views(const VisionModel& model, DeviceView<const float> pixels, int64_t views, const VisionScratch& scratch,
                 Queue& queue);
void encode_layers(const VisionModel& model, const LayerRange& range, int64_t views, const VisionScratch& scratch,
                   const StopSignal* stop, Queue& queue);
void normalise_views(const VisionModel& model, int64_t views, const VisionScratch& scratch, Queue& queue);

/// Reads the pixels of `views` views, leaves the rows that the projector reads in scratch.hidden [views * R, D]. Stops
/// between layers if asked to.
Status encode_views(const VisionModel& model, DeviceView<const float> pixels, int64_t views,
                    const VisionScratch& scratch, const StopSignal* stop, Queue& queue);

}  // namespace ocellus
