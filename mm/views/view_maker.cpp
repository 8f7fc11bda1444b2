#include "mm/views/view_maker.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "platform/round_up.h"

namespace ocellus {
namespace {

void fill_pixels(const uint8_t* colour, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i, out += 3) std::copy_n(colour, 3, out);
}

/// Of an image that was taken from the scratch.
uint8_t* own_pixels(const RgbImage& image) { return const_cast<uint8_t*>(image.pixels); }

int64_t image_bytes(int64_t width, int64_t height) { return aligned_bytes(3 * width * height); }

/// Longest side to which a picture is resized before it is cut into tiles.
int64_t longest_side(const PreprocessConfig& config) {
  if (config.longest_edge == 0) return config.image_size;
  const bool is_capped = config.flavour == ResizeFlavour::kHuggingFace;
  return is_capped ? std::min(config.longest_edge, kHuggingFaceMaxSide) : config.longest_edge;
}

/// Longest side of a tiled image; 0: no picture is cut into tiles.
int64_t grid_side(const PreprocessConfig& config) {
  if (config.longest_edge == 0 || config.flavour == ResizeFlavour::kLlava) return 0;
  const int64_t view = config.image_size, grid = round_up(longest_side(config), view);
  return config.flavour == ResizeFlavour::kHuggingFace && grid == view ? 0 : grid;
}

// At least PillowResize::scratch_bytes for any source with sides up to `source` whose target has sides up to `target`,
// if the target keeps the source's shape but for truncation: a side of the target is less than one pixel too short. The
// Lanczos window covers 6 * source / target + 3 pixels. Of a side that is truncated to 4 pixels or more the window is
// at most a quarter longer; where it becomes shorter, the source has no more than 4 * source / target rows or columns.
int64_t resize_bound_bytes(int64_t source, int64_t target) {
  const int64_t window = 8 * (source / target + 1) + 3;
  const int64_t weights = 4 * (6 * std::max(source, target) + 3 * target) + 8 * target + 12 * source;
  const int64_t longest = std::max(source, target);
  return weights + 3 * longest * window + (12 + 3) * longest + 3 * target + 10 * 16;
}

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

void SquareRows::begin(const Margins& along, const Margins& across, int32_t length, int32_t rows, RowConsumer& out,
                       uint8_t* row) {
  along_ = along;
  across_ = across;
  length_ = length;
  rows_left_ = rows;
  behind_ = -1;
  out_ = &out;
  row_ = row;
}

void SquareRows::give_margin(int64_t rows) {
  fill_pixels(along_.colour, along_.length, row_);
  for (int64_t i = 0; i < rows; ++i) out_->take(row_);
}

void SquareRows::take(const uint8_t* row) {
  if (behind_ < 0) {  // the first row
    behind_ = across_.length - across_.before - rows_left_;
    give_margin(across_.before);
  }
  std::memcpy(row_ + 3 * along_.before, row, static_cast<size_t>(length_) * 3);
  out_->take(row_);
  if (--rows_left_ == 0) give_margin(behind_);
}

int64_t ViewMaker::result_bytes(const PreprocessConfig& config) {
  const int64_t grid = grid_side(config);
  return image_bytes(config.image_size, config.image_size) + image_bytes(grid, grid);
}

int64_t ViewMaker::scratch_bytes(const PreprocessConfig& config, const ImageLimits& limits) {
  const int64_t view = config.image_size, side = limits.max_side, grid = grid_side(config);
  const int64_t fixed = result_bytes(config) + aligned_bytes(3 * side);
  const Size most = {limits.max_side, limits.max_side};
  if (config.flavour == ResizeFlavour::kLlava) {
    // A side that keeps its length is not filtered and takes less than a shorter one.
    const int32_t square = std::max(limits.max_side, config.image_size + 1);
    const Size from = {square, square}, to = {config.image_size, config.image_size};
    return fixed + aligned_bytes(int64_t{3} * square) +
           aligned_bytes(PillowResize::scratch_bytes(from, to, {.are_columns = true}, Filter::kBicubic));
  }
  if (config.flavour == ResizeFlavour::kLlamaCpp) {
    const auto of = [&](int64_t target, Stretch::Kind kind) {
      const auto length = static_cast<int32_t>(target);
      return aligned_bytes(Stretch::scratch_bytes(most, {length, length}, {}, kind));
    };
    return fixed + of(view, Stretch::Kind::kLinear) + (grid > 0 ? of(grid, Stretch::Kind::kCubic) : 0);
  }
  const int64_t step = longest_side(config) + 1;  // made even
  const int64_t prepare =
      aligned_bytes(resize_bound_bytes(side, step)) + aligned_bytes(resize_bound_bytes(step, std::max(grid, view)));
  return fixed + std::max(prepare, aligned_bytes(resize_bound_bytes(std::max(grid, view), view)));
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

Status ViewMaker::take_image(Size size, RgbImage* image) {
  Extent piece;
  const int64_t stride = int64_t{3} * size.width;
  OCELLUS_TRY(take_piece(stride * size.height, &piece));
  *image = {reinterpret_cast<uint8_t*>(piece.data), size.width, size.height, stride};
  return {};
}

/// Of rows in the order in which resizes make them.
PixelWriter ViewMaker::writer(const RgbImage& image, Size size, int32_t left, int32_t top) const {
  const RowSizes sizes(size, size, order_);
  const Orientation turn = {.bottom_up = order_.backwards, .transposed = order_.are_columns};
  uint8_t* const first = own_pixels(image) + top * image.stride_bytes + int64_t{3} * left;
  return {place_stored_pixels(first, image.stride_bytes, turn, sizes.source_length, sizes.source_rows),
          sizes.source_length};
}

Status ViewMaker::begin_stretch(Stretch::Kind kind, Size target, RowConsumer& out, Stretch* stretch) {
  Extent piece;
  OCELLUS_TRY(take_piece(Stretch::scratch_bytes(plan_.source, target, order_, kind), &piece));
  return stretch->begin(plan_.source, target, order_, kind, out, piece);
}

Status ViewMaker::begin_resize(Size source, Size target, Filter filter, RowConsumer& out, PillowResize* resize) {
  Extent piece;
  OCELLUS_TRY(take_piece(PillowResize::scratch_bytes(source, target, order_, filter), &piece));
  return resize->begin(source, target, order_, filter, out, piece);
}

Status ViewMaker::begin_llama_cpp() {
  OCELLUS_TRY(begin_stretch(Stretch::Kind::kLinear, {config_.image_size, config_.image_size}, to_overview_, &linear_));
  outs_[0] = &linear_;
  if (plan_.tile_cols == 0) return {};
  std::memset(own_pixels(grid_), 0, static_cast<size_t>(grid_.stride_bytes * grid_.height));
  to_grid_ = writer(grid_, plan_.inner, plan_.inner_left, plan_.inner_top);
  outs_[1] = &cubic_;
  return begin_stretch(Stretch::Kind::kCubic, plan_.inner, to_grid_, &cubic_);
}

Status ViewMaker::begin_hugging_face() {
  const bool tiled = plan_.tile_cols > 0;
  const Size target = tiled ? plan_.grid : Size{config_.image_size, config_.image_size};
  OCELLUS_TRY(begin_resize(plan_.source, plan_.step, Filter::kLanczos, second_, &first_));
  outs_[0] = &first_;
  return begin_resize(plan_.step, target, Filter::kLanczos, tiled ? to_grid_ : to_overview_, &second_);
}

Status ViewMaker::begin_llava() {
  const Size square = {plan_.square, plan_.square};
  const bool turned = order_.are_columns;
  const Margins along = square_margins(config_, plan_, !turned);
  Margins across = square_margins(config_, plan_, turned);
  const int32_t rows = turned ? plan_.source.width : plan_.source.height;
  if (order_.backwards) across.before = across.length - across.before - rows;
  Extent row;
  OCELLUS_TRY(take_piece(SquareRows::scratch_bytes(plan_), &row));
  square_.begin(along, across, length_, rows, first_, reinterpret_cast<uint8_t*>(row.data));
  outs_[0] = &square_;
  return begin_resize(square, {config_.image_size, config_.image_size}, Filter::kBicubic, to_overview_, &first_);
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
  const Size view = {config.image_size, config.image_size};
  grid_ = {};
  OCELLUS_TRY(take_image(view, &overview_));
  if (plan.tile_cols > 0) OCELLUS_TRY(take_image(plan.grid, &grid_));
  resizing_ = rest_;
  to_overview_ = writer(overview_, view);
  if (plan.tile_cols > 0) to_grid_ = writer(grid_, plan.grid);
  if (orientation.right_to_left) {
    Extent row;
    OCELLUS_TRY(take_piece(int64_t{3} * length_, &row));
    reversed_ = reinterpret_cast<uint8_t*>(row.data);
  }
  switch (config.flavour) {
    case ResizeFlavour::kLlamaCpp: return begin_llama_cpp();
    case ResizeFlavour::kHuggingFace: return begin_hugging_face();
    case ResizeFlavour::kLlava: return begin_llava();
  }
  return OCELLUS_FAIL(Code::kInternal, "no resize of this kind");
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
  if (config_.flavour == ResizeFlavour::kHuggingFace && plan_.tile_cols > 0) {
    // The overview is made of the tiled image, which is as it is seen.
    rest_ = resizing_;
    order_ = {};
    to_overview_ = writer(overview_, {config_.image_size, config_.image_size});
    OCELLUS_TRY(
        begin_resize(plan_.grid, {config_.image_size, config_.image_size}, Filter::kLanczos, to_overview_, &first_));
    feed_rows(grid_, first_);
  }
  *out = {plan_, grid_, overview_};
  return {};
}

}  // namespace ocellus
