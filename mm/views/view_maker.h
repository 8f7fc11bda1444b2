// ViewMaker: rows of a picture come in as they are stored, what its views are cut from comes out: the tiled image and
// the overview, as bytes. The picture itself is never held.
#pragma once

#include "mm/pictures/resize.h"
#include "mm/views/preprocess.h"

namespace ocellus {

/// The margins that make the picture of a plan a square; `columns`: those to its left and right.
Margins square_margins(const PreprocessConfig& config, const ViewPlan& plan, bool columns);

/// Puts LLaVA's margins around the rows that come.
class SquareRows final : public RowConsumer {
 public:
  static int64_t scratch_bytes(const ViewPlan& plan) { return int64_t{3} * plan.square; }
  /// `along`: the margins of a row that comes; `across`: those before and after all rows, in their order.
  void begin(const Margins& along, const Margins& across, int32_t length, int32_t rows, RowConsumer& out, uint8_t* row);
  void take(const uint8_t* row) override;

 private:
  void give_margin(int64_t rows);

  Margins along_, across_;
  int32_t length_ = 0;
  int64_t rows_left_ = 0;
  int64_t behind_ = -1;  // rows of the margin after them
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
  Status begin_llama_cpp();
  Status begin_hugging_face();
  Status begin_llava();
  /// A piece of what is left of the scratch.
  Status take_piece(int64_t bytes, Extent* piece);
  Status take_image(Size size, RgbImage* image);
  /// Into `size` pixels of an image that was taken, from `left` and `top` on.
  PixelWriter writer(const RgbImage& image, Size size, int32_t left = 0, int32_t top = 0) const;
  Status begin_stretch(Stretch::Kind kind, Size target, RowConsumer& out, Stretch* stretch);
  Status begin_resize(Size source, Size target, Filter filter, RowConsumer& out, PillowResize* resize);

  PreprocessConfig config_;
  ViewPlan plan_;
  Orientation orientation_;
  RowOrder order_;
  Extent rest_;
  Extent resizing_;     // what is left when the images are taken
  int32_t length_ = 0;  // of a row that comes
  int32_t rows_left_ = 0;
  uint8_t* reversed_ = nullptr;  // a row from right to left
  RgbImage grid_, overview_;
  PixelWriter to_grid_, to_overview_;
  Stretch cubic_, linear_;
  PillowResize first_, second_;
  SquareRows square_;
  RowConsumer* outs_[2] = {};
};

}  // namespace ocellus
