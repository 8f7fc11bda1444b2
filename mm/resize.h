// Resizing RGB8 pictures, bit for bit as the two reference pipelines do it, one output row at a time so that nobody
// has to hold a second picture.
#pragma once

#include <cstdint>

#include "kernels/picture.h"
#include "mm/rgb_image.h"
#include "platform/arena.h"
#include "platform/status.h"

namespace ocellus {

struct Size {
  int32_t width = 0;
  int32_t height = 0;
  friend constexpr bool operator==(const Size&, const Size&) = default;
};

/// llama.cpp's "bilinear": corners aligned, no antialias, float arithmetic, truncated. Writes row y of `target`:
/// 3 * target.width bytes. A target of the source's size comes out as a copy, in both functions.
void stretch_row_bilinear(const RgbImage& source, Size target, int32_t y, uint8_t* row);

/// llama.cpp's "bicubic": Lagrange cubics through 4 x 4 neighbours starting at the floor of the coordinate, no
/// half-pixel shift, no antialias, rounded. Writes columns [first, first + count) of row y: 3 * count bytes.
void stretch_row_bicubic(const RgbImage& source, Size target, int32_t y, int32_t first, int32_t count, uint8_t* row);

/// Rows of a picture from top to bottom. `row(y)` is called with y = 0, 1, 2, ... and stays valid until the next call.
class RowSource {
 public:
  virtual const uint8_t* row(int32_t y) = 0;

 protected:
  ~RowSource() = default;
};

class ImageRows final : public RowSource {
 public:
  explicit ImageRows(const RgbImage& image) : image_(image) {}
  const uint8_t* row(int32_t y) override { return image_.row(y); }

 private:
  RgbImage image_;
};

/// Pillow's Image.resize: separable antialiased filter, horizontal pass first, 22-bit fixed-point weights, 8 bits
/// between the passes; a side that keeps its length is not filtered. Reads the source top down and keeps only the rows
/// the vertical window needs, so resizes can be chained. Source: src/libImaging/Resample.c of Pillow 3 to 12; Pillow 13
/// filters some tall pictures vertically first: those come out differently.
class PillowResize final : public RowSource {
 public:
  /// Scratch for one resize; about 24 bytes a source column plus the window's rows of the target's width.
  static int64_t scratch_bytes(Size source, Size target, Filter filter);

  /// `scratch` is used until the last row is out; `rows` gives source.height rows. kFull if the scratch is too small.
  Status begin(RowSource& rows, Size source, Size target, Filter filter, Extent scratch);

  /// Row y of the target, y = 0, 1, 2, ...
  const uint8_t* row(int32_t y) override;

 private:
  // The source pixels that one target pixel averages.
  struct Window {
    int32_t first;
    int32_t count;
  };
  bool filters_columns() const { return source_.width != target_.width; }
  bool filters_rows() const { return source_.height != target_.height; }
  int64_t row_bytes() const { return int64_t{3} * target_.width; }
  int64_t lay_out(std::byte* memory);
  Window make_weights(int32_t source, int32_t target, int32_t at, int32_t* weights);
  const uint8_t* filter_columns(const uint8_t* input, uint8_t* output) const;
  uint8_t* ring_row(int32_t y) { return ring_ + y % ring_rows_ * row_bytes(); }

  RowSource* rows_ = nullptr;
  Size source_;
  Size target_;
  Filter filter_ = Filter::kLanczos;
  int32_t column_capacity_ = 0;  // most pixels in a window along a row
  int32_t ring_rows_ = 0;        // most rows in a window
  int32_t rows_read_ = 0;
  double* exact_weights_ = nullptr;    // of one window, before rounding
  int32_t* column_weights_ = nullptr;  // [target.width, column_capacity]
  Window* column_windows_ = nullptr;   // [target.width]
  int32_t* row_weights_ = nullptr;     // of one target row
  int32_t* sums_ = nullptr;            // [3 * target.width]
  uint8_t* ring_ = nullptr;            // [ring_rows, 3 * target.width], already filtered along the row
  uint8_t* output_ = nullptr;          // [3 * target.width]
};

}  // namespace ocellus
