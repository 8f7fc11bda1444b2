// Sizes of pictures that towers take at any size, as the preprocessing of Qwen2-VL and its successors chooses them.
#pragma once

#include "mm/pictures/resize.h"

namespace ocellus {

/// Sizes that a tower takes: sides are multiples of `factor`, and there are min_pixels or more, if these are
/// not more than max_pixels, which are never exceeded.
struct SmartResize {
  int32_t factor = 0;  // pixels that a row of the language model covers along each side
  int64_t min_pixels = 0;
  int64_t max_pixels = 0;  // factor^2 or more
  bool rounds_up =
      false;  // a side of less than half a factor counts as one before the bounds are looked at, else as none

  int64_t most_rows() const { return max_pixels / (int64_t{factor} * factor); }
};

/// Returns the size that a picture is stretched to: its sides rounded to multiples, halves to even ones, or enlarged or
/// reduced with its aspect to the bounds. The published code goes beyond max_pixels where one side is as short as it
/// can be, or where an enlarged picture is rounded up; here the longer side is cut.
Size smart_size(const SmartResize& rules, Size picture);

}  // namespace ocellus
