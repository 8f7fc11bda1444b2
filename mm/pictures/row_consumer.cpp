#include "mm/pictures/row_consumer.h"

#include <cstring>

namespace ocellus {

void PixelWriter::take(const uint8_t* row) {
  uint8_t* to = place_.first;
  place_.first += place_.down_bytes;
  if (place_.across_bytes == 3) {
    std::memcpy(to, row, static_cast<size_t>(length_) * 3);
    return;
  }
  for (int32_t x = 0; x < length_; ++x, row += 3, to += place_.across_bytes) {
    to[0] = row[0];
    to[1] = row[1];
    to[2] = row[2];
  }
}

void feed_rows(const RgbImage& image, RowConsumer& rows) {
  for (int32_t y = 0; y < image.height; ++y) rows.take(image.row(y));
}

}  // namespace ocellus
