#include "mm/views/device_preprocess.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "mm/views/view_maker.h"

namespace ocellus {
namespace {

Normalisation normalisation_of(const PreprocessConfig& config) {
  Normalisation out;
  std::copy_n(config.mean, 3, out.mean);
  std::copy_n(config.std, 3, out.std);
  return out;
}

int64_t packed_bytes(Size size) { return int64_t{3} * size.width * size.height; }

/// Consecutive pieces of scratch; remembers whether there was too little.
class ScratchPieces {
 public:
  explicit ScratchPieces(DeviceView<std::byte> scratch) : rest_(scratch) {}
  DeviceView<std::byte> take(int64_t bytes) {
    const int64_t piece = aligned_bytes(bytes);
    taken_ += piece;
    if (rest_.data == nullptr || taken_ > rest_.cols) return {};
    return {rest_.data + taken_ - piece, 1, bytes};
  }
  Status check() const {
    if (rest_.data != nullptr && taken_ <= rest_.cols) return {};
    return OCELLUS_FAIL(Code::kFull, "preparing the views takes %lld bytes of device scratch, but %lld were planned",
                        static_cast<long long>(taken_), static_cast<long long>(rest_.cols));
  }

 private:
  DeviceView<std::byte> rest_;
  int64_t taken_ = 0;
};

/// One side of a picture changes its length.
struct Pass {
  Size from;
  Size to;
  bool is_needed() const { return from != to; }
};

/// Hugging Face's resizes as passes, columns before rows: first to the size after the first resize, then to the tiled
/// image, then to the overview.
struct PassList {
  static constexpr int kTilesAfter = 4;  // the first passes make the tiled image
  Pass passes[6];

  PassList(const ViewPlan& plan, int32_t image_size) {
    const Size tiled = plan.tile_cols > 0 ? plan.grid : plan.step;
    const Size stops[4] = {plan.source, plan.step, tiled, {image_size, image_size}};
    for (int i = 0; i < 3; ++i) {
      const Size between = {stops[i + 1].width, stops[i].height};
      passes[2 * i] = {stops[i], between};
      passes[2 * i + 1] = {between, stops[i + 1]};
    }
  }
  int64_t largest_result() const {
    int64_t bytes = 0;
    for (const Pass& pass : passes)
      if (pass.is_needed()) bytes = std::max(bytes, packed_bytes(pass.to));
    return bytes;
  }
  int64_t tables_bytes() const {
    int64_t bytes = 0;
    for (const Pass& pass : passes) {
      if (!pass.is_needed()) continue;
      const bool columns = pass.from.width != pass.to.width;
      bytes = std::max(bytes, resample_scratch_bytes(columns ? pass.from.width : pass.from.height,
                                                     columns ? pass.to.width : pass.to.height, Filter::kLanczos));
    }
    return bytes;
  }
};

/// Scratch of the passes: results alternate between two places, so that each pass reads what the one before wrote. The
/// tiled image must outlive the passes to the overview: the first of those writes into the other place, the second
/// beside both.
struct PassScratch {
  DeviceView<std::byte> places[2];
  DeviceView<std::byte> overview;
  DeviceView<std::byte> tables;

  void take(int64_t place_bytes, int64_t overview_bytes, int64_t tables_bytes, ScratchPieces& pieces) {
    places[0] = pieces.take(place_bytes);
    places[1] = pieces.take(place_bytes);
    overview = pieces.take(overview_bytes);
    tables = pieces.take(tables_bytes);
  }
};

void run_passes(const PassList& list, const PassScratch& scratch, Queue& queue, DeviceViews* views) {
  DeviceView<const uint8_t> current = views->picture;
  int next_place = 0;
  for (int i = 0; i < 6; ++i) {
    if (i == PassList::kTilesAfter) views->picture = current;
    const Pass& pass = list.passes[i];
    if (!pass.is_needed()) continue;
    const DeviceView<std::byte>& place =
        i == 5 ? scratch.overview : scratch.places[std::exchange(next_place, 1 - next_place)];
    const DeviceView<uint8_t> output(reinterpret_cast<uint8_t*>(place.data), pass.to.height,
                                     int64_t{3} * pass.to.width);
    resample_picture(
        {.source = current, .output = output, .columns = pass.from.width != pass.to.width, .scratch = scratch.tables},
        queue);
    current = output;
  }
  views->overview = current;
}

/// LLaVA's resize: the picture gets the width of the view, then its height. Nobody makes the square around it: its
/// margins are a number in each sum. Both passes always run, as only they write margins.
struct SquarePasses {
  DeviceView<uint8_t> narrow;  // [picture's height, 3 * side]
  DeviceView<uint8_t> view;    // [side, 3 * side]
  DeviceView<std::byte> tables;

  void take(const ViewPlan& plan, int32_t side, ScratchPieces& pieces) {
    const auto take_rgb = [&](int32_t height) {
      return DeviceView<uint8_t>(reinterpret_cast<uint8_t*>(pieces.take(packed_bytes({side, height})).data), height,
                                 int64_t{3} * side);
    };
    narrow = take_rgb(plan.source.height);
    view = take_rgb(side);
    tables = pieces.take(resample_scratch_bytes(plan.square, side, Filter::kBicubic));
  }
  void run(const PreprocessConfig& config, Queue& queue, DeviceViews* views) const {
    for (const bool columns : {true, false})
      resample_picture({.source = columns ? views->picture : DeviceView<const uint8_t>(narrow),
                        .output = columns ? narrow : view,
                        .columns = columns,
                        .filter = Filter::kBicubic,
                        .margins = square_margins(config, views->plan, columns),
                        .scratch = tables},
                       queue);
    views->overview = view;
  }
};

/// Copies a picture in staging.host to the same place of the device's part.
Status upload_image(const RgbImage& image, const StagedRows<std::byte>& staging, Queue& queue,
                    DeviceView<const uint8_t>* out) {
  const auto* first = reinterpret_cast<const std::byte*>(image.pixels);
  const int64_t row_bytes = int64_t{3} * image.width;
  const int64_t bytes = (image.height - int64_t{1}) * image.stride_bytes + row_bytes;
  const auto offset = static_cast<int64_t>(reinterpret_cast<uintptr_t>(first)) -
                      static_cast<int64_t>(reinterpret_cast<uintptr_t>(staging.host.data));
  if (offset < 0 || offset + bytes > staging.device.cols)
    return OCELLUS_FAIL(Code::kInternal, "the picture to upload does not lie in the staging");
  std::byte* to = staging.device.data + offset;
  if (to != first) queue.copy(to, first, bytes);
  *out = {reinterpret_cast<const uint8_t*>(to), image.height, row_bytes, image.stride_bytes};
  return queue.status();
}

/// The largest integer whose square is at most `value`, or one more.
int64_t root_bound(int64_t value) { return static_cast<int64_t>(std::sqrt(static_cast<double>(value))) + 1; }

}  // namespace

int64_t frame_upload_bytes(const ImageLimits& limits) { return aligned_bytes(4 * limits.max_pixels); }

int64_t frame_bytes(const Frame& frame) {
  if (frame.width < 1 || frame.height < 1) return 0;
  int64_t bytes = 0;
  for (int i = 0; i < kFramePlanes; ++i) bytes += plane_size(frame, i).rows * plane_size(frame, i).row_bytes;
  return bytes;
}

Status upload_frame(const Frame& frame, const ImageLimits& limits, const StagedRows<std::byte>& staging, Queue& queue,
                    DevicePicture* out) {
  OCELLUS_TRY(check_frame(frame, limits));
  const int64_t bytes = frame_bytes(frame);
  if (staging.host.data == nullptr || staging.host.cols < bytes) {
    return OCELLUS_FAIL(Code::kFull, "the %d x %d %s frame takes %lld bytes of staging, but %lld were planned",
                        frame.width, frame.height, pixel_format_name(frame.format), static_cast<long long>(bytes),
                        static_cast<long long>(staging.host.cols));
  }
  *out = {frame.format, frame.matrix, frame.full_range, frame.width, frame.height, {}};
  int64_t offset = 0;
  for (int i = 0; i < kFramePlanes; ++i) {
    const PlaneSize size = plane_size(frame, i);
    out->planes[i] = {reinterpret_cast<const uint8_t*>(staging.device.data + offset), size.rows, size.row_bytes};
    for (int32_t y = 0; y < size.rows; ++y, offset += size.row_bytes)
      std::memcpy(staging.host.data + offset, frame.planes[i] + y * frame.stride_bytes[i],
                  static_cast<size_t>(size.row_bytes));
  }
  queue.upload(staging, bytes);
  return queue.status();
}

Status upload_picture(const RgbImage& image, const StagedRows<std::byte>& staging, Queue& queue, DevicePicture* out) {
  *out = DevicePicture();
  out->width = image.width;
  out->height = image.height;
  return upload_image(image, staging, queue, &out->planes[0]);
}

Status upload_views(const PreparedViews& prepared, const StagedRows<std::byte>& staging, Queue& queue,
                    DeviceViews* out) {
  *out = {.plan = prepared.plan, .are_resized = true, .picture = {}, .overview = {}};
  if (prepared.grid.pixels != nullptr) OCELLUS_TRY(upload_image(prepared.grid, staging, queue, &out->picture));
  return upload_image(prepared.overview, staging, queue, &out->overview);
}

int64_t device_picture_scratch_bytes(const PreprocessConfig& config, const ImageLimits& limits) {
  const int64_t picture = aligned_bytes(3 * limits.max_pixels);
  if (config.flavour == ResizeFlavour::kLlamaCpp) return picture;
  const int64_t side = config.image_size;
  if (config.flavour == ResizeFlavour::kLlava)
    return picture + aligned_bytes(3 * side * limits.max_side) + aligned_bytes(3 * side * side) +
           aligned_bytes(resample_scratch_bytes(limits.max_side, side, Filter::kBicubic));
  const int64_t longest = std::min<int64_t>(config.longest_edge == 0 ? side : config.longest_edge, 4096);
  const int64_t step = longest + 1;  // made even
  const int64_t grid = (longest + side - 1) / side * side;
  // Between the first resize's passes the picture has its old height and its new width. Of a wide picture the height
  // is at most the root of its pixels; of a tall one the new width is in the ratio of the sides, at most 3 more.
  const int64_t after_columns = root_bound(limits.max_pixels) * step + int64_t{3} * limits.max_side;
  const int64_t place = aligned_bytes(3 * std::max({step * step, grid * grid, after_columns}));
  // A window has at most 6 * from / to + 3 pixels and no less than 9 where the picture grows; its span is 12 bytes.
  const int64_t sides = std::max<int64_t>({limits.max_side, step, grid});
  const int64_t tables = aligned_bytes(4 * (6 + 6) * sides);
  return picture + 2 * place + aligned_bytes(3 * side * side) + tables;
}

Status prepare_device_views(const PreprocessConfig& config, const ViewPlan& plan, const DevicePicture& source,
                            DeviceView<std::byte> scratch, Queue& queue, DeviceViews* out) {
  if (plan.source != Size{source.width, source.height} || plan.view_count < 1) {
    return OCELLUS_FAIL(Code::kInternal, "the views were planned for %d x %d pixels, but the picture has %d x %d",
                        plan.source.width, plan.source.height, source.width, source.height);
  }
  ScratchPieces pieces(scratch);
  const bool converts = source.format != PixelFormat::kRgb8, resizes = config.flavour == ResizeFlavour::kHuggingFace,
             squares = config.flavour == ResizeFlavour::kLlava;
  DeviceView<std::byte> rgb;
  PassScratch passes;
  SquarePasses square;
  const PassList list(plan, config.image_size);
  if (converts) rgb = pieces.take(packed_bytes(plan.source));
  if (resizes)
    passes.take(list.largest_result(), packed_bytes({config.image_size, config.image_size}), list.tables_bytes(),
                pieces);
  if (squares) square.take(plan, config.image_size, pieces);
  if (converts || resizes || squares) OCELLUS_TRY(pieces.check());

  *out = {plan, resizes || squares, source.planes[0], {}};
  if (converts) {
    const DeviceView<uint8_t> output(reinterpret_cast<uint8_t*>(rgb.data), source.height, int64_t{3} * source.width);
    convert_pixels({.format = source.format,
                    .matrix = source.matrix,
                    .full_range = source.full_range,
                    .planes = {source.planes[0], source.planes[1], source.planes[2]},
                    .output = output},
                   queue);
    out->picture = output;
  }
  if (resizes) run_passes(list, passes, queue, out);
  if (squares) square.run(config, queue, out);
  return queue.status();
}

Status render_device_views(const PreprocessConfig& config, const DeviceViews& views, int32_t first, int32_t count,
                           DeviceView<float> pixels, Queue& queue) {
  const ViewPlan& plan = views.plan;
  const int64_t view_rows = int64_t{3} * config.image_size;
  if (first < 0 || count < 1 || count > plan.view_count - first || pixels.data == nullptr ||
      pixels.rows != count * view_rows || pixels.cols != config.image_size) {
    return OCELLUS_FAIL(Code::kInternal, "views %d to %d of %d cannot be rendered into [%lld, %lld]", first,
                        first + count - 1, plan.view_count, static_cast<long long>(pixels.rows),
                        static_cast<long long>(pixels.cols));
  }
  const Normalisation normalisation = normalisation_of(config);
  if (!views.are_resized) {
    stretch_views({.source = views.picture,
                   .normalisation = normalisation,
                   .side = config.image_size,
                   .tile_rows = plan.tile_rows,
                   .tile_cols = plan.tile_cols,
                   .inner_width = plan.inner.width,
                   .inner_height = plan.inner.height,
                   .inner_left = plan.inner_left,
                   .inner_top = plan.inner_top,
                   .first_view = first,
                   .pixels = pixels},
                  queue);
    return queue.status();
  }
  const int32_t tiles = std::clamp(plan.view_count - 1 - first, 0, count);
  if (tiles > 0) {
    normalise_tiles({.picture = views.picture,
                     .normalisation = normalisation,
                     .side = config.image_size,
                     .first_tile = first,
                     .pixels = pixels.slice_rows(0, tiles * view_rows)},
                    queue);
  }
  if (tiles < count) {
    normalise_tiles({.picture = views.overview,
                     .normalisation = normalisation,
                     .side = config.image_size,
                     .pixels = pixels.slice_rows(tiles * view_rows, view_rows)},
                    queue);
  }
  return queue.status();
}

Status enqueue_views(const PreprocessConfig& config, const ViewPlan& plan, const DevicePicture& source,
                     DeviceView<std::byte> scratch, DeviceView<float> pixels, Queue& queue) {
  DeviceViews views;
  OCELLUS_TRY(prepare_device_views(config, plan, source, scratch, queue, &views));
  return render_device_views(config, views, 0, plan.view_count, pixels, queue);
}

}  // namespace ocellus
