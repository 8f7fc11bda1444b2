// Preprocessing: a picture of any size becomes a few square views, normalised.
//
//   views: tiles row by row, then the overview; without tiling only the overview
//
// Two flavours are those of SmolVLM and Idefics3. kLlamaCpp does what llama.cpp does: the tiled image is a bicubic
// resize without antialias, centred on black; the overview is an align-corner bilinear stretch of the original.
// kHuggingFace does what transformers' PIL based Idefics3 processor does: Lanczos with antialias, longest side to
// longest_edge, then both sides up to multiples of image_size; the overview is made from the tiled image.
// kLlava is what LLaVA-1.5 was trained with (image_aspect_ratio "pad"): the picture in the middle of a square of the
// mean colour, which becomes one view by Pillow's bicubic resize with antialias. See mm/pictures/resize.h.
//
//   plan_views -> ViewMaker (mm/views/view_maker.h), once a picture, while its rows come -> render_view, once a view
#pragma once

#include <cstdint>

#include "mm/pictures/resize.h"
#include "mm/pictures/rgb_image.h"
#include "platform/arena.h"
#include "platform/status.h"
#include "platform/views.h"

namespace ocellus {

enum class ResizeFlavour : uint8_t { kLlamaCpp, kHuggingFace, kLlava };

struct PreprocessConfig {
  int32_t image_size = 0;    // side of a view in pixels (clip.vision.image_size), 1..4096
  int32_t longest_edge = 0;  // clip.vision.preproc_image_size; 0: no tiling, as LLaVA has none
  float mean[3] = {0.5f, 0.5f, 0.5f};
  float std[3] = {0.5f, 0.5f, 0.5f};
  ResizeFlavour flavour = ResizeFlavour::kLlamaCpp;
  int32_t max_views = 0;  // a picture that gives more is refused; 0: whatever max_view_count says
};

/// At most this many tiles along one side, so that a crafted longest_edge cannot ask for a million views.
inline constexpr int32_t kMaxTilesPerSide = 16;

/// Hugging Face resizes no picture to more.
inline constexpr int32_t kHuggingFaceMaxSide = 4096;

/// What stands around the views of a picture in a prompt, see mm/views/image_prompt.h.
enum class ViewMarks : uint8_t { kIdefics3, kNone };
ViewMarks view_marks(ResizeFlavour flavour);

/// How one picture is cut. Pure arithmetic on sizes.
struct ViewPlan {
  ViewMarks marks = ViewMarks::kIdefics3;
  int32_t tile_rows = 0;  // 0 x 0: no tiles
  int32_t tile_cols = 0;
  int32_t view_count = 0;  // tile_rows * tile_cols + 1: the last view is the overview
  Size source;             // the picture
  Size step;               // Hugging Face only: after the first resize (longest side to longest_edge)
  Size grid;               // the tiled image, multiples of image_size; 0 x 0 without tiles
  Size inner;              // llama.cpp only: the picture inside the grid, the rest is black
  int32_t square = 0;      // LLaVA only: side of the square around the picture
  int32_t inner_left = 0;  // in the grid or the square
  int32_t inner_top = 0;
};

/// kUnsupported with a sentence if the numbers of the model file cannot be used: sizes out of range, more than
/// kMaxTilesPerSide tiles a side, a mean or std that is not finite, a std that is not positive.
Status check_preprocess(const PreprocessConfig& config);

/// The largest view_count any picture may give (max_views if that is smaller and not 0).
int32_t max_view_count(const PreprocessConfig& config);

/// kFull if the picture gives more views than config.max_views; kBadImage if a side is not positive.
Status plan_views(const PreprocessConfig& config, int32_t width, int32_t height, ViewPlan* plan);

/// Scratch of a picture on its way from a file or frame within the limits to its views: see ViewMaker and
/// decode_rows_scratch_bytes.
int64_t image_scratch_bytes(const PreprocessConfig& config, const ImageLimits& limits);

/// A picture ready for rendering: valid as long as the scratch it was made in is.
struct PreparedViews {
  ViewPlan plan;
  RgbImage grid;      // the tiled image; none without tiles
  RgbImage overview;  // the last view
};

/// Writes one view as planar floats (x / 255 - mean) / std: out [3 * image_size, image_size], rows of red, then green,
/// then blue. Views may be rendered in any order, one at a time.
Status render_view(const PreprocessConfig& config, const PreparedViews& prepared, int32_t view_index,
                   DeviceView<float> out);

}  // namespace ocellus
