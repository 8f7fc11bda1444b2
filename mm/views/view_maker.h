// ViewMaker: converts arriving rows of a picture, as stored, to the images that its views are cut from: the tiled image
// and the overview, as bytes. The picture itself is never held.
#pragma once

#include "mm/pictures/resize.h"
#include "mm/views/preprocess.h"

namespace ocellus {

/// Returns the margins that make the source of a canvas a square; `columns`: those to its left and right.
Margins square_margins(const PreprocessConfig& config, const Canvas& canvas, Size source, bool columns);

/// Adds the margins of a square to arriving rows.
class SquareRows final : public RowConsumer {
 public:
  static int64_t scratch_bytes(int64_t square) { return 3 * square; }
  /// `along`: the margins of an arriving row; `across`: those before and after all rows, in their order.
  void begin(const Margins& along, const Margins& across, int32_t length, int32_t rows, RowConsumer& out, uint8_t* row);
  void take(const uint8_t* row) override;

 private:
  void give_margin(int64_t rows);

  Margins along_, across_;
  int32_t length_ = 0;
  int64_t rows_left_ = 0;
  int64_t after_ = -1;  // rows of the margin after them
  RowConsumer* out_ = nullptr;
  uint8_t* row_ = nullptr;
};

class ViewMaker final : public RowConsumer {
 public:
  /// Scratch for any picture within the limits, rotated or not.
  static int64_t scratch_bytes(const PreprocessConfig& config, const ImageLimits& limits);

  /// Bytes of the images at the beginning of the scratch, for any picture within the limits.
  static int64_t result_bytes(const PreprocessConfig& config, const ImageLimits& limits);

  /// `plan` is that of the picture after rotation. The scratch is in use as long as the views. kFull if it is too
  /// small.
  Status begin(const PreprocessConfig& config, const ViewPlan& plan, const Orientation& orientation, Extent scratch);
  void take(const uint8_t* row) override;
  /// Ends the picture. kInternal if rows are missing.
  Status finish(PreparedViews* out);

 private:
  /// Converts rows of the source to one canvas.
  struct Stage {
    PixelWriter writer;
    PillowResize resizes[2];
    SquareRows square;
  };
  Status begin_canvas(const Canvas& canvas, Size source, const RgbImage& image, Stage& stage, RowConsumer** first);
  Status begin_square(const Canvas& canvas, RowConsumer& out, Stage& stage);
  /// Takes a piece of the remaining scratch.
  Status take_piece(int64_t bytes, Extent* piece);
  Status take_image(const Canvas& canvas, RgbImage* image);
  PixelWriter writer(const RgbImage& image, const Canvas& canvas) const;

  PreprocessConfig config_;
  ViewPlan plan_;
  Orientation orientation_;
  RowOrder order_;
  Extent rest_;
  Extent resizing_;     // scratch left after the images
  int32_t length_ = 0;  // pixels of an arriving row
  int32_t rows_left_ = 0;
  uint8_t* reversed_ = nullptr;  // a reversed row
  RgbImage tiles_, overview_;
  Stage to_tiles_, to_overview_;
  RowConsumer* outs_[2] = {};
};

}  // namespace ocellus
