// llama.cpp's resizes, while rows come.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/vision/picture_math.h"
#include "mm/pictures/resize.h"

namespace ocellus {

using namespace picture;

Status check_resize(Size source, Size target) {
  if (source.width >= 1 && source.height >= 1 && target.width >= 1 && target.height >= 1) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "cannot resize %d x %d pixels to %d x %d: all sides must be at least 1",
                      source.width, source.height, target.width, target.height);
}

Status check_resize_scratch(Size source, Size target, int64_t needed_bytes, Extent scratch) {
  if (scratch.data != nullptr && scratch.bytes >= needed_bytes) return {};
  return OCELLUS_FAIL(Code::kFull, "resizing %d x %d pixels to %d x %d takes %lld bytes of scratch, but %lld are left",
                      source.width, source.height, target.width, target.height, static_cast<long long>(needed_bytes),
                      static_cast<long long>(scratch.bytes));
}

int64_t Stretch::scratch_bytes(Size source, Size target, const RowOrder& order, Kind kind) {
  const RowSizes sizes(source, target, order);
  return (kind == Kind::kLinear ? 2 : 4) * int64_t{3} * sizes.source_length + int64_t{3} * sizes.target_length;
}

Status Stretch::begin(Size source, Size target, const RowOrder& order, Kind kind, RowConsumer& out, Extent scratch) {
  OCELLUS_TRY(check_resize(source, target));
  OCELLUS_TRY(check_resize_scratch(source, target, scratch_bytes(source, target, order, kind), scratch));
  sizes_ = {source, target, order};
  order_ = order;
  kind_ = kind;
  out_ = &out;
  row_bytes_ = int64_t{3} * sizes_.source_length;
  rows_read_ = next_ = 0;
  ring_ = reinterpret_cast<uint8_t*>(scratch.data);
  output_ = ring_ + tap_count() * row_bytes_;
  return {};
}

/// Which lines of a side of `source` pixels make line `index` of `target`, and how far between the middle ones it lies.
Stretch::Taps Stretch::taps(int32_t source, int32_t target, int32_t index) const {
  if (kind_ == Kind::kLinear) {
    const auto [at, t] = split_position(static_cast<float>(index) * corner_step(source, target), source - 1);
    return {{at, std::min(at + 1, source - 1), 0, 0}, t};
  }
  const float step = static_cast<float>(source) / static_cast<float>(target);
  const auto [at, t] = split_position(step * static_cast<float>(index), std::numeric_limits<int32_t>::max());
  Taps out = {{}, t};
  for (int i = 0; i < 4; ++i) out.at[i] = std::clamp(at - 1 + i, 0, source - 1);
  return out;
}

/// False if the next row needs rows that are still to come.
bool Stretch::find_next() {
  if (next_ == sizes_.target_rows) return false;
  const int32_t line = order_.backwards ? sizes_.target_rows - 1 - next_ : next_;
  next_taps_ = taps(sizes_.source_rows, sizes_.target_rows, line);
  const int32_t last = order_.backwards ? row_of(next_taps_.at[0]) : row_of(next_taps_.at[tap_count() - 1]);
  return last < rows_read_;
}

void Stretch::take(const uint8_t* row) {
  std::memcpy(ring_ + rows_read_ % tap_count() * row_bytes_, row, static_cast<size_t>(row_bytes_));
  ++rows_read_;
  while (find_next()) make_row();
}

void Stretch::make_row() {
  const uint8_t* rows[4] = {};
  for (int i = 0; i < tap_count(); ++i) rows[i] = kept(next_taps_.at[i]);
  uint8_t* to = output_;
  for (int32_t x = 0; x < sizes_.target_length; ++x, to += 3) {
    const Taps along = taps(sizes_.source_length, sizes_.target_length, x);
    const bool turned = order_.are_columns;
    const float across = turned ? next_taps_.t : along.t, down = turned ? along.t : next_taps_.t;
    // Line i of the picture at column j.
    const auto value = [&](int i, int j, int c) {
      return turned ? rows[j][3 * along.at[i] + c] : rows[i][3 * along.at[j] + c];
    };
    for (int c = 0; c < 3; ++c) {
      if (kind_ == Kind::kLinear) {
        const float above = interpolate(value(0, 0, c), value(0, 1, c), across);
        const float below = interpolate(value(1, 0, c), value(1, 1, c), across);
        to[c] = static_cast<uint8_t>(interpolate(above, below, down));
        continue;
      }
      float lines[4];
      for (int i = 0; i < 4; ++i)
        lines[i] = interpolate_cubic(value(i, 0, c), value(i, 1, c), value(i, 2, c), value(i, 3, c), across);
      to[c] = round_to_byte(interpolate_cubic(lines[0], lines[1], lines[2], lines[3], down));
    }
  }
  out_->take(output_);
  ++next_;
}

}  // namespace ocellus
