// Pillow's resize (src/libImaging/Resample.c describes the arithmetic), streaming.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/resample_math.h"
#include "mm/resize.h"

namespace ocellus {

using namespace picture;

namespace {

// Hands out consecutive arrays; with null memory it only counts.
class Layout {
 public:
  explicit Layout(std::byte* memory) : memory_(memory) {}
  template <class T>
  void take(int64_t count, T** out) {
    *out = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + bytes_);
    bytes_ += (count * static_cast<int64_t>(sizeof(T)) + 15) / 16 * 16;
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  int64_t bytes_ = 0;
};

}  // namespace

int64_t PillowResize::lay_out(std::byte* memory) {
  Layout layout(memory);
  const int64_t width = target_.width;
  column_capacity_ = filters_columns() ? window_capacity(filter_radius(filter_), source_.width, target_.width) : 0;
  ring_rows_ = filters_rows() ? window_capacity(filter_radius(filter_), source_.height, target_.height) : 0;
  layout.take(std::max(column_capacity_, ring_rows_), &exact_weights_);
  layout.take(filters_columns() ? width * column_capacity_ : 0, &column_weights_);
  layout.take(filters_columns() ? width : 0, &column_windows_);
  layout.take(ring_rows_, &row_weights_);
  layout.take(filters_rows() ? 3 * width : 0, &sums_);
  layout.take(3 * width * ring_rows_, &ring_);
  layout.take(filters_columns() || filters_rows() ? 3 * width : 0, &output_);
  return layout.bytes();
}

int64_t PillowResize::scratch_bytes(Size source, Size target, Filter filter) {
  PillowResize resize;
  resize.source_ = source;
  resize.target_ = target;
  resize.filter_ = filter;
  return resize.lay_out(nullptr) + 16;  // the region may start anywhere
}

Status PillowResize::begin(RowSource& rows, Size source, Size target, Filter filter, Extent scratch) {
  if (source.width < 1 || source.height < 1 || target.width < 1 || target.height < 1) {
    return OCELLUS_FAIL(Code::kBadArgument, "cannot resize %d x %d pixels to %d x %d: all sides must be at least 1",
                        source.width, source.height, target.width, target.height);
  }
  const int64_t needed = scratch_bytes(source, target, filter);
  if (scratch.data == nullptr || scratch.bytes < needed) {
    return OCELLUS_FAIL(Code::kFull,
                        "resizing %d x %d pixels to %d x %d takes %lld bytes of scratch, but %lld are left",
                        source.width, source.height, target.width, target.height, static_cast<long long>(needed),
                        static_cast<long long>(scratch.bytes));
  }
  rows_ = &rows;
  source_ = source;
  target_ = target;
  filter_ = filter;
  rows_read_ = 0;
  lay_out(scratch.data + (16 - reinterpret_cast<uintptr_t>(scratch.data) % 16) % 16);
  for (int32_t x = 0; filters_columns() && x < target.width; ++x) {
    column_windows_[x] = make_weights(source.width, target.width, x, column_weights_ + int64_t{x} * column_capacity_);
  }
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

const uint8_t* PillowResize::filter_columns(const uint8_t* input, uint8_t* output) const {
  for (int32_t x = 0; x < target_.width; ++x) {
    const Window window = column_windows_[x];
    const int32_t* weights = column_weights_ + int64_t{x} * column_capacity_;
    const uint8_t* pixel = input + int64_t{3} * window.first;
    int32_t sums[3] = {kWeightHalf, kWeightHalf, kWeightHalf};
    for (int32_t i = 0; i < window.count; ++i, pixel += 3) {
      for (int c = 0; c < 3; ++c) sums[c] += pixel[c] * weights[i];
    }
    for (int c = 0; c < 3; ++c) output[3 * x + c] = round_sum(sums[c]);
  }
  return output;
}

const uint8_t* PillowResize::row(int32_t y) {
  if (!filters_rows()) {
    const uint8_t* input = rows_->row(y);
    return filters_columns() ? filter_columns(input, output_) : input;
  }
  const Window window = make_weights(source_.height, target_.height, y, row_weights_);
  for (; rows_read_ < window.first + window.count; ++rows_read_) {
    const uint8_t* input = rows_->row(rows_read_);
    if (filters_columns()) {
      filter_columns(input, ring_row(rows_read_));
    } else {
      std::memcpy(ring_row(rows_read_), input, static_cast<size_t>(row_bytes()));
    }
  }
  std::fill(sums_, sums_ + row_bytes(), kWeightHalf);
  for (int32_t i = 0; i < window.count; ++i) {
    const uint8_t* input = ring_row(window.first + i);
    const int32_t weight = row_weights_[i];
    for (int64_t j = 0; j < row_bytes(); ++j) sums_[j] += input[j] * weight;
  }
  for (int64_t j = 0; j < row_bytes(); ++j) output_[j] = round_sum(sums_[j]);
  return output_;
}

}  // namespace ocellus
