// Shapes of the calls of attend_rows that tests make, and the attention of one query.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/attention/attend_rows.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"

namespace ocellus::test {

/// What the rows see of each other where that is listed.
enum class Listed {
  kNot,
  kWindow,    // so many rows back
  kPictures,  // rows of a picture see all of it, others what came before
  kBlocks,    // only the rows of their block
  kEarlier,   // nothing as late as they are
  kAnything
};

struct RowsShape {
  int64_t rows;  // of a sequence
  int32_t heads, kv_heads, dim;
  bool causal;
  std::vector<std::pair<int32_t, int32_t>> runs;  // live slots, capacity
  int64_t first_row = 0;                          // of the chunk
  int64_t later_rows = 0;                         // chunk rows behind the last query row
  int64_t sequences = 1;
  bool side_by_side = false;  // own rows lie as the vision tower has them: query, key and value of a row together
  int64_t check_every = 1;    // of the pairs of row and head
  Listed listed = Listed::kNot;
  bool biased = false;  // some own rows count more than once
  int64_t row_count() const { return first_row + rows + later_rows; }
};

/// What each query row sees, by the shape.
inline std::vector<RowSpan> draw_spans(const RowsShape& shape, Random& random) {
  std::vector<RowSpan> spans;
  const auto row_count = static_cast<int32_t>(shape.row_count());
  const auto window = static_cast<int32_t>(random.integer(1, 100));
  int32_t begin = 0, end = 0;  // of the picture or the block
  for (int32_t row = 0; row < row_count; ++row) {
    if (row == end) {
      begin = row;
      end = static_cast<int32_t>(std::min<int64_t>(row_count, row + random.integer(1, 150)));
      if (shape.listed == Listed::kPictures && random.integer(0, 1) == 0) end = row + 1;  // text
    }
    RowSpan span = {begin, end};
    if (shape.listed == Listed::kWindow) span = {std::max(0, row + 1 - window), row + 1};
    if (shape.listed == Listed::kPictures) span.begin = 0;
    if (shape.listed == Listed::kEarlier) span = {std::max(0, row / 2 - window), row / 2 + 1};
    if (shape.listed == Listed::kAnything) {
      const RowSpan before = spans.empty() ? RowSpan{0, 1} : spans.back();
      span.begin = static_cast<int32_t>(random.integer(before.begin, std::min(row, before.begin + 5)));
      span.end = static_cast<int32_t>(random.integer(std::max(row + 1, before.end), row_count));
      if (random.integer(0, 9) > 0) span.end = std::max(row + 1, before.end);
    }
    if (row >= shape.first_row && row < shape.first_row + shape.rows) spans.push_back(span);
  }
  return spans;
}

/// An expected value, and the weighted mean of the magnitudes it is made of.
struct Expected {
  double value = 0, size = 0;
};

/// As attend, which knows no sizes.
inline std::vector<Expected> attend_with_sizes(const float* query, const std::vector<Slot>& slots, int64_t dim) {
  const std::vector<double> values = attend(query, slots, dim);
  std::vector<Half> sizes(slots.size() * static_cast<size_t>(dim));
  std::vector<Slot> sized = slots;
  for (size_t i = 0; i < slots.size(); ++i) {
    Half* const size = sizes.data() + i * static_cast<size_t>(dim);
    for (int64_t e = 0; e < dim; ++e) size[e].bits = slots[i].value[e].bits & 0x7FFF;
    sized[i].value = size;
  }
  const std::vector<double> means = attend(query, sized, dim);
  std::vector<Expected> out;
  for (size_t e = 0; e < values.size(); ++e) out.push_back({values[e], means[e]});
  return out;
}

#define OCELLUS_CAPTURE_SHAPE(shape)       \
  CAPTURE(shape.rows);                     \
  CAPTURE(shape.heads);                    \
  CAPTURE(shape.kv_heads);                 \
  CAPTURE(shape.dim);                      \
  CAPTURE(shape.causal);                   \
  CAPTURE(static_cast<int>(shape.listed)); \
  CAPTURE(shape.first_row);                \
  CAPTURE(shape.sequences)

}  // namespace ocellus::test
