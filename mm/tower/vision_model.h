// VisionModel: facts and weights of the vision half of a file pair (the mmproj file). Towers differ in which tensors
// they have; the code that runs them (vision_tower.h, projector.h) asks for these, not for a family.
#pragma once

#include <span>

#include "kernels/linear/elementwise.h"
#include "mm/views/view_plan.h"
#include "platform/buffer.h"
#include "platform/status.h"
#include "quant/gguf.h"
#include "quant/tensor_binder.h"

namespace ocellus {

struct VisionConfig;
struct VisionModel;

/// What is a family's own: how its mmproj file is read, and how it cuts pictures. One constant a family, in
/// runtime/models.
struct VisionFamily {
  const char* projector = "";  // clip.projector_type
  /// Whether a file with that projector is of this family; null: every one is.
  bool (*claims)(const GgufFile& file) = nullptr;
  /// Reads what not all families have. Fails as read_vision_config does.
  Status (*read)(const GgufFile& file, VisionConfig* config) = nullptr;
  /// Binds what is not a patch embedding, a position or a layer.
  Status (*bind)(const TensorBinder& binder, VisionModel* model) = nullptr;
  const ViewRules* views = nullptr;
  const char* output_width_from = "";  // where a file says it, for sentences
};

struct VisionConfig {
  const VisionFamily* family = nullptr;
  Activation activation = Activation::kGeluTanh;
  int32_t image_size = 0;  // side of one view in pixels
  int32_t patch_size = 0;
  int32_t width = 0;  // D of the tower
  int32_t mlp_width = 0;
  int32_t layer_count = 0;  // that are run
  int32_t heads = 0;
  bool has_class_row = false;      // before the patches of a view
  bool rms_norms = false;          // layers' norms are of the root mean square
  bool normalises_heads = false;   // queries and keys, all heads of a row together
  bool scales_branches = false;    // what a layer's branches add is scaled by channel
  int32_t scale_factor = 1;        // pixel shuffle joins scale x scale patches
  bool normalises_joined = false;  // joined rows, before the projector's first map
  bool ends_lines = false;         // lines of a picture's rows end with row_end: see TileMap
  int32_t projector_width = 0;     // between the projector's two maps; 0: it has one
  int32_t output_width = 0;        // D of the language model
  int32_t longest_edge = 0;        // these four as in PreprocessConfig
  int32_t min_tiles = 1;
  int32_t max_tiles = 0;
  int32_t tiled_size_count = 0;
  Size tiled_sizes[kMaxTiledSizes] = {};
  float epsilon = 1e-6f;
  float image_mean[3] = {};
  float image_std[3] = {};

  int32_t head_dim() const { return width / heads; }
  int32_t grid() const { return image_size / patch_size; }
  int32_t patch_count() const { return grid() * grid(); }
  int32_t class_rows() const { return has_class_row ? 1 : 0; }
  int32_t rows_per_view() const { return class_rows() + patch_count(); }  // of the tower
  int32_t patch_values() const { return 3 * patch_size * patch_size; }
  int32_t joined_width() const { return width * scale_factor * scale_factor; }  // what the projector reads
  /// Values of a row that the projector writes on its way.
  int64_t projector_values() const { return projector_width + (normalises_joined ? joined_width() : 0); }
  int32_t tokens_per_view() const { return patch_count() / (scale_factor * scale_factor); }
};

/// Upper ends of what a real tower has, far below what could overflow a product.
inline constexpr int64_t kMaxVisionWidth = 1 << 16;
inline constexpr int64_t kMaxLongestEdge = 16384;

/// Reads and checks the metadata of an mmproj file of one of these families. kBadFile or kUnsupported names the key.
Status read_vision_config(const GgufFile& file, std::span<const VisionFamily* const> families, VisionConfig* out);

/// For a family's read(): an integer of 1 to `most`; the rows of a tensor, which are a width.
Status read_vision_size(const GgufFile& file, const char* key, int64_t most, int32_t* out);
Status read_vision_rows(const GgufFile& file, const char* tensor, int32_t* out);

/// A norm over a row: no weight: none; no bias: of the root mean square.
struct NormWeights {
  const float* weight = nullptr;
  const float* bias = nullptr;
};

/// One pre-norm transformer block of the tower. A scale [D], where there is one, multiplies what the branch adds.
struct VisionLayer {
  NormWeights attention_norm;
  Linear query, key, value, attention_output;
  const float* query_norm = nullptr;  // [D]: root mean square over all heads together
  const float* key_norm = nullptr;
  const float* attention_scale = nullptr;
  NormWeights mlp_norm;
  Linear mlp_up, mlp_down;
  const float* mlp_scale = nullptr;
};

struct VisionModel {
  VisionConfig config;
  Linear patch_embedding;            // [D, 3 * patch^2]
  const float* class_row = nullptr;  // [D]
  WeightView positions;              // [rows of a view, D], that of the class row first; F32 without one
  NormWeights first_norm;            // before the layers
  NormWeights final_norm;
  Buffer<VisionLayer> layers;
  NormWeights joined_norm;         // of rows [joined_width], epsilon 1e-5
  Linear projection;               // [projector_width or output_width, joined_width]
  Linear second_projection;        // [output_width, projector_width]; GELU (exact, as PyTorch's) before it
  const float* row_end = nullptr;  // [output_width]
};

/// Checks every tensor against the config; with `base` (the loaded tensor section) also sets the views.
Status bind_vision_model(const GgufFile& file, const VisionConfig& config, const uint8_t* base, VisionModel* out);

}  // namespace ocellus
