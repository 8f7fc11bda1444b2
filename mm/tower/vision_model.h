// VisionModel: facts and weights of the vision half of a file pair. Towers differ in their tensors; the code that runs
// them (vision_tower.h, projector.h) depends on these, not on a family.
#pragma once

#include <limits>

#include "mm/tower/vision_config.h"
#include "platform/buffer.h"

namespace ocellus {

/// A norm over a row. No weight: no norm, unless it is a plain RMS norm; no bias: RMS norm.
struct NormWeights {
  const float* weight = nullptr;
  const float* bias = nullptr;
  bool is_plain = false;

  bool used() const { return weight != nullptr || is_plain; }
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

/// Maps from joined patches to rows of the language model.
struct Projector {
  float joined_factor = 1.0f;          // joined rows [joined_width] become (factor * x - bias) * scale, if there are
  const float* joined_bias = nullptr;  // such vectors
  const float* joined_scale = nullptr;
  NormWeights joined_norm;  // then normalises them; none: they stay as they are
  float epsilon = 1e-5f;    // its own; PyTorch's default
  Linear first;             // [projector_width or output_width, joined_width]
  Linear second;            // [output_width, projector_width], or none; GELU (exact, as PyTorch's) before it
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

}  // namespace ocellus
