// Pillow's resize (src/libImaging/Resample.c describes the arithmetic), streaming.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/vision/resample_math.h"
#include "mm/pictures/resize.h"
#include "mm/pictures/scratch_layout.h"

namespace ocellus {

using namespace picture;

int64_t PillowResize::lay_out(std::byte* memory) {
  ScratchLayout layout(memory);
  const int64_t length = sizes_.target_length;
  const double radius = filter_radius(filter_);
  along_capacity_ = filters_along() ? window_capacity(radius, sizes_.source_length, sizes_.target_length) : 0;
  ring_rows_ = filters_across() ? window_capacity(radius, sizes_.source_rows, sizes_.target_rows) : 0;
  layout.take(std::max(along_capacity_, ring_rows_), &exact_weights_);
  layout.take(filters_along() ? length * along_capacity_ : 0, &along_weights_);
  layout.take(filters_along() ? length : 0, &along_windows_);
  layout.take(ring_rows_, &across_weights_);
  layout.take(filters_across() ? kept_bytes() : 0, &sums_);
  layout.take(kept_bytes() * ring_rows_, &ring_);
  layout.take(filters_along() || filters_across() ? kept_bytes() : 0, &output_);
  layout.take(order_.are_columns && filters_along() ? 3 * length : 0, &turned_);
  return layout.bytes();
}

int64_t PillowResize::scratch_bytes(Size source, Size target, const RowOrder& order, Filter filter) {
  PillowResize resize;
  resize.sizes_ = {source, target, order};
  resize.order_ = order;
  resize.filter_ = filter;
  return resize.lay_out(nullptr) + ScratchLayout::kAlignment;
}

Status PillowResize::begin(Size source, Size target, const RowOrder& order, Filter filter, RowConsumer& out,
                           Extent scratch) {
  OCELLUS_TRY(check_resize(source, target));
  const int64_t needed = scratch_bytes(source, target, order, filter);
  OCELLUS_TRY(check_resize_scratch(source, target, needed, scratch));
  sizes_ = {source, target, order};
  order_ = order;
  filter_ = filter;
  out_ = &out;
  rows_read_ = next_ = 0;
  lay_out(ScratchLayout::align(scratch.data));
  for (int32_t x = 0; filters_along() && x < sizes_.target_length; ++x)
    along_windows_[x] =
        make_weights(sizes_.source_length, sizes_.target_length, x, along_weights_ + int64_t{x} * along_capacity_);
  if (filters_across()) find_next();
  return {};
}

PillowResize::Window PillowResize::make_weights(int32_t source, int32_t target, int32_t at, int32_t* weights) {
  const ResampleWindow window = resample_window(filter_radius(filter_), source, target, at);
  double sum = 0.0;
  for (int32_t i = 0; i < window.count; ++i) {
    exact_weights_[i] = filter_value(filter_, window.position(i));
    sum += exact_weights_[i];
  }
  for (int32_t i = 0; i < window.count; ++i) weights[i] = fixed_weight(exact_weights_[i], sum);
  return {window.first, window.count};
}

/// The window of the next row that is made, in the order in which rows come.
void PillowResize::find_next() {
  const int32_t line = order_.backwards ? sizes_.target_rows - 1 - next_ : next_;
  next_window_ = make_weights(sizes_.source_rows, sizes_.target_rows, line, across_weights_);
  if (!order_.backwards) return;
  next_window_.first = sizes_.source_rows - next_window_.first - next_window_.count;
  std::reverse(across_weights_, across_weights_ + next_window_.count);
}

const uint8_t* PillowResize::filter_along(const uint8_t* input, uint8_t* output) const {
  for (int32_t x = 0; x < sizes_.target_length; ++x) {
    const Window window = along_windows_[x];
    const int32_t* weights = along_weights_ + int64_t{x} * along_capacity_;
    const uint8_t* pixel = input + int64_t{3} * window.first;
    int32_t sums[3] = {kWeightHalf, kWeightHalf, kWeightHalf};
    for (int32_t i = 0; i < window.count; ++i, pixel += 3) {
      for (int c = 0; c < 3; ++c) sums[c] += pixel[c] * weights[i];
    }
    for (int c = 0; c < 3; ++c) output[3 * x + c] = round_sum(sums[c]);
  }
  return output;
}

void PillowResize::take(const uint8_t* row) {
  if (!filters_across()) {
    out_->take(filters_along() ? filter_along(row, order_.are_columns ? turned_ : output_) : row);
    return;
  }
  uint8_t* const kept = ring_row(rows_read_++);
  if (filters_along() && !order_.are_columns) {
    filter_along(row, kept);
  } else {
    std::memcpy(kept, row, static_cast<size_t>(kept_bytes()));
  }
  while (next_ < sizes_.target_rows && next_window_.first + next_window_.count <= rows_read_) make_row();
}

void PillowResize::make_row() {
  const int64_t values = kept_bytes();
  std::fill(sums_, sums_ + values, kWeightHalf);
  for (int32_t i = 0; i < next_window_.count; ++i) {
    const uint8_t* input = ring_row(next_window_.first + i);
    const int32_t weight = across_weights_[i];
    for (int64_t j = 0; j < values; ++j) sums_[j] += input[j] * weight;
  }
  for (int64_t j = 0; j < values; ++j) output_[j] = round_sum(sums_[j]);
  out_->take(filters_along() && order_.are_columns ? filter_along(output_, turned_) : output_);
  if (++next_ < sizes_.target_rows) find_next();
}

}  // namespace ocellus
