// Division of a picture into views, as data. A family's rules (ViewRules, one constant per family in runtime/models)
// turn the size of a picture into a ViewPlan; its execution, on the host (view_maker.h) and on a device
// (device_preprocess.h), is the same for all families.
#pragma once

#include <cstdint>

#include "mm/pictures/resize.h"
#include "mm/pictures/rgb_image.h"
#include "platform/status.h"

namespace ocellus {

struct ViewRules;

/// Maximum tiles along one side of a picture, so that a crafted file cannot require a million views.
inline constexpr int32_t kMaxTilesPerSide = 16;
inline constexpr int32_t kMaxTiledSizes = 32;

/// Preprocessing facts of a model file, and the caller's limit on tiles.
struct PreprocessConfig {
  const ViewRules* rules = nullptr;
  int32_t image_size = 0;    // side of a view in pixels (clip.vision.image_size), 1..4096
  int32_t view_rows = 0;     // rows of the language model per view, which form a square; at most if of any size
  int32_t planned_rows = 0;  // views of any size: bound of memory, which changes no view; 0: view_rows
  int32_t row_side = 0;      // pixels that such a row covers along each side, in views of any size; 0: all are squares
  int64_t min_pixels = 0;    // views of any size: smaller ones are enlarged
  int32_t clip_rows = 0;     // views of any size: at most of frames of clips; 0: those are as pictures
  const ViewRules* clip_views = nullptr;  // rules of frames of clips; null: those of pictures
  int32_t longest_edge = 0;               // clip.vision.preproc_image_size of tiled pictures; 0: no tiles
  int32_t min_tiles = 1;                  // clip.vision.preproc_min_tiles
  int32_t max_tiles = 0;                  // maximum tiles besides the overview, 1 or more; 0: given by the rules
  int32_t tiled_size_count = 0;
  Size tiled_sizes[kMaxTiledSizes];  // clip.vision.image_grid_pinpoints: the allowed sizes of a tiled image
  float mean[3] = {0.5f, 0.5f, 0.5f};
  float std[3] = {0.5f, 0.5f, 0.5f};
};

/// One resize on the way to an image that views are cut from.
struct Resize {
  Size to;
  Filter filter = Filter::kBicubic;
};

/// An image that views are cut from: its source, optionally centred in a square of the mean colour, resized once or
/// twice, on black.
struct Canvas {
  Size size;           // 0 x 0: the canvas is not used
  int32_t square = 0;  // side of the square around the source; 0: none
  int32_t resize_count = 0;
  Resize resizes[2];         // one after the other
  int32_t left = 0;          // position of the resized source
  int32_t top = 0;           //
  bool is_of_tiles = false;  // the source is the tiled image instead of the picture

  /// Returns an image that is its source stretched.
  static Canvas stretched(Size to, Filter filter) { return {.size = to, .resize_count = 1, .resizes = {{to, filter}}}; }
  Size inner() const { return resizes[resize_count - 1].to; }
};

/// Texts around the views of a picture, each tokenised by itself; text in <> or [] is one token of every vocabulary.
struct ImageMarks {
  const char* before = "";          // before the picture
  const char* before_tile = "";     // with the tile's row and column, from 1: "<row_%d_col_%d>"
  const char* after_tile_row = "";  // not after the last
  const char* before_overview = "";
  const char* before_only_view = nullptr;  // before an overview without tiles; null: before_overview
  const char* after = "";                  // after the picture
  int32_t line_breaks = 0;  // before and after all of it, tokenised together with the texts around the picture
};

/// The rows of all tiles together form one map, of whose lines the middle part is kept. Each line then ends with a row
/// of the model's own (LLaVA-1.6's image_newline). Or a map of a picture's only view, whose last line does not end so.
struct TileMap {
  int32_t lines = 0;  // kept lines
  int32_t cols = 0;
  int32_t top = 0;  // position of the kept part in the map
  int32_t left = 0;
  int64_t rows() const { return int64_t{lines} * (cols + 1); }
};

/// Places of a view's rows among those of its picture: `lines` pieces of `cols` rows each.
struct RowPlace {
  int64_t first = 0;  // index in the picture's rows
  int64_t stride = 0;
  int32_t lines = 1;
  int32_t cols = 0;
  int32_t from = 0;  // index in the view's rows
  int32_t from_stride = 0;
  bool is_empty() const { return lines <= 0 || cols <= 0; }
  bool is_whole(int64_t view_rows) const { return lines == 1 && cols == view_rows; }
};

/// The views of one picture: the tiles, row by row, and the overview; a picture without tiles has the overview only.
struct ViewPlan {
  const ViewRules* rules = nullptr;
  Size source;            // the picture
  int32_t tile_rows = 0;  // 0 x 0: no tiles
  int32_t tile_cols = 0;
  int32_t tile_side = 0;             // pixels of a tile's sides
  int32_t rows_per_tile = 0;         // rows of a tile, if it has others than the overview; 0: as many
  int32_t view_rows = 0;             // rows of the language model per view, with those that end its lines
  int32_t view_positions = 0;        // positions of those rows, which may share some; with a map each row has its own
  int32_t view_cols = 0;             // columns of the grid of those rows if its lines and columns are positions; else 0
  int32_t time = 0;                  // such a grid's time, counted from its first line and column
  int32_t earlier = 0;               // positions that the pictures before it in its block took, which it shares
  bool opens = true, closes = true;  // the texts before and after the picture are written
  Canvas tiles, overview;
  TileMap map;  // only with rules that have one

  /// Sets an image of a whole number of tiles with sides of `side` pixels.
  void set_tiles(const Canvas& canvas, int32_t side) {
    tiles = canvas;
    tile_side = side;
    tile_cols = canvas.size.width / side;
    tile_rows = canvas.size.height / side;
  }
  int32_t tile_count() const { return tile_rows * tile_cols; }
  /// The grid of the view's rows, whose lines and columns are positions, has more lines.
  bool is_tall() const { return view_cols > 0 && view_cols < view_positions; }
  /// Pixels of the overview, and of a view.
  Size view_size() const { return overview.size; }
  Size view_size(int32_t index) const { return index == overview_index() ? overview.size : Size{tile_side, tile_side}; }
  /// A view's rows in the language model, and the positions that they take.
  int32_t rows_of(int32_t index) const;
  int32_t positions_of(int32_t index) const;
  int32_t view_count() const { return tile_count() + 1; }
  /// Indices in the views of the overview, and of the first tile.
  int32_t overview_index() const;
  int32_t first_tile() const;
  /// Number of the picture's rows in the language model, and of the positions that they take.
  int64_t row_count() const;
  int64_t position_count() const;
  static RowPlace whole_view(int32_t rows) { return {.cols = rows, .from_stride = rows}; }
  /// Returns the view's place in the rows of the tiles' map, or in those of the view alone.
  RowPlace row_place(int32_t view_index) const;
};

/// Bounds of the plans of all pictures, so that memory can be planned beforehand.
struct ViewBounds {
  int32_t tiles = 0;         // per picture
  int32_t tile_rows = 0;     // rows of tiles
  int64_t rows = 0;          // rows in the language model
  int64_t positions = 0;     // positions of those rows; 0: each has its own
  int64_t tiled_pixels = 0;  // pixels of the tiled image
  int64_t resize_bytes = 0;  // host scratch of simultaneous resizes
  int64_t stage_pixels = 0;  // output of one resize pass on a device
  int32_t stages = 1;        // number of simultaneous outputs
  int32_t longest_side = 0;  // longest side of any resize's output
  int64_t view_pixels = 0;   // pixels of one view
};

/// A family's rules for dividing pictures.
struct ViewRules {
  const char* name = "";  // part of a picture's identity in the image library
  ImageMarks marks = {};
  bool overview_first = false;
  bool has_map = false, has_lines = false;  // tiles have a TileMap, after the overview; or the only view has one
  bool has_grid_positions = false;          // a row's line and column are its position in the language model
  /// Fills in all of a plan but rules, source and view_rows, and view_positions and view_cols where rows share some.
  /// Views of any size have their own view_rows.
  void (*plan)(const PreprocessConfig& config, ViewPlan* plan) = nullptr;
  void (*drop_tiles)(PreprocessConfig* config) = nullptr;  // leaves the overview only; null: pictures have no tiles
  /// view_pixels: of views of any size.
  ViewBounds (*bounds)(const PreprocessConfig& config, const ImageLimits& limits) = nullptr;
};

/// Bounds of the plans of all pictures within the limits, with their tiles or without.
ViewBounds view_bounds(const PreprocessConfig& config, const ImageLimits& limits);
/// The config of pictures that are seen as their overviews only.
PreprocessConfig of_overview(const PreprocessConfig& config);

inline int32_t ViewPlan::overview_index() const { return rules->overview_first ? 0 : tile_count(); }
inline int32_t ViewPlan::first_tile() const { return rules->overview_first ? 1 : 0; }

/// Number of tiles with sides of `side` pixels in an image of a whole number of them.
inline int32_t tile_count(Size tiled, int32_t side) { return tiled.width / side * (tiled.height / side); }

/// Number of lines of the square that a view's rows form.
int32_t line_count(int32_t view_rows);

/// kUnsupported if the numbers of the model file cannot be used: sizes out of range, more than kMaxTilesPerSide tiles a
/// side, a mean or std that is not finite, a std that is not positive.
Status check_preprocess(const PreprocessConfig& config);

/// Maximum views of any picture, and maximum rows in the language model.
int32_t max_view_count(const PreprocessConfig& config);
int64_t max_row_count(const PreprocessConfig& config);

/// kBadImage if a side is not positive.
Status plan_views(const PreprocessConfig& config, int32_t width, int32_t height, ViewPlan* plan);

/// Scratch bound for a family: a PillowResize of any picture with sides up to `source` to sides of which the longer has
/// `least` to `most` pixels, with the picture's aspect but for truncation (under one pixel too short), or stretched.
int64_t resize_bound_bytes(int64_t source, int64_t least, int64_t most);
/// Maximum pixels of a picture within the limits, resized horizontally only, to a longer side of `longest` at most.
int64_t narrowed_pixels(const ImageLimits& limits, int64_t longest);

}  // namespace ocellus
