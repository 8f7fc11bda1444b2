// Pillow's resize (src/libImaging/Resample.c describes the arithmetic), streaming.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/vision/resample_math.h"
#include "mm/pictures/resize.h"
#include "mm/pictures/scratch_layout.h"

namespace ocellus {

using namespace picture;

namespace {

Status check_sides(Size source, Size target) {
  if (source.width >= 1 && source.height >= 1 && target.width >= 1 && target.height >= 1) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "cannot resize %d x %d pixels to %d x %d: all sides must be at least 1",
                      source.width, source.height, target.width, target.height);
}

Status check_scratch(Size source, Size target, int64_t needed_bytes, Extent scratch) {
  if (scratch.data != nullptr && scratch.bytes >= needed_bytes) return {};
  return OCELLUS_FAIL(Code::kFull, "resizing %d x %d pixels to %d x %d takes %lld bytes of scratch, but %lld are left",
                      source.width, source.height, target.width, target.height, static_cast<long long>(needed_bytes),
                      static_cast<long long>(scratch.bytes));
}

}  // namespace

int64_t PillowResize::lay_out(std::byte* memory) {
  ScratchLayout layout(memory);
  const double radius = filter_radius(filter_);
  along_.source_length = sizes_.source_length;
  along_.target_length = filters_along() ? sizes_.target_length : 0;
  along_.capacity = filters_along() ? window_capacity(radius, sizes_.source_length, sizes_.target_length) : 0;
  ring_rows_ = filters_across() ? window_capacity(radius, sizes_.source_rows, sizes_.target_rows) : 0;
  const int32_t overlap = static_cast<int32_t>(2 * radius) + 2;
  overlap_ = ring_rows_ > 4 * overlap ? overlap : 0;  // a sum takes four bytes
  const int64_t at_once = std::max(overlap_, 1);
  layout.take(std::max<int64_t>(along_.capacity, ring_rows_), &exact_weights_);
  layout.take(along_.capacity, &along_weights_);
  layout.take(along_.target_length, &along_.windows);
  layout.take(2 * along_.target_length * AlongFilter::weight_stride(along_.capacity), &along_.weights);
  layout.take(filters_along() ? 3 * AlongFilter::channel_stride(sizes_.source_length) : 0, &along_.channels);
  layout.take(overlap_, &across_windows_);
  layout.take(at_once * ring_rows_, &across_weights_);
  layout.take(overlap_ * kept_bytes(), &sums_);
  layout.take(kept_bytes() * (overlap_ > 0 ? 1 : ring_rows_), &ring_);
  layout.take(filters_along() || filters_across() ? kept_bytes() : 0, &output_);
  layout.take(order_.are_columns && filters_along() ? int64_t{3} * sizes_.target_length : 0, &turned_);
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
  OCELLUS_TRY(check_sides(source, target));
  OCELLUS_TRY(check_scratch(source, target, scratch_bytes(source, target, order, filter), scratch));
  sizes_ = {source, target, order};
  order_ = order;
  filter_ = filter;
  out_ = &out;
  rows_read_ = next_ = started_ = windows_made_ = 0;
  lay_out(ScratchLayout::align(scratch.data));
  for (int32_t x = 0; x < along_.target_length; ++x)
    along_.set(x, make_weights(sizes_.source_length, sizes_.target_length, x, along_weights_), along_weights_);
  if (filters_across() && overlap_ == 0) find_next();
  return {};
}

FilterWindow PillowResize::make_weights(int32_t source, int32_t target, int32_t at, int32_t* weights) {
  const ResampleWindow window = resample_window(filter_radius(filter_), source, target, at);
  double sum = 0.0;
  for (int32_t i = 0; i < window.count; ++i) {
    exact_weights_[i] = filter_value(filter_, window.position(i));
    sum += exact_weights_[i];
  }
  for (int32_t i = 0; i < window.count; ++i) weights[i] = fixed_weight(exact_weights_[i], sum);
  return {window.first, window.count};
}

FilterWindow PillowResize::make_window(int32_t at, int32_t* weights) {
  const int32_t line = order_.backwards ? sizes_.target_rows - 1 - at : at;
  FilterWindow window = make_weights(sizes_.source_rows, sizes_.target_rows, line, weights);
  if (!order_.backwards) return window;
  window.first = sizes_.source_rows - window.first - window.count;
  std::reverse(weights, weights + window.count);
  return window;
}

void PillowResize::find_next() { next_window_ = make_window(next_, across_weights_); }

const uint8_t* PillowResize::filtered_along(const uint8_t* row, uint8_t* output) const {
  filter_along(along_, row, output);
  return output;
}

void PillowResize::take(const uint8_t* row) {
  if (!filters_across()) {
    out_->take(filters_along() ? filtered_along(row, order_.are_columns ? turned_ : output_) : row);
    return;
  }
  const bool comes_filtered = filters_along() && !order_.are_columns;
  if (overlap_ > 0) return add_row(comes_filtered ? filtered_along(row, ring_) : row);
  uint8_t* const kept = ring_row(rows_read_++);
  if (comes_filtered) {
    filter_along(along_, row, kept);
  } else {
    std::memcpy(kept, row, static_cast<size_t>(kept_bytes()));
  }
  while (next_ < sizes_.target_rows && next_window_.first + next_window_.count <= rows_read_) make_row();
}

/// Adds a row to the sums of all target rows whose windows contain it.
void PillowResize::add_row(const uint8_t* row) {
  const int64_t values = kept_bytes();
  for (; started_ < sizes_.target_rows && started_ - next_ < overlap_; ++started_) {
    const int32_t slot = started_ % overlap_;
    if (windows_made_ == started_)
      across_windows_[slot] = make_window(windows_made_++, across_weights_ + int64_t{slot} * ring_rows_);
    if (across_windows_[slot].first > rows_read_) break;
    std::fill_n(sums_ + slot * values, values, kWeightHalf);
  }
  for (int32_t at = next_; at < started_; ++at) {
    const int32_t slot = at % overlap_, place = rows_read_ - across_windows_[slot].first;
    if (place >= across_windows_[slot].count) continue;
    add_weighted_row(row, across_weights_[int64_t{slot} * ring_rows_ + place], values, sums_ + slot * values);
  }
  ++rows_read_;
  for (; next_ < started_; ++next_) {
    const int32_t slot = next_ % overlap_;
    if (across_windows_[slot].first + across_windows_[slot].count > rows_read_) return;
    round_sums(sums_ + slot * values, values, output_);
    give();
  }
}

void PillowResize::make_row() {
  filter_across({.ring = ring_,
                 .ring_rows = ring_rows_,
                 .window = next_window_,
                 .weights = across_weights_,
                 .bytes = kept_bytes()},
                output_);
  give();
  if (++next_ < sizes_.target_rows) find_next();
}

void PillowResize::give() {
  out_->take(filters_along() && order_.are_columns ? filtered_along(output_, turned_) : output_);
}

}  // namespace ocellus
