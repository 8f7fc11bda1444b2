// VisionModel: facts and weights of the vision half of a file pair (the mmproj file). Towers differ in their tensors;
// the code that runs them (vision_tower.h, projector.h) depends on these, not on a family.
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

/// Vision part of a family: reading of its mmproj file, and division of pictures. One constant per family, in
/// runtime/models.
struct VisionFamily {
  const char* projector = "";  // clip.projector_type
  /// True if a file with that projector is of this family; null: always.
  bool (*claims)(const GgufFile& file) = nullptr;
  /// Reads keys that not all families have. Errors as read_vision_config.
  Status (*read)(const GgufFile& file, VisionConfig* config) = nullptr;
  /// Binds tensors other than patch embedding, positions and layers.
  Status (*bind)(const TensorBinder& binder, VisionModel* model) = nullptr;
  const ViewRules* views = nullptr;
  const char* output_width_from = "";  // origin of output_width in a file, for sentences
};

struct VisionConfig {
  const VisionFamily* family = nullptr;
  Activation activation = Activation::kGeluTanh;
  int32_t image_size = 0;  // side of one view in pixels
  int32_t patch_size = 0;
  int32_t width = 0;  // D of the tower
  int32_t mlp_width = 0;
  int32_t layer_count = 0;  // layers that are run
  int32_t heads = 0;
  bool has_class_row = false;      // before the patches of a view
  bool rms_norms = false;          // layers use RMS norms
  bool normalises_heads = false;   // queries and keys are normalised, all heads of a row together
  bool scales_branches = false;    // outputs of a layer's branches are scaled by channel
  int32_t scale_factor = 1;        // pixel shuffle joins scale x scale patches
  bool normalises_joined = false;  // joined rows are normalised before the projector's first map
  bool ends_lines = false;         // lines of a picture's rows end with row_end: see TileMap
  int32_t projector_width = 0;     // width between the projector's two maps; 0: it has one
  int32_t output_width = 0;        // D of the language model
  int32_t longest_edge = 0;        // this and the next three as in PreprocessConfig
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
  int32_t rows_per_view() const { return class_rows() + patch_count(); }  // rows in the tower
  int32_t patch_values() const { return 3 * patch_size * patch_size; }
  int32_t joined_width() const { return width * scale_factor * scale_factor; }  // input width of the projector
  /// Number of intermediate values per row in the projector.
  int64_t projector_values() const { return projector_width + (normalises_joined ? joined_width() : 0); }
  int32_t tokens_per_view() const { return patch_count() / (scale_factor * scale_factor); }
};

/// Bounds above any real tower, far below an overflow of products.
inline constexpr int64_t kMaxVisionWidth = 1 << 16;
inline constexpr int64_t kMaxLongestEdge = 16384;

/// Reads and checks the metadata of an mmproj file of one of these families. kBadFile or kUnsupported names the key.
Status read_vision_config(const GgufFile& file, std::span<const VisionFamily* const> families, VisionConfig* out);

/// Helpers of a family's read(): an integer of 1 to `most`; the rows of a tensor, which are a width.
Status read_vision_size(const GgufFile& file, const char* key, int64_t most, int32_t* out);
Status read_vision_rows(const GgufFile& file, const char* tensor, int32_t* out);

/// A norm over a row. No weight: no norm; no bias: RMS norm.
struct NormWeights {
  const float* weight = nullptr;
  const float* bias = nullptr;
};

/// One pre-norm transformer block of the tower. An optional scale [D] multiplies a branch's output.
struct VisionLayer {
  NormWeights attention_norm;
  Linear query, key, value, attention_output;
  const float* query_norm = nullptr;  // [D]: RMS norm over all heads together
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
  WeightView positions;              // [rows of a view, D], the class row's first; F32 without one
  NormWeights first_norm;            // before the layers
  NormWeights final_norm;
  Buffer<VisionLayer> layers;
  NormWeights joined_norm;         // norm of rows [joined_width], epsilon 1e-5
  Linear projection;               // [projector_width or output_width, joined_width]
  Linear second_projection;        // [output_width, projector_width]; GELU (exact, as PyTorch's) before it
  const float* row_end = nullptr;  // [output_width]
};

/// Checks every tensor against the config; with `base` (the loaded tensor section) also sets the views.
Status bind_vision_model(const GgufFile& file, const VisionConfig& config, const uint8_t* base, VisionModel* out);

}  // namespace ocellus
