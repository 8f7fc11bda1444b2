// Family: all that is specific to one model family, as data and plain functions. Each has one source in this folder,
// and one line in families.cpp.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "mm/tower/vision_model.h"
#include "runtime/models/clip.h"
#include "runtime/models/shape_tensors.h"
#include "runtime/models/text_model.h"

namespace ocellus {

/// Returns the longest side of any picture within the limits; bounds resizes.
inline int64_t longest_side(const ImageLimits& limits) {
  return std::min<int64_t>(limits.max_side, max_side_sum(limits));
}

/// Fills the bounds of resizes to views of at most bounds->rows rows, each of row_side x row_side pixels. A reduced
/// picture's longer side is at least the root of `reduced_rows`, less a row.
void bound_resizes(int64_t row_side, int64_t reduced_rows, const ImageLimits& limits, ViewBounds* bounds);

/// The numbers of a public model's card.
struct ModelShape {
  const char* name = "";
  const char* published = "";  // name of its weights on Hugging Face; GGUF files are named after its last part
  TextConfig text;             // rope: the base and the sections are used; local: all but its rope
  bool tied = false;           // the unembedding is the embedding
  VisionConfig vision = {};    // layer_count 0: no vision part

  bool has_vision() const { return vision.layer_count > 0; }
};

/// Units of the boxes and points in a family's answers.
enum class PlaceUnits {
  kNone,          // answers hold none
  kThousandths,   // thousandths of the picture's width and height
  kResizedPixels  // pixels of the picture as resized for its overview
};

struct Family {
  const char* name = "";
  VisionFamily vision;
  /// Adds keys and tensors of a random model's mmproj file that not all families have.
  void (*describe)(const VisionConfig& config, GgufHeaderWriter* file, ShapeTensors* tensors) = nullptr;
  /// Adds the tensors of a layer, whose names begin with `at`.
  void (*describe_layer)(const VisionConfig& config, std::string_view at, ShapeTensors* tensors) = nullptr;
  std::span<const std::string_view> picture_tokens = {};  // special tokens of a random model's vocabulary
  int32_t named_tiles = 0;                                // per side: tile_token of each tile, after picture_tokens
  const char* tile_token = "<row_%d_col_%d>";
  std::string_view end_token = "<|im_end|>";  // end of an answer, in the vocabulary
  bool speaks_vicuna = false;                 // uses Vicuna's turns, else ChatML's
  ClipRules clips = {};                       // most_frames 0: the family takes no clips
  PlaceUnits places = PlaceUnits::kNone;
  std::span<const ModelShape> shapes;
};

/// A layer as bind_plain_layer() reads it, with all biases.
void describe_plain_layer(const VisionConfig& config, std::string_view at, ShapeTensors* tensors);

/// Returns all families.
std::span<const Family* const> families();
std::span<const VisionFamily* const> vision_families();

/// Returns the family of this name, as "SmolVLM"; an empty one if there is none.
const Family& find_family(std::string_view name);
/// Returns the family of a config; null for one without a vision part.
const Family* family_of(const VisionConfig& config);

}  // namespace ocellus
