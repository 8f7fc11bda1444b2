#include "mm/views/view_maker.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ocellus {
namespace {

void fill_pixels(const uint8_t* colour, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i, out += 3) std::copy_n(colour, 3, out);
}

/// Returns the writable pixels of an image taken from the scratch.
uint8_t* own_pixels(const RgbImage& image) { return const_cast<uint8_t*>(image.pixels); }

int64_t image_bytes(int64_t width, int64_t height) { return aligned_bytes(3 * width * height); }

}  // namespace

Margins square_margins(const PreprocessConfig& config, const Canvas& canvas, Size source, bool columns) {
  Margins margins;
  margins.length = canvas.square;
  margins.before = (canvas.square - (columns ? source.width : source.height)) / 2;
  for (int c = 0; c < 3; ++c) {
    const double colour = std::trunc(static_cast<double>(config.mean[c]) * 255.0);
    margins.colour[c] = static_cast<uint8_t>(std::clamp(colour, 0.0, 255.0));
  }
  return margins;
}

void SquareRows::begin(const Margins& along, const Margins& across, int32_t length, int32_t rows, RowConsumer& out,
                       uint8_t* row) {
  along_ = along;
  across_ = across;
  length_ = length;
  rows_left_ = rows;
  after_ = -1;
  out_ = &out;
  row_ = row;
}

void SquareRows::give_margin(int64_t rows) {
  fill_pixels(along_.colour, along_.length, row_);
  for (int64_t i = 0; i < rows; ++i) out_->take(row_);
}

void SquareRows::take(const uint8_t* row) {
  if (after_ < 0) {  // the first row
    after_ = across_.length - across_.before - rows_left_;
    give_margin(across_.before);
  }
  std::memcpy(row_ + 3 * along_.before, row, static_cast<size_t>(length_) * 3);
  out_->take(row_);
  if (--rows_left_ == 0) give_margin(after_);
}

int64_t ViewMaker::result_bytes(const PreprocessConfig& config, const ImageLimits& limits) {
  const ViewBounds bounds = view_bounds(config, limits);
  return image_bytes(bounds.view_pixels, 1) + image_bytes(bounds.tiled_pixels, 1);
}

int64_t ViewMaker::scratch_bytes(const PreprocessConfig& config, const ImageLimits& limits) {
  return result_bytes(config, limits) + aligned_bytes(int64_t{3} * limits.max_side) +
         view_bounds(config, limits).resize_bytes;
}

Status ViewMaker::take_piece(int64_t bytes, Extent* piece) {
  const int64_t taken = aligned_bytes(bytes);
  if (rest_.data == nullptr || rest_.bytes < taken)
    return OCELLUS_FAIL(Code::kFull, "preparing the views takes %lld bytes of scratch more, but %lld are left",
                        static_cast<long long>(taken), static_cast<long long>(rest_.bytes));
  *piece = {rest_.data, taken};
  rest_ = {rest_.data + taken, rest_.bytes - taken};
  return {};
}

/// Takes an image from the scratch, black outside the resized source.
Status ViewMaker::take_image(const Canvas& canvas, RgbImage* image) {
  *image = {};
  if (canvas.size == Size{}) return {};
  Extent piece;
  const int64_t stride = int64_t{3} * canvas.size.width;
  OCELLUS_TRY(take_piece(stride * canvas.size.height, &piece));
  *image = {reinterpret_cast<uint8_t*>(piece.data), canvas.size.width, canvas.size.height, stride};
  if (canvas.inner() != canvas.size) std::memset(piece.data, 0, static_cast<size_t>(stride * canvas.size.height));
  return {};
}

/// Writes rows in the order in which resizes produce them.
PixelWriter ViewMaker::writer(const RgbImage& image, const Canvas& canvas) const {
  const RowSizes sizes(canvas.inner(), canvas.inner(), order_);
  const Orientation turn = {.bottom_up = order_.backwards, .transposed = order_.are_columns};
  uint8_t* const first = own_pixels(image) + canvas.top * image.stride_bytes + int64_t{3} * canvas.left;
  return {place_stored_pixels(first, image.stride_bytes, turn, sizes.source_length, sizes.source_rows),
          sizes.source_length};
}

Status ViewMaker::begin_square(const Canvas& canvas, RowConsumer& out, Stage& stage) {
  const bool turned = order_.are_columns;
  const Margins along = square_margins(config_, canvas, plan_.source, !turned);
  Margins across = square_margins(config_, canvas, plan_.source, turned);
  const int32_t rows = turned ? plan_.source.width : plan_.source.height;
  if (order_.backwards) across.before = across.length - across.before - rows;
  Extent row;
  OCELLUS_TRY(take_piece(SquareRows::scratch_bytes(canvas.square), &row));
  stage.square.begin(along, across, length_, rows, out, reinterpret_cast<uint8_t*>(row.data));
  return {};
}

/// *first: receives the rows of the source.
Status ViewMaker::begin_canvas(const Canvas& canvas, Size source, const RgbImage& image, Stage& stage,
                               RowConsumer** first) {
  stage.writer = writer(image, canvas);
  *first = &stage.writer;
  if (canvas.square > 0) source = {canvas.square, canvas.square};
  for (int32_t i = canvas.resize_count - 1; i >= 0; --i) {
    const Size from = i > 0 ? canvas.resizes[i - 1].to : source;
    const auto& [to, filter] = canvas.resizes[i];
    Extent piece;
    OCELLUS_TRY(take_piece(PillowResize::scratch_bytes(from, to, order_, filter), &piece));
    OCELLUS_TRY(stage.resizes[i].begin(from, to, order_, filter, **first, piece));
    *first = &stage.resizes[i];
  }
  if (canvas.square == 0) return {};
  OCELLUS_TRY(begin_square(canvas, **first, stage));
  *first = &stage.square;
  return {};
}

Status ViewMaker::begin(const PreprocessConfig& config, const ViewPlan& plan, const Orientation& orientation,
                        Extent scratch) {
  config_ = config;
  plan_ = plan;
  orientation_ = orientation;
  order_ = {.are_columns = orientation.transposed, .backwards = orientation.bottom_up};
  const RowSizes sizes(plan.source, plan.source, order_);
  length_ = sizes.source_length;
  rows_left_ = sizes.source_rows;
  rest_ = scratch;
  outs_[0] = outs_[1] = nullptr;
  OCELLUS_TRY(take_image(plan.overview, &overview_));
  OCELLUS_TRY(take_image(plan.tiles, &tiles_));
  resizing_ = rest_;
  if (orientation.right_to_left) {
    Extent row;
    OCELLUS_TRY(take_piece(int64_t{3} * length_, &row));
    reversed_ = reinterpret_cast<uint8_t*>(row.data);
  }
  if (plan.tile_count() > 0) OCELLUS_TRY(begin_canvas(plan.tiles, plan.source, tiles_, to_tiles_, &outs_[0]));
  if (plan.overview.is_of_tiles) return {};
  return begin_canvas(plan.overview, plan.source, overview_, to_overview_, &outs_[1]);
}

void ViewMaker::take(const uint8_t* row) {
  if (rows_left_ == 0) return;
  --rows_left_;
  if (orientation_.right_to_left) {
    for (int32_t x = 0; x < length_; ++x) std::copy_n(row + 3 * x, 3, reversed_ + int64_t{3} * (length_ - 1 - x));
    row = reversed_;
  }
  for (RowConsumer* out : outs_)
    if (out != nullptr) out->take(row);
}

Status ViewMaker::finish(PreparedViews* out) {
  if (rows_left_ > 0) return OCELLUS_FAIL(Code::kInternal, "a picture lacks its last %d rows", rows_left_);
  if (plan_.overview.is_of_tiles) {  // the tiled image is already rotated
    rest_ = resizing_;
    order_ = {};
    RowConsumer* first = nullptr;
    OCELLUS_TRY(begin_canvas(plan_.overview, plan_.tiles.size, overview_, to_overview_, &first));
    feed_rows(tiles_, *first);
  }
  *out = {plan_, tiles_, overview_};
  return {};
}

}  // namespace ocellus
