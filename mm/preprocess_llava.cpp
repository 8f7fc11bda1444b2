#include "mm/preprocess_llava.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ocellus {
namespace {

void fill_pixels(const uint8_t* colour, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i, out += 3) std::copy_n(colour, 3, out);
}

/// Rows of the square, made in one row of memory.
class SquareRows final : public RowSource {
 public:
  SquareRows(const RgbImage& image, const Margins& across, const Margins& down, uint8_t* row)
      : image_(image), across_(across), down_(down), row_(row) {
    fill_pixels(across.colour, across.length, row_);
  }
  const uint8_t* row(int32_t y) override {
    const int64_t line = y - down_.before;
    uint8_t* const inner = row_ + 3 * across_.before;
    if (line >= 0 && line < image_.height)
      std::memcpy(inner, image_.row(static_cast<int32_t>(line)), static_cast<size_t>(image_.width) * 3);
    else if (line == image_.height)
      fill_pixels(across_.colour, image_.width, inner);
    return row_;
  }

 private:
  RgbImage image_;
  Margins across_, down_;
  uint8_t* row_;
};

}  // namespace

Margins square_margins(const PreprocessConfig& config, const ViewPlan& plan, bool columns) {
  Margins margins;
  margins.length = plan.square;
  margins.before = columns ? plan.inner_left : plan.inner_top;
  for (int c = 0; c < 3; ++c) {
    const double colour = std::trunc(static_cast<double>(config.mean[c]) * 255.0);
    margins.colour[c] = static_cast<uint8_t>(std::clamp(colour, 0.0, 255.0));
  }
  return margins;
}

int64_t llava_scratch_bytes(const PreprocessConfig& config, const ImageLimits& limits) {
  // A side that keeps its length is not filtered and takes less than a shorter one.
  const int32_t view = config.image_size, square = std::max(limits.max_side, view + 1);
  return aligned_bytes(int64_t{3} * square) +
         PillowResize::scratch_bytes({square, square}, {view, view}, Filter::kBicubic);
}

Status render_llava(const PreprocessConfig& config, const PreparedViews& prepared, const PlaneWriter& writer) {
  const ViewPlan& plan = prepared.plan;
  const int64_t row_bytes = aligned_bytes(int64_t{3} * plan.square);
  if (prepared.scratch.data == nullptr || prepared.scratch.bytes < row_bytes)
    return OCELLUS_FAIL(Code::kFull, "a row of %d pixels takes %lld bytes of scratch, but %lld are left", plan.square,
                        static_cast<long long>(row_bytes), static_cast<long long>(prepared.scratch.bytes));
  SquareRows rows(prepared.source, square_margins(config, plan, true), square_margins(config, plan, false),
                  reinterpret_cast<uint8_t*>(prepared.scratch.data));
  PillowResize resize;
  OCELLUS_TRY(resize.begin(rows, {plan.square, plan.square}, {config.image_size, config.image_size}, Filter::kBicubic,
                           {prepared.scratch.data + row_bytes, prepared.scratch.bytes - row_bytes}));
  for (int32_t y = 0; y < config.image_size; ++y) writer.write(y, resize.row(y));
  return {};
}

}  // namespace ocellus
