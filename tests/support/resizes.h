// Whole pictures through the resizes that take rows, in scratch of exactly the planned size.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "mm/pictures/resize.h"
#include "tests/support/pictures.h"

namespace ocellus::testing {

/// Keeps all rows of `row_bytes` bytes.
class RowKeeper final : public RowConsumer {
 public:
  explicit RowKeeper(int64_t row_bytes) : row_bytes_(row_bytes) {}
  void take(const uint8_t* row) override { bytes.insert(bytes.end(), row, row + row_bytes_); }
  std::vector<uint8_t> bytes;

 private:
  int64_t row_bytes_;
};

inline std::vector<uint8_t> pillow_resized(const RgbImage& image, Size target, Filter filter) {
  const Size source = {image.width, image.height};
  const GuardedScratch scratch(PillowResize::scratch_bytes(source, target, {}, filter));
  RowKeeper rows(int64_t{3} * target.width);
  PillowResize resize;
  REQUIRE(resize.begin(source, target, {}, filter, rows, scratch.extent()).ok());
  feed_rows(image, resize);
  REQUIRE(scratch.intact());
  REQUIRE(static_cast<int64_t>(rows.bytes.size()) == int64_t{3} * target.width * target.height);
  return rows.bytes;
}

}  // namespace ocellus::testing
