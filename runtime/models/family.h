// Family: what is one model family's own, as data and plain functions. One source a family in this folder, and one
// line in families.cpp.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "mm/tower/vision_model.h"
#include "runtime/models/shape_tensors.h"
#include "runtime/models/text_model.h"

namespace ocellus {

/// For bounds of resizes: the longest side of any picture within the limits.
inline int64_t longest_side(const ImageLimits& limits) {
  return std::min<int64_t>(limits.max_side, max_side_sum(limits));
}

/// The numbers of a public model's card.
struct ModelShape {
  const char* name = "";
  TextConfig text;           // of rope, only the base is used
  bool tied = false;         // the unembedding is the embedding
  VisionConfig vision = {};  // layer_count 0: no vision part

  bool has_vision() const { return vision.layer_count > 0; }
};

struct Family {
  const char* name = "";
  VisionFamily vision;
  /// Of a made-up pair: keys and tensors of its mmproj file that not all families have.
  void (*describe)(const VisionConfig& config, GgufHeaderWriter* file, ShapeTensors* tensors) = nullptr;
  std::span<const std::string_view> picture_tokens = {};  // special tokens of its made-up vocabulary
  int32_t named_tiles = 0;                                // per side: "<row_1_col_1>" and so on, after these
  std::string_view end_token = "<|im_end|>";              // of an answer, one of its vocabulary
  bool speaks_vicuna = false;                             // its turns, else ChatML's
  std::span<const ModelShape> shapes;
};

/// All families, and their vision halves.
std::span<const Family* const> families();
std::span<const VisionFamily* const> vision_families();

/// The family of this name, as "SmolVLM"; one without anything where there is none.
const Family& find_family(std::string_view name);
/// The family of a config; null for one without a vision part.
const Family* family_of(const VisionConfig& config);

}  // namespace ocellus
