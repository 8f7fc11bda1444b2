// RowConsumer: receives a picture row by row, so that it is never held as a whole.
#pragma once

#include <cstdint>

#include "mm/pictures/rgb_image.h"

namespace ocellus {

class RowConsumer {
 public:
  /// Takes the next row, RGB8, as stored: from the file's first row to its last. Valid during the call only.
  virtual void take(const uint8_t* row) = 0;

 protected:
  ~RowConsumer() = default;
};

/// Writes rows of `length` pixels to their places in a picture.
class PixelWriter final : public RowConsumer {
 public:
  PixelWriter() = default;
  PixelWriter(const StoredPixels& place, int32_t length) : place_(place), length_(length) {}
  void take(const uint8_t* row) override;

 private:
  StoredPixels place_;
  int32_t length_ = 0;
};

/// Passes every row of a picture in memory to a consumer.
void feed_rows(const RgbImage& image, RowConsumer& rows);

}  // namespace ocellus
