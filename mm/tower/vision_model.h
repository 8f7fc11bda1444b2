// VisionModel: facts and weights of the vision half of a file pair (the mmproj file). The tower that runs them is
// vision_tower.h, the projector into the language model's width is projector.h.
#pragma once

#include "kernels/linear/elementwise.h"
#include "platform/buffer.h"
#include "platform/status.h"
#include "quant/gguf.h"
#include "quant/tensor_binder.h"

namespace ocellus {

/// What the rows of a view go through before and after the layers, which all towers share.
enum class TowerKind : uint8_t { kSiglip, kClip };

/// How tower rows become rows of the language model; kMlp is LLaVA-1.5's.
enum class ProjectorKind : uint8_t { kIdefics3, kMlp };
/// As clip.projector_type has it.
const char* projector_name(ProjectorKind kind);

struct VisionConfig {
  ProjectorKind projector = ProjectorKind::kIdefics3;
  TowerKind tower = TowerKind::kSiglip;
  Activation activation = Activation::kGeluTanh;
  int32_t image_size = 0;  // side of one view in pixels
  int32_t patch_size = 0;
  int32_t width = 0;  // D of the tower
  int32_t mlp_width = 0;
  int32_t layer_count = 0;  // that are run
  int32_t heads = 0;
  int32_t scale_factor = 1;     // pixel shuffle joins scale x scale patches
  int32_t projector_width = 0;  // between the two maps of an mlp projector
  int32_t output_width = 0;     // D of the language model
  int32_t longest_edge = 0;     // pictures are tiled up to this side; 0: one view, no tiles
  float epsilon = 1e-6f;
  float image_mean[3] = {};
  float image_std[3] = {};

  int32_t head_dim() const { return width / heads; }
  int32_t grid() const { return image_size / patch_size; }
  int32_t patch_count() const { return grid() * grid(); }
  int32_t class_rows() const { return tower == TowerKind::kClip ? 1 : 0; }  // before the patches of a view
  int32_t rows_per_view() const { return class_rows() + patch_count(); }    // of the tower
  int32_t patch_values() const { return 3 * patch_size * patch_size; }
  int32_t joined_width() const { return width * scale_factor * scale_factor; }  // what the projector reads
  int32_t tokens_per_view() const { return patch_count() / (scale_factor * scale_factor); }
};

/// Reads and checks the metadata of an mmproj file. kBadFile or kUnsupported names the key.
Status read_vision_config(const GgufFile& file, VisionConfig* out);

/// One pre-norm transformer block of the tower.
struct VisionLayer {
  const float* attention_norm_weight = nullptr;
  const float* attention_norm_bias = nullptr;
  Linear query, key, value, attention_output;
  const float* mlp_norm_weight = nullptr;
  const float* mlp_norm_bias = nullptr;
  Linear mlp_up, mlp_down;
};

/// A SigLIP tower's, beside patches and layers.
struct SiglipParts {
  const float* positions = nullptr;  // [P, D]
  const float* final_norm_weight = nullptr;
  const float* final_norm_bias = nullptr;
};

/// A CLIP tower's. There is no final norm: LLaVA reads the rows of a layer in the middle.
struct ClipParts {
  const float* class_row = nullptr;  // [D]
  WeightView positions;              // [1 + P, D], that of the class row first
  const float* first_norm_weight = nullptr;
  const float* first_norm_bias = nullptr;
};

struct VisionModel {
  VisionConfig config;
  Linear patch_embedding;  // [D, 3 * patch^2]
  SiglipParts siglip;      // one of the two, by config.tower
  ClipParts clip;
  Buffer<VisionLayer> layers;
  Linear projection;         // [output_width, scale^2 * D]; of an mlp projector [projector_width, D]
  Linear second_projection;  // of an mlp projector: [output_width, projector_width]
};

/// Checks every tensor against the config; with `base` (the loaded tensor section) also sets the views.
Status bind_vision_model(const GgufFile& file, const VisionConfig& config, const uint8_t* base, VisionModel* out);

}  // namespace ocellus
