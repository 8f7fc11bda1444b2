// VisionModel: facts and weights of the vision half of a file pair (the mmproj file). The tower that runs them is
// vision_tower.h, the projector into the language model's width is projector.h.
#pragma once

#include "kernels/elementwise.h"
#include "platform/buffer.h"
#include "platform/status.h"
#include "quant/gguf.h"
#include "quant/tensor_binder.h"

namespace ocellus {

/// How tower rows become rows of the language model.
enum class ProjectorKind : uint8_t { kIdefics3 };
const char* projector_name(ProjectorKind kind);

struct VisionConfig {
  ProjectorKind projector = ProjectorKind::kIdefics3;
  Activation activation = Activation::kGeluTanh;
  int32_t image_size = 0;  // side of one view in pixels
  int32_t patch_size = 0;
  int32_t width = 0;  // D of the tower
  int32_t mlp_width = 0;
  int32_t layer_count = 0;
  int32_t heads = 0;
  int32_t scale_factor = 1;  // pixel shuffle joins scale x scale patches
  int32_t output_width = 0;  // D of the language model
  int32_t longest_edge = 0;  // pictures are tiled up to this side; 0: one view, no tiles
  float epsilon = 1e-6f;
  float image_mean[3] = {};
  float image_std[3] = {};

  int32_t head_dim() const { return width / heads; }
  int32_t grid() const { return image_size / patch_size; }
  int32_t patch_count() const { return grid() * grid(); }
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

struct VisionModel {
  VisionConfig config;
  Linear patch_embedding;            // [D, 3 * patch^2]
  const float* positions = nullptr;  // [P, D]
  Buffer<VisionLayer> layers;
  const float* final_norm_weight = nullptr;
  const float* final_norm_bias = nullptr;
  Linear projection;  // [output_width, scale^2 * D]
};

/// Checks every tensor against the config; with `base` (the loaded tensor section) also sets the views.
Status bind_vision_model(const GgufFile& file, const VisionConfig& config, const uint8_t* base, VisionModel* out);

}  // namespace ocellus
