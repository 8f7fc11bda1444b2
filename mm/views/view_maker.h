// ViewMaker: rows of a picture come in as they are stored, what its views are cut from comes out: the tiled image and
// the overview, as bytes. The picture itself is never held.
#pragma once

#include "mm/pictures/resize.h"
#include "mm/views/preprocess.h"

namespace ocellus {

/// The margins that make the source of a canvas a square; `columns`: those to its left and right.
Margins square_margins(const PreprocessConfig& config, const Canvas& canvas, Size source, bool columns);

/// Puts the margins of a square around the rows that come.
class SquareRows final : public RowConsumer {
 public:
  static int64_t scratch_bytes(int64_t square) { return 3 * square; }
  /// `along`: the margins of a row that comes; `across`: those before and after all rows, in their order.
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
  /// Scratch for any picture within the limits, turned or not.
  static int64_t scratch_bytes(const PreprocessConfig& config, const ImageLimits& limits);

  /// What the views of any picture are cut from: it lies at the beginning of the scratch.
  static int64_t result_bytes(const PreprocessConfig& config);

  /// `plan` is that of the picture as it is seen. The scratch is in use as long as the views are. kFull if it is too
  /// small.
  Status begin(const PreprocessConfig& config, const ViewPlan& plan, const Orientation& orientation, Extent scratch);
  void take(const uint8_t* row) override;
  /// All rows have come. kInternal if they were too few.
  Status finish(PreparedViews* out);

 private:
  /// What makes one canvas of the rows of its source.
  struct Stage {
    PixelWriter writer;
    PillowResize resizes[2];
    SquareRows square;
  };
  Status begin_canvas(const Canvas& canvas, Size source, const RgbImage& image, Stage& stage, RowConsumer** first);
  Status begin_square(const Canvas& canvas, RowConsumer& out, Stage& stage);
  /// A piece of what is left of the scratch.
  Status take_piece(int64_t bytes, Extent* piece);
  Status take_image(const Canvas& canvas, RgbImage* image);
  PixelWriter writer(const RgbImage& image, const Canvas& canvas) const;

  PreprocessConfig config_;
  ViewPlan plan_;
  Orientation orientation_;
  RowOrder order_;
  Extent rest_;
  Extent resizing_;     // what is left when the images are taken
  int32_t length_ = 0;  // of a row that comes
  int32_t rows_left_ = 0;
  uint8_t* reversed_ = nullptr;  // a row from right to left
  RgbImage tiles_, overview_;
  Stage to_tiles_, to_overview_;
  RowConsumer* outs_[2] = {};
};

}  // namespace ocellus
