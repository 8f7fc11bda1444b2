// RowConsumer: what takes a picture row by row, so that nobody has to hold all of it.
#pragma once

#include <cstdint>

#include "mm/pictures/rgb_image.h"

namespace ocellus {

class RowConsumer {
 public:
  /// The next row, RGB8, as it is stored: from the file's first row to its last. It is there during the call only.
  virtual void take(const uint8_t* row) = 0;

 protected:
  ~RowConsumer() = default;
};

/// Writes rows of `length` pixels where they belong.
class PixelWriter final : public RowConsumer {
 public:
  PixelWriter() = default;
  PixelWriter(const StoredPixels& place, int32_t length) : place_(place), length_(length) {}
  void take(const uint8_t* row) override;

 private:
  StoredPixels place_;
  int32_t length_ = 0;
};

/// Gives a consumer every row of a picture in memory.
void feed_rows(const RgbImage& image, RowConsumer& rows);

}  // namespace ocellus
