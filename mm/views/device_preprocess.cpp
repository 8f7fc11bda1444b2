#include "mm/views/device_preprocess.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "mm/views/view_maker.h"

namespace ocellus {
namespace {

int64_t packed_bytes(Size size) { return int64_t{3} * size.width * size.height; }

/// Consecutive pieces of scratch; records a shortage.
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

int64_t tables_bytes(int64_t longest) {
  // A window has at most 6 * from / to + 3 pixels, at least 9 if the picture grows; its span is 12 bytes.
  return aligned_bytes(4 * (6 + 6) * longest);
}

/// Scratch of the resizes. Outputs of the passes alternate between two places, so that each pass reads the output of
/// the one before; if there is only one place, a resize along the rows writes there. The tiled image stays in its
/// place: the overview needs one more resize, and one more place.
struct ResizeScratch {
  DeviceView<std::byte> places[2];
  DeviceView<std::byte> overview;
  DeviceView<std::byte> tables;
  int next_place = 0;

  void take(const ViewPlan& plan, ScratchPieces& pieces);
  DeviceView<uint8_t> next(Size size) { return rows_in(places[std::exchange(next_place, 1 - next_place)], size); }
  static DeviceView<uint8_t> rows_in(const DeviceView<std::byte>& place, Size size) {
    return {reinterpret_cast<uint8_t*>(place.data), size.height, int64_t{3} * size.width};
  }
};

/// Calls visit for the steps of a canvas in order: columns before rows.
template <class Visit>
void for_each_pass(const Canvas& canvas, Size source, Visit visit) {
  Size from = source;
  const bool squared = canvas.square > 0;
  for (int32_t i = 0; i < canvas.resize_count; ++i) {
    const Size to = canvas.resizes[i].to;
    const bool has_margins = squared && i == 0;  // margins are written by a pass
    if (has_margins || from.width != to.width) visit(i, true, Size{to.width, from.height});
    if (has_margins || from.height != to.height) visit(i, false, to);
    from = to;
  }
}

void ResizeScratch::take(const ViewPlan& plan, ScratchPieces& pieces) {
  int64_t largest = 0, newest = 0, longest = std::max(plan.source.width, plan.source.height);
  int passes = 0;
  const auto measure = [&](const Canvas& canvas, Size source) {
    for_each_pass(canvas, source, [&](int32_t, bool, Size to) {
      ++passes;
      largest = std::max(largest, newest);  // the last pass of the overview has a place of its own
      newest = packed_bytes(to);
      longest = std::max<int64_t>({longest, to.width, to.height});
    });
  };
  if (plan.tile_count() > 0) measure(plan.tiles, plan.source);
  const bool tiles_take_both = passes > 1;
  measure(plan.overview, plan.overview.is_of_tiles ? plan.tiles.size : plan.source);
  places[0] = pieces.take(largest);
  if (passes > 2 || tiles_take_both) places[1] = pieces.take(largest);
  overview = pieces.take(packed_bytes(plan.view_size()));
  tables = pieces.take(tables_bytes(longest));
}

/// Runs a canvas's resizes. `result`: output of the last pass; null: the next place.
DeviceView<const uint8_t> run_passes(const PreprocessConfig& config, const Canvas& canvas, Size source_size,
                                     DeviceView<const uint8_t> source, const DeviceView<std::byte>* result,
                                     ResizeScratch& scratch, Queue& queue) {
  int left = 0;
  for_each_pass(canvas, source_size, [&](int32_t, bool, Size) { ++left; });
  for_each_pass(canvas, source_size, [&](int32_t resize, bool columns, Size to) {
    const bool is_last = --left == 0;
    const DeviceView<uint8_t> output =
        is_last && result != nullptr ? ResizeScratch::rows_in(*result, to) : scratch.next(to);
    const bool has_margins = canvas.square > 0 && resize == 0;
    resample_picture({.source = source,
                      .output = output,
                      .columns = columns,
                      .filter = canvas.resizes[resize].filter,
                      .margins = has_margins ? square_margins(config, canvas, source_size, columns) : Margins{},
                      .scratch = scratch.tables},
                     queue);
    source = output;
  });
  return source;
}

/// Uploads a picture in staging.host to the same offset on the device.
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

void pack_plane(const Frame& frame, int plane, std::byte* to) {
  const PlaneSize size = plane_size(frame, plane);
  for (int32_t y = 0; y < size.rows; ++y, to += size.row_bytes)
    std::memcpy(to, frame.planes[plane] + y * frame.stride_bytes[plane], static_cast<size_t>(size.row_bytes));
}

}  // namespace

Status find_frame(const Frame& frame, const Queue& queue, bool* on_device) {
  *on_device = false;
  if (!queue.on_cuda()) return {};
  for (int i = 0; i < kFramePlanes && plane_size(frame, i).rows > 0; ++i) {
    bool is_there = false;
    OCELLUS_TRY(queue.find_memory(frame.planes[i], &is_there));
    if (i > 0 && is_there != *on_device)
      return OCELLUS_FAIL(Code::kBadArgument, "some planes of the %s frame are in the GPU's memory, some are not",
                          pixel_format_name(frame.format));
    *on_device = is_there;
  }
  return {};
}

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
  bool on_device = false;
  OCELLUS_TRY(find_frame(frame, queue, &on_device));
  *out = {frame.format, frame.matrix, frame.full_range, depth_of(frame, limits), frame.width, frame.height, {}};
  if (on_device) queue.follow_default_stream();
  int64_t offset = 0;
  for (int i = 0; i < kFramePlanes; ++i) {
    const PlaneSize size = plane_size(frame, i);
    out->planes[i] = {reinterpret_cast<const uint8_t*>(staging.device.data + offset), size.rows, size.row_bytes};
    if (on_device)
      queue.copy_rows(staging.device.data + offset, frame.planes[i], frame.stride_bytes[i], size.row_bytes, size.rows);
    else
      pack_plane(frame, i, staging.host.data + offset);
    offset += size.rows * size.row_bytes;
  }
  if (on_device) {
    queue.note_copies();
    queue.wait_for_copies();
  } else {
    queue.upload(staging, bytes);
  }
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
  *out = {.plan = prepared.plan, .tiles = {}, .overview = {}, .left = 0, .top = 0};
  if (prepared.tiles.pixels != nullptr) OCELLUS_TRY(upload_image(prepared.tiles, staging, queue, &out->tiles));
  return upload_image(prepared.overview, staging, queue, &out->overview);
}

int64_t device_picture_scratch_bytes(const PreprocessConfig& config, const ImageLimits& limits) {
  const ViewBounds bounds = view_bounds(config, limits);
  const int64_t longest = std::max(limits.max_side, bounds.longest_side);
  return aligned_bytes(3 * limits.max_pixels) + bounds.stages * aligned_bytes(3 * bounds.stage_pixels) +
         aligned_bytes(3 * bounds.view_pixels) + tables_bytes(longest);
}

Status prepare_device_views(const PreprocessConfig& config, const ViewPlan& plan, const DevicePicture& source,
                            DeviceView<std::byte> scratch, Queue& queue, DeviceViews* out) {
  if (plan.source != Size{source.width, source.height}) {
    return OCELLUS_FAIL(Code::kInternal, "the views were planned for %d x %d pixels, but the picture has %d x %d",
                        plan.source.width, plan.source.height, source.width, source.height);
  }
  ScratchPieces pieces(scratch);
  const bool converts = source.format != PixelFormat::kRgb8;
  DeviceView<std::byte> rgb;
  ResizeScratch resizing;
  if (converts) rgb = pieces.take(packed_bytes(plan.source));
  resizing.take(plan, pieces);
  OCELLUS_TRY(pieces.check());
  DeviceView<const uint8_t> picture = source.planes[0];
  if (converts) {
    const DeviceView<uint8_t> output = ResizeScratch::rows_in(rgb, plan.source);
    convert_pixels({.format = source.format,
                    .matrix = source.matrix,
                    .full_range = source.full_range,
                    .depth = source.depth,
                    .planes = {source.planes[0], source.planes[1], source.planes[2]},
                    .output = output},
                   queue);
    picture = output;
  }
  *out = {.plan = plan, .tiles = {}, .overview = {}, .left = plan.tiles.left, .top = plan.tiles.top};
  if (plan.tile_count() > 0)
    out->tiles = run_passes(config, plan.tiles, plan.source, picture, nullptr, resizing, queue);
  const bool of_tiles = plan.overview.is_of_tiles;
  out->overview = run_passes(config, plan.overview, of_tiles ? plan.tiles.size : plan.source,
                             of_tiles ? out->tiles : picture, &resizing.overview, resizing, queue);
  return queue.status();
}

Status render_device_views(const PreprocessConfig& config, const DeviceViews& views, int32_t first, int32_t count,
                           DeviceView<float> pixels, Queue& queue) {
  const ViewPlan& plan = views.plan;
  const Size size = plan.view_size(first);
  const int64_t view_rows = int64_t{3} * size.height;
  if (first < 0 || count < 1 || count > plan.view_count() - first || plan.view_size(first + count - 1) != size ||
      pixels.data == nullptr || pixels.rows != count * view_rows || pixels.cols != size.width) {
    return OCELLUS_FAIL(Code::kInternal, "views %d to %d of %d cannot be rendered into [%lld, %lld]", first,
                        first + count - 1, plan.view_count(), static_cast<long long>(pixels.rows),
                        static_cast<long long>(pixels.cols));
  }
  const Normalisation normalisation = normalisation_of(config);
  const int32_t overview = plan.overview_index(), end = first + count;
  if (overview >= first && overview < end)
    normalise_tiles({.image = views.overview,
                     .normalisation = normalisation,
                     .height = size.height,
                     .pixels = pixels.slice_rows((overview - first) * view_rows, view_rows)},
                    queue);
  const int32_t begin = std::max(first, plan.first_tile());
  const int32_t tiles = std::min(end, plan.first_tile() + plan.tile_count()) - begin;
  if (tiles > 0)
    normalise_tiles({.image = views.tiles,
                     .normalisation = normalisation,
                     .height = size.height,
                     .tile_cols = plan.tile_cols,
                     .left = views.left,
                     .top = views.top,
                     .first_tile = begin - plan.first_tile(),
                     .pixels = pixels.slice_rows((begin - first) * view_rows, tiles * view_rows)},
                    queue);
  return queue.status();
}

Status enqueue_views(const PreprocessConfig& config, const ViewPlan& plan, const DevicePicture& source,
                     DeviceView<std::byte> scratch, DeviceView<float> pixels, Queue& queue) {
  DeviceViews views;
  OCELLUS_TRY(prepare_device_views(config, plan, source, scratch, queue, &views));
  return render_device_views(config, views, 0, plan.view_count(), pixels, queue);
}

}  // namespace ocellus
