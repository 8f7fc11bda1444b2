// Resizing RGB8 pictures, bit for bit as the two reference pipelines do it, while their rows come, so that nobody has
// to hold a picture as it was.
//
// Rows come as they are stored. Where a picture is turned, what comes are its rows from below or its columns; each
// resize then does its own sums in that order, and what it hands on are rows from below or columns, too. So a picture
// that is turned meanwhile equals to the bit one that was turned before. All sizes are those of what is seen.
#pragma once

#include <cstdint>

#include "kernels/vision/picture.h"
#include "mm/pictures/row_consumer.h"
#include "platform/arena.h"
#include "platform/status.h"

namespace ocellus {

struct Size {
  int32_t width = 0;
  int32_t height = 0;
  friend constexpr bool operator==(const Size&, const Size&) = default;
};

/// What the rows that come are of the picture that is seen.
struct RowOrder {
  bool are_columns = false;
  bool backwards = false;  // from the last one to the first
};

/// The sides of source and target in the order of rows.
struct RowSizes {
  int32_t source_length;  // pixels of a row that comes
  int32_t source_rows;
  int32_t target_length;
  int32_t target_rows;
  RowSizes(Size source, Size target, const RowOrder& order)
      : source_length(order.are_columns ? source.height : source.width),
        source_rows(order.are_columns ? source.width : source.height),
        target_length(order.are_columns ? target.height : target.width),
        target_rows(order.are_columns ? target.width : target.height) {}
};

/// kBadArgument if a side is not positive; kFull if the scratch is too small.
Status check_resize(Size source, Size target);
Status check_resize_scratch(Size source, Size target, int64_t needed_bytes, Extent scratch);

/// llama.cpp's two resizes; a target of the source's size comes out as a copy. Scratch: the last rows and one more.
///
/// kLinear   "bilinear": corners aligned, no antialias, float arithmetic, truncated
/// kCubic    "bicubic": Lagrange cubics through 4 x 4 neighbours starting at the floor of the coordinate, no half-pixel
///           shift, no antialias, rounded
class Stretch final : public RowConsumer {
 public:
  enum class Kind : uint8_t { kLinear, kCubic };
  static int64_t scratch_bytes(Size source, Size target, const RowOrder& order, Kind kind);

  /// `scratch` is used until the last row has come. kFull if it is too small, kBadArgument for sides that are not
  /// positive.
  Status begin(Size source, Size target, const RowOrder& order, Kind kind, RowConsumer& out, Extent scratch);
  void take(const uint8_t* row) override;

 private:
  struct Taps {
    int32_t at[4];  // source lines: 2 or 4 of them, in the order of the picture
    float t;
  };
  int32_t tap_count() const { return kind_ == Kind::kLinear ? 2 : 4; }
  Taps taps(int32_t source, int32_t target, int32_t index) const;
  int32_t row_of(int32_t line) const { return order_.backwards ? sizes_.source_rows - 1 - line : line; }
  const uint8_t* kept(int32_t line) const { return ring_ + row_of(line) % tap_count() * row_bytes_; }
  bool find_next();
  void make_row();

  RowSizes sizes_{{}, {}, {}};
  RowOrder order_;
  Kind kind_ = Kind::kLinear;
  RowConsumer* out_ = nullptr;
  int64_t row_bytes_ = 0;  // of a source row
  int32_t rows_read_ = 0;
  int32_t next_ = 0;  // row of the target, as they are made
  Taps next_taps_ = {};
  uint8_t* ring_ = nullptr;
  uint8_t* output_ = nullptr;
};

/// Pillow's Image.resize: separable antialiased filter, horizontal pass first, 22-bit fixed-point weights, 8 bits
/// between the passes; a side that keeps its length is not filtered. Keeps only the rows that the window across them
/// needs, so resizes can be chained. Source: src/libImaging/Resample.c of Pillow 3 to 12; Pillow 13 filters some tall
/// pictures vertically first: those come out differently.
class PillowResize final : public RowConsumer {
 public:
  /// Scratch for one resize; about 24 bytes a pixel of a row, and the window's rows: of the target's length or, where
  /// columns come, of the source's.
  static int64_t scratch_bytes(Size source, Size target, const RowOrder& order, Filter filter);

  /// As Stretch::begin.
  Status begin(Size source, Size target, const RowOrder& order, Filter filter, RowConsumer& out, Extent scratch);
  void take(const uint8_t* row) override;

 private:
  // The source pixels that one target pixel averages.
  struct Window {
    int32_t first;
    int32_t count;
  };
  bool filters_along() const { return sizes_.source_length != sizes_.target_length; }
  bool filters_across() const { return sizes_.source_rows != sizes_.target_rows; }
  /// Columns that come are filtered across first: that is the picture's horizontal pass.
  int64_t kept_bytes() const { return int64_t{3} * (order_.are_columns ? sizes_.source_length : sizes_.target_length); }
  int64_t lay_out(std::byte* memory);
  Window make_weights(int32_t source, int32_t target, int32_t at, int32_t* weights);
  const uint8_t* filter_along(const uint8_t* input, uint8_t* output) const;
  void find_next();
  void make_row();
  uint8_t* ring_row(int32_t row) { return ring_ + row % ring_rows_ * kept_bytes(); }

  RowSizes sizes_{{}, {}, {}};
  RowOrder order_;
  Filter filter_ = Filter::kLanczos;
  RowConsumer* out_ = nullptr;
  int32_t along_capacity_ = 0;  // most pixels in a window along a row
  int32_t ring_rows_ = 0;       // most rows in a window
  int32_t rows_read_ = 0;
  int32_t next_ = 0;  // row of the target, as they are made
  Window next_window_ = {};
  double* exact_weights_ = nullptr;   // of one window, before rounding
  int32_t* along_weights_ = nullptr;  // [target length, along_capacity]
  Window* along_windows_ = nullptr;   // [target length]
  int32_t* across_weights_ = nullptr;
  int32_t* sums_ = nullptr;    // of a kept row
  uint8_t* ring_ = nullptr;    // [ring_rows, kept row]
  uint8_t* output_ = nullptr;  // of a kept row
  uint8_t* turned_ = nullptr;  // of a target row, where columns come
};

}  // namespace ocellus
