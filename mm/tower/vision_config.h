// VisionConfig: facts of the vision half of a file pair (the mmproj file), and the part of a family that reads it.
#pragma once

#include <span>

#include "kernels/base/patch_grid.h"
#include "kernels/linear/elementwise.h"
#include "mm/views/view_plan.h"
#include "platform/status.h"
#include "quant/gguf.h"
#include "quant/tensor_binder.h"

namespace ocellus {

class LayerBinder;
class TowerPass;
struct VisionConfig;
struct VisionLayer;
struct VisionModel;

/// A tower and its projector: the tensors of a layer, and the forward pass.
struct VisionTower {
  Status (*bind_layer)(const LayerBinder& layer, const VisionConfig& config, VisionLayer* out) = nullptr;
  void (*encode)(TowerPass& pass) = nullptr;
};

/// Vision part of a family: reading of its mmproj file, and division of pictures. One constant per family, in
/// runtime/models.
struct VisionFamily {
  const char* projector = "";      // clip.projector_type
  const char* old_projector = "";  // older files have this one
  /// True if a file with one of these is of this family; null: always.
  bool (*claims)(const GgufFile& file) = nullptr;
  const VisionTower* tower = nullptr;
  /// Reads keys that not all families have, and may choose another tower. Errors as read_vision_config.
  Status (*read)(const GgufFile& file, VisionConfig* config) = nullptr;
  /// Binds tensors other than patch embedding, positions and layers.
  Status (*bind)(const TensorBinder& binder, VisionModel* model) = nullptr;
  const ViewRules* views = nullptr;
  const ViewRules* plain_views = nullptr;  // rules for VisionConfig::plain_prompts; null: the same
  /// Name of a matrix that files of this family hold by columns, of whole numbers of bytes; "": none. It is turned when
  /// it is loaded.
  const char* turned_matrix = "";
  const char* output_width_from = "";  // origin of output_width in a file, for sentences
};

/// Maximum layers whose rows join those of the language model's first layers.
inline constexpr int32_t kMaxDeepStack = 8;

struct VisionConfig {
  const VisionFamily* family = nullptr;
  const VisionTower* tower = nullptr;
  bool plain_prompts = false;  // trained here, with other texts around pictures than the published models
  Activation activation = Activation::kGeluTanh;
  int32_t image_size = 0;  // side of one view in pixels; nominal if views may have any size
  int32_t patch_size = 0;
  int32_t width = 0;  // D of the tower
  int32_t mlp_width = 0;
  int32_t layer_count = 0;  // layers that are run
  int32_t heads = 0;
  int32_t class_rows = 0;       // before the patches of a view: 1 or none
  int32_t frame_kernels = 1;    // 2: a view is two frames, each with a kernel of its own; a still picture is both
  bool any_size = false;        // views have any size
  int32_t position_side = 0;    // side of the table of positions; 0: views of any size have none
  int32_t axis_positions = 0;   // rows of a table for columns and of one for lines, which are added; 0: there is none
  int32_t window = 0;           // side of windows of joined patches, in which rows see each other; 0: none
  int32_t window_period = 0;    // layers window_period - 1, 2 window_period - 1, ... have no windows
  int32_t deepstack_count = 0;  // see VisionModel::deepstack
  int32_t deepstack_layers[kMaxDeepStack] = {};  // tower layers of these rows, ascending
  int64_t min_pixels = 0;                        // views of any size: smaller ones are enlarged
  int64_t max_pixels = 0;                        // larger ones are reduced
  int32_t usual_rows = 0;                        // views of any size: bound of their rows if none is asked for
  int32_t scale_factor = 1;                      // scale x scale patches are joined
  bool averages_patches = false;                 // their mean is taken, else they stand side by side (pixel shuffle)
  bool norms_joined = false;                     // the projector normalises them first, in models that may or may not
  int32_t projector_width = 0;                   // width between the projector's two maps; 0: it has one
  int32_t output_width = 0;                      // D of the language model
  int32_t longest_edge = 0;                      // this and the next three as in PreprocessConfig
  int32_t min_tiles = 1;
  int32_t max_tiles = 0;
  int32_t tiled_size_count = 0;
  Size tiled_sizes[kMaxTiledSizes] = {};
  float epsilon = 1e-6f;
  float image_mean[3] = {};
  float image_std[3] = {};

  const ViewRules* views() const {
    return plain_prompts && family->plain_views != nullptr ? family->plain_views : family->views;
  }
  int32_t head_dim() const { return width / heads; }
  /// Patches of a view of this size, in the order of their rows.
  PatchGrid grid(Size view) const {
    return {view.height / patch_size, view.width / patch_size, any_size && !averages_patches ? scale_factor : 1,
            window};
  }
  /// Size of all views, if they have one.
  Size view_size() const { return {image_size, image_size}; }
  int32_t patch_values() const { return 3 * patch_size * patch_size; }
  /// Rows of the table of positions.
  int64_t position_rows() const {
    if (axis_positions > 0) return 2 * int64_t{axis_positions};
    return any_size ? int64_t{position_side} * position_side : class_rows + int64_t{grid(view_size()).count()};
  }
  int32_t row_side() const { return patch_size * scale_factor; }  // pixels of joined patches
  bool has_windows(int32_t layer) const { return window > 0 && (layer + 1) % window_period != 0; }
  int32_t joined_width() const {  // input width of the projector
    return averages_patches ? width : width * scale_factor * scale_factor;
  }
  /// The layer whose attention is noted: the last one in which rows see their whole view.
  int32_t noted_layer() const {
    int32_t layer = layer_count - 1;
    while (layer > 0 && has_windows(layer)) --layer;
    return layer;
  }
  /// Values of a row's note: see pool_attention.
  int64_t note_width() const { return 1 + int64_t{head_dim()}; }
  /// Values of a view's row in the language model, those for its first layers included.
  int64_t row_width() const { return int64_t{output_width} * (1 + deepstack_count); }
  int32_t tokens_per_view() const { return grid(view_size()).count() / (scale_factor * scale_factor); }
};

/// Views of one size that go through a tower together.
struct ViewBatch {
  ViewBatch() = default;
  ViewBatch(const VisionConfig& config, int64_t views_, Size size_, int32_t frames_ = 1)
      : views(views_),
        frames(frames_),
        size(size_),
        grid(config.grid(size_)),
        lead(config.class_rows),
        scale(config.scale_factor) {}

  int64_t rows_per_view() const { return lead + grid.count(); }  // in the tower
  int64_t tokens_per_view() const { return grid.count() / (scale * scale); }
  int64_t rows() const { return views * rows_per_view(); }
  int64_t tokens() const { return views * tokens_per_view(); }
  int64_t pixel_rows() const { return views * frames * 3 * size.height; }
  int64_t pixel_values() const { return pixel_rows() * size.width; }
  /// Pixels [views * frames * 3 * height, width] at an address.
  DeviceView<float> pixels_at(float* data) const { return {data, pixel_rows(), size.width}; }

  int64_t views = 0;
  int32_t frames = 1;  // frames of a view: 2 for a pair of a clip, in a batch of one
  Size size;
  PatchGrid grid;
  int32_t lead = 0;    // rows before a view's patches
  int32_t scale = 1;   // see VisionConfig::scale_factor
  bool noted = false;  // says of the largest batch that rows are noted: see tower_notes.h
};

/// Bounds above any real tower, far below an overflow of products.
inline constexpr int64_t kMaxVisionWidth = 1 << 16;
inline constexpr int64_t kMaxLongestEdge = 16384;

/// Reads and checks the metadata of an mmproj file of one of these families. kBadFile or kUnsupported names the key.
Status read_vision_config(const GgufFile& file, std::span<const VisionFamily* const> families, VisionConfig* out);

/// Helpers of a family's read(): an integer of 1 to `most`; the rows of a tensor, which are a width.
Status read_vision_size(const GgufFile& file, const char* key, int64_t most, int32_t* out);
Status read_vision_rows(const GgufFile& file, const char* tensor, int32_t* out);

}  // namespace ocellus
