// Resizing of RGB8 pictures, bit-equal to Pillow, while their rows arrive, so that the source picture is never held.
//
// Rows arrive as stored. For a rotated picture these are its rows from below, or its columns; each resize computes the
// same sums in that order, and passes on rows from below or columns, too. So the result is bit-equal to resizing the
// rotated picture. All sizes are those after rotation.
#pragma once

#include <cstdint>

#include "kernels/vision/picture.h"
#include "kernels/vision/picture_rows.h"
#include "mm/pictures/row_consumer.h"
#include "platform/arena.h"
#include "platform/status.h"

namespace ocellus {

struct Size {
  int32_t width = 0;
  int32_t height = 0;
  friend constexpr bool operator==(const Size&, const Size&) = default;
};

/// The meaning of arriving rows in the rotated picture.
struct RowOrder {
  bool are_columns = false;
  bool backwards = false;  // from the last row to the first
};

/// Sides of source and target in the order of rows.
struct RowSizes {
  int32_t source_length;  // pixels of an arriving row
  int32_t source_rows;
  int32_t target_length;
  int32_t target_rows;
  RowSizes(Size source, Size target, const RowOrder& order)
      : source_length(order.are_columns ? source.height : source.width),
        source_rows(order.are_columns ? source.width : source.height),
        target_length(order.are_columns ? target.height : target.width),
        target_rows(order.are_columns ? target.width : target.height) {}
};

/// Pillow's Image.resize: separable antialiased filter, horizontal pass first, 22-bit fixed-point weights, 8 bits
/// between the passes; a side that keeps its length is not filtered. Keeps only the rows of the vertical window or, if
/// that takes less, the sums of unfinished target rows, so resizes can be chained. Source: src/libImaging/Resample.c of
/// Pillow 3 to 12.
///
/// Pillow 13.0.0 filters vertically first where a picture's height shrinks and its width grows or shrinks less, which
/// changes results by up to 27 levels of 255 on fine patterns: 640 x 480 becomes 644 x 476 in Qwen2.5-VL. Ours stays
/// with the order of 3 to 12: models were trained with it, and torchvision, which the fast processors of transformers
/// use, lies within 2 levels of it at every size (tests/data/images/orders.json).
class PillowResize final : public RowConsumer {
 public:
  /// Maximum number of target rows, for a target not larger than the source, that one source row contributes to.
  static constexpr int32_t kMaxOverlap = 8;

  /// Scratch for one resize: weights and channels of a row, and the window's rows, at most 4 * kMaxOverlap of them:
  /// of the target's length or, if columns arrive, of the source's.
  static int64_t scratch_bytes(Size source, Size target, const RowOrder& order, Filter filter);

  /// `scratch` is in use until the last row has arrived. kFull if it is too small, kBadArgument for sides that are not
  /// positive.
  Status begin(Size source, Size target, const RowOrder& order, Filter filter, RowConsumer& out, Extent scratch);
  void take(const uint8_t* row) override;

 private:
  bool filters_along() const { return sizes_.source_length != sizes_.target_length; }
  bool filters_across() const { return sizes_.source_rows != sizes_.target_rows; }
  /// Arriving columns are filtered across first: that is the picture's horizontal pass.
  int64_t kept_bytes() const { return int64_t{3} * (order_.are_columns ? sizes_.source_length : sizes_.target_length); }
  int64_t lay_out(std::byte* memory);
  FilterWindow make_weights(int32_t source, int32_t target, int32_t at, int32_t* weights);
  const uint8_t* filtered_along(const uint8_t* row, uint8_t* output) const;
  /// Computes the window of row `at` of the target, in order of arrival, and its weights.
  FilterWindow make_window(int32_t at, int32_t* weights);
  void find_next();
  void add_row(const uint8_t* row);
  void make_row();
  /// Passes on the finished row of kept values in output_.
  void give();
  uint8_t* ring_row(int32_t row) { return ring_ + row % ring_rows_ * kept_bytes(); }

  RowSizes sizes_{{}, {}, {}};
  RowOrder order_;
  Filter filter_ = Filter::kLanczos;
  RowConsumer* out_ = nullptr;
  AlongFilter along_;
  int32_t ring_rows_ = 0;  // maximum rows in a window
  int32_t overlap_ = 0;    // number of target rows whose sums are kept; 0: source rows are kept
  int32_t rows_read_ = 0;
  int32_t next_ = 0;     // next row of the target
  int32_t started_ = 0;  // number of target rows whose sums are begun
  int32_t windows_made_ = 0;
  FilterWindow next_window_ = {};
  double* exact_weights_ = nullptr;         // weights of one window, before rounding
  int32_t* along_weights_ = nullptr;        // the same, rounded
  FilterWindow* across_windows_ = nullptr;  // [overlap]
  int32_t* across_weights_ = nullptr;       // [overlap or 1, ring_rows]
  int32_t* sums_ = nullptr;                 // [overlap, kept row]
  uint8_t* ring_ = nullptr;                 // [ring_rows or 1, kept row]
  uint8_t* output_ = nullptr;               // a row of kept values
  uint8_t* turned_ = nullptr;               // a reversed target row, if columns arrive
};

}  // namespace ocellus
