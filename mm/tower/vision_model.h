// VisionModel: facts and weights of the vision half of a file pair. Towers differ in their tensors; the code that runs
// them (vision_tower.h, projector.h) depends on these, not on a family.
#pragma once

#include <limits>

#include "mm/tower/vision_config.h"
#include "platform/buffer.h"

namespace ocellus {

/// A norm over a row: RMS norm if there is no bias, a plain one if there is no weight.
struct NormWeights {
  const float* weight = nullptr;
  const float* bias = nullptr;
};

/// A linear map of the tower, whose input and output may have bounds.
struct BoundedLinear : Linear {
  struct Bounds {
    float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();

    bool operator==(const Bounds&) const = default;
    bool used() const { return *this != Bounds(); }
  };
  Bounds input, output;
};

/// One pre-norm transformer block of the tower. An optional scale [D] multiplies a branch's output, an optional norm
/// [D] normalises it.
struct VisionLayer {
  NormWeights attention_norm;
  BoundedLinear query, key, value, attention_output;
  const float* query_norm = nullptr;  // [D]: RMS norm over all heads together; [E]: over each
  const float* key_norm = nullptr;
  const float* attention_scale = nullptr;
  const float* attention_output_norm = nullptr;
  NormWeights mlp_norm;
  BoundedLinear mlp_gate, mlp_up, mlp_down;  // the gate only if the MLP has one
  const float* mlp_scale = nullptr;
  const float* mlp_output_norm = nullptr;
};

/// Maps from joined patches to rows of the language model, as far as a family has them.
struct Projector {
  const float* joined_bias = nullptr;  // [joined_width]
  const float* joined_scale = nullptr;
  NormWeights row_norm;  // normalises rows before they are joined
  NormWeights joined_norm;
  Linear merger;  // [D, joined_width], before the others
  Linear first;   // [projector_width or output_width, joined_width]
  Linear second;  // [output_width, projector_width]
};

struct VisionModel {
  VisionConfig config;
  Linear patch_embedding;            // [D, 3 * patch^2]
  WeightView next_frame_embedding;   // second of two frames, if a view has two
  const float* class_row = nullptr;  // [D]
  WeightView positions;              // [rows of a view, D], the class row's first; F32 without one. Views of any size
                                     // have a table [position_side^2, D], one of columns and lines, or none
  NormWeights first_norm;            // before the layers
  NormWeights final_norm;
  Buffer<VisionLayer> layers;
  Projector projector;
  Projector deepstack[kMaxDeepStack];  // rows of inner layers, which join those of the language model's first layers
  const float* row_end = nullptr;      // [output_width]
};

/// Checks every tensor against the config; with `base` (the loaded tensor section) also sets the views.
Status bind_vision_model(const GgufFile& file, const VisionConfig& config, const uint8_t* base, VisionModel* out);

/// Helpers of a tower's bind_layer(), for what most have: two norms, by LayerNorm or RMS norm; the maps of attention;
/// those of an MLP without a gate; all of these, by LayerNorm; and all, by RMS norm and with a gate.
Status bind_layer_norms(const LayerBinder& layer, const VisionConfig& config, VisionLayer* out);
Status bind_rms_norms(const LayerBinder& layer, const VisionConfig& config, VisionLayer* out);
Status bind_attention(const LayerBinder& layer, const VisionConfig& config, VisionLayer* out);
Status bind_mlp(const LayerBinder& layer, const VisionConfig& config, VisionLayer* out);
Status bind_plain_layer(const LayerBinder& layer, const VisionConfig& config, VisionLayer* out);
Status bind_gated_layer(const LayerBinder& layer, const VisionConfig& config, VisionLayer* out);

}  // namespace ocellus
