// Vision towers: pixels of one or more views to R rows per view, one per patch, with a class row before them in a CLIP
// tower, and these to rows of the language model. Families differ in the tensors of the model (vision_model.h).
#pragma once

#include "kernels/attention/attend_rows.h"
#include "kernels/rows/store_kv.h"
#include "mm/tower/vision_model.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "platform/trace.h"

namespace ocellus {

/// Encoding of one picture, and of the pictures or views that wait.
inline constexpr Phase kPicturePhase{"picture"}, kImagePhase{"image"};

/// Number of rows that go through a part of the tower together. A GPU takes all at once. So does the CPU except in the
/// MLP, whose rows are the widest: fewer and larger products let its threads wait less for each other (4 % of the
/// time). Lean devices take small blocks throughout.
struct BlockRows {
  BlockRows(int64_t rows, const DeviceTraits& device)
      : mlp(device.block_rows(rows)), others(device.lean ? mlp : rows) {}
  int64_t mlp, others;
};

/// Scratch that a tower needs, as a pass that plans notes it.
struct TowerNeeds {
  int64_t wide_values = 0, product_bytes = 0, branch_rows = 0;
  bool angles = false, windows = false, joined_floats = false;
};

/// Buffers of the tower and the projectors, for batches of up to W views and T rows; W is 1 if the device takes rows in
/// blocks. B rows go through a part of the tower together: all, or a block.
///
/// The embedding, the layers and the projectors use one row of the plan in turn, which holds
///
///   pixels                         if views are encoded one by one
///   keys | values | normed_or_mixed
///   joined | projected
///
/// Some buffers have two or more names, which are never alive together.
struct VisionScratch {
  DeviceView<float> pixels;        // [1, 3 height * width]; none if WaitingViews holds them
  DeviceView<Half> keys, values;   // one layer's [R, D]; none if all rows are available at once as f16
  ActivationView normed_or_mixed;  // [B, D]
  ActivationView joined;           // [tokens, scale^2 D]; f32 if a projector normalises it
  DeviceView<float> projected;     // [tokens, D of the language model]; if encoding is recorded, and if rows form a map

  DeviceView<float> hidden;  // [T, D] residual stream
  DeviceView<float> angles;  // [T, head_dim], if the tower rotates
  DeviceView<float> branch;  // [B, D] output of a branch before its norm, if branches have such
  DeviceView<RowSpan> seen;  // [1, T] the windows of rows, if it has windows
  DeviceView<float> scores;  // [H, R] attention of a view, and of all views what it tells of the rows that go to the
  DeviceView<float> notes;   // language model [tokens, note_width]: see tower_notes.h; only if they are wanted
  ActivationView wide;       // patches [B, 3 p^2]; query, key and value [B, 3 D] or at most two of them; mlp [B, F],
                             // twice with a gate; projector's normalised rows [B, scale^2 D] and middle
                             // [B, projector_width]
  DeviceView<std::byte> op_scratch;  // scratch of matmul, attend_rows and score_rows

  /// Takes (or, while planning, records) the scratch of the image phase, for batches up to `most`.
  Status lay_out(const VisionConfig& config, const ViewBatch& most, const DeviceTraits& device, RowSink& sink);
  /// Takes only the row that holds the pixels, if any. It comes first in lay_out(), so that in a scope of its own it
  /// has the same address: pixels written now stay valid.
  Status lay_out_pixels(const VisionConfig& config, const ViewBatch& most, const DeviceTraits& device, Phase phase,
                        RowSink& sink);

 private:
  int64_t cut_turns(const VisionConfig& config, const TowerNeeds& needs, const ViewBatch& most,
                    const DeviceTraits& device, std::byte* memory);
  Status take_turns(const VisionConfig& config, const TowerNeeds& needs, const ViewBatch& most,
                    const DeviceTraits& device, Phase phase, RowSink& sink);
};

/// Normalises rows, with the arithmetic that the norm's weights tell.
void apply_norm(const NormWeights& norm, float epsilon, DeviceView<const float> rows, ActivationView output,
                Queue& queue);

/// Layers [first, end) of a pass. What comes before the layers belongs to the first of them; what comes after them is
/// done if `end` is larger than their number.
struct LayerRange {
  int32_t first = 0;
  int32_t end = std::numeric_limits<int32_t>::max();
};

/// Reads the pixels of a batch, and writes its rows of the language model: the projector's, then those of DeepStack,
/// output_width for each of its layers. Stops between layers on request. In between, scratch.hidden [views * R, D]
/// holds the rows of the tower.
struct EncodeArgs {
  const VisionModel& model;
  DeviceView<const float> pixels = {};
  const ViewBatch& batch;
  const VisionScratch& scratch;
  DeviceView<float> out = {};  // [tokens, row_width]; scratch.projected if there is one part only
  LayerRange layers = {};
  const StopSignal* stop = nullptr;
  TraceSink trace = {};
};
Status encode_views(const EncodeArgs& args, Queue& queue);

}  // namespace ocellus
