#include "mm/preprocess.h"

#include <algorithm>
#include <cstring>

#include "mm/image_decode.h"
#include "mm/plane_writer.h"
#include "mm/preprocess_llava.h"

namespace ocellus {
namespace {

/// Two resizes in a row, of which the picture between them exists only a few rows at a time.
class ResizeChain {
 public:
  explicit ResizeChain(const RgbImage& image) : image_(image), rows_(image) {}

  Status begin(Size step, Size target, Extent scratch) {
    const Size source = {image_.width, image_.height};
    const int64_t first_bytes = PillowResize::scratch_bytes(source, step, Filter::kLanczos);
    OCELLUS_TRY(first_.begin(rows_, source, step, Filter::kLanczos, scratch));
    const Extent rest = {scratch.data + first_bytes, scratch.bytes - first_bytes};
    return second_.begin(first_, step, target, Filter::kLanczos, rest);
  }
  const uint8_t* row(int32_t y) { return second_.row(y); }

 private:
  RgbImage image_;
  ImageRows rows_;
  PillowResize first_, second_;
};

// llama.cpp's tile: a window on the picture resized to plan.inner inside the black grid.
void draw_tile_row(const PreparedViews& views, int32_t size, int32_t left, int32_t y, uint8_t* row) {
  const ViewPlan& plan = views.plan;
  const int32_t inner_y = y - plan.inner_top;
  const int32_t first = std::max(left, plan.inner_left);
  const int32_t end = std::min(left + size, plan.inner_left + plan.inner.width);
  std::memset(row, 0, static_cast<size_t>(size) * 3);
  if (inner_y < 0 || inner_y >= plan.inner.height || first >= end) return;
  stretch_row_bicubic(views.source, plan.inner, inner_y, first - plan.inner_left, end - first,
                      row + 3 * (first - left));
}

Status render_llama_cpp(int32_t size, const PreparedViews& views, int32_t view_index, const PlaneWriter& writer) {
  if (views.scratch.bytes < int64_t{3} * size) {
    return OCELLUS_FAIL(Code::kFull, "rendering a view takes %d bytes of scratch, but %lld are left", 3 * size,
                        static_cast<long long>(views.scratch.bytes));
  }
  auto* row = reinterpret_cast<uint8_t*>(views.scratch.data);
  const bool is_overview = view_index == views.plan.view_count - 1;
  for (int32_t y = 0; y < size; ++y) {
    if (is_overview) {
      stretch_row_bilinear(views.source, {size, size}, y, row);
    } else {
      const int32_t tile_row = view_index / views.plan.tile_cols, tile_col = view_index % views.plan.tile_cols;
      draw_tile_row(views, size, tile_col * size, tile_row * size + y, row);
    }
    writer.write(y, row);
  }
  return {};
}

Status render_hugging_face(int32_t size, const PreparedViews& views, int32_t view_index, const PlaneWriter& writer) {
  const ViewPlan& plan = views.plan;
  if (view_index < plan.view_count - 1) {
    const int32_t top = view_index / plan.tile_cols * size, left = view_index % plan.tile_cols * size;
    for (int32_t y = 0; y < size; ++y) writer.write(y, views.grid.row(top + y) + int64_t{3} * left);
    return {};
  }
  const bool tiled = plan.tile_cols > 0;
  ResizeChain chain(tiled ? views.grid : views.source);
  OCELLUS_TRY(chain.begin(tiled ? plan.grid : plan.step, {size, size}, views.scratch));
  for (int32_t y = 0; y < size; ++y) writer.write(y, chain.row(y));
  return {};
}

// At least PillowResize::scratch_bytes for any source with sides up to `source` whose target has sides up to `target`,
// if the target keeps the source's shape within a factor of three (truncation of a very thin one) or enlarges it. The
// Lanczos window covers 6 * source / target + 3 pixels.
int64_t resize_bound_bytes(int64_t source, int64_t target) {
  const int64_t columns = 4 * (6 * std::max(source, target) + 3 * target) + 8 * target;
  const int64_t one_window = 12 * source;
  const int64_t rows = 3 * (18 * source + 9 * target);
  return columns + one_window + rows + (12 + 3) * target + 9 * 16;
}

}  // namespace

int64_t preprocess_scratch_bytes(const PreprocessConfig& config, const ImageLimits& limits) {
  if (config.flavour == ResizeFlavour::kLlamaCpp) return aligned_bytes(int64_t{3} * config.image_size);
  if (config.flavour == ResizeFlavour::kLlava) return aligned_bytes(llava_scratch_bytes(config, limits));
  const int64_t view = config.image_size;
  const int64_t longest = config.longest_edge == 0 ? view : config.longest_edge;
  const int64_t step = longest + 1;  // made even
  const int64_t grid = (longest + view - 1) / view * view;
  const int64_t tiled_image = config.longest_edge == 0 || grid == view ? 0 : 3 * grid * grid + 64;
  const int64_t prepare = resize_bound_bytes(limits.max_side, step) + resize_bound_bytes(step, grid);
  const int64_t overview = 16 + resize_bound_bytes(grid, view);
  return aligned_bytes(tiled_image + std::max(prepare, overview));
}

int64_t image_scratch_bytes(const PreprocessConfig& config, const ImageLimits& limits) {
  const int64_t with_views = 3 * limits.max_pixels + 64 + preprocess_scratch_bytes(config, limits);
  return aligned_bytes(std::max(decode_scratch_bytes(limits), with_views));
}

Status prepare_views(const PreprocessConfig& config, const ViewPlan& plan, const RgbImage& source, Extent scratch,
                     PreparedViews* out) {
  if (plan.source != Size{source.width, source.height} || plan.view_count < 1) {
    return OCELLUS_FAIL(Code::kInternal, "the views were planned for %d x %d pixels, but the picture has %d x %d",
                        plan.source.width, plan.source.height, source.width, source.height);
  }
  *out = {plan, source, RgbImage(), scratch};
  if (config.flavour == ResizeFlavour::kLlamaCpp || plan.tile_cols == 0) return {};
  if (plan.step == plan.source && plan.grid == plan.step) {
    out->grid = source;
    return {};
  }
  const int64_t stride = int64_t{3} * plan.grid.width;
  const int64_t grid_bytes = (stride * plan.grid.height + 63) / 64 * 64;
  if (scratch.data == nullptr || scratch.bytes < grid_bytes) {
    return OCELLUS_FAIL(Code::kFull, "the %d x %d tiled image takes %lld bytes of scratch, but %lld are left",
                        plan.grid.width, plan.grid.height, static_cast<long long>(grid_bytes),
                        static_cast<long long>(scratch.bytes));
  }
  auto* pixels = reinterpret_cast<uint8_t*>(scratch.data);
  out->scratch = {scratch.data + grid_bytes, scratch.bytes - grid_bytes};
  ResizeChain chain(source);
  OCELLUS_TRY(chain.begin(plan.step, plan.grid, out->scratch));
  for (int32_t y = 0; y < plan.grid.height; ++y)
    std::memcpy(pixels + y * stride, chain.row(y), static_cast<size_t>(stride));
  out->grid = {pixels, plan.grid.width, plan.grid.height, stride};
  return {};
}

Status render_view(const PreprocessConfig& config, const PreparedViews& prepared, int32_t view_index,
                   DeviceView<float> out) {
  const int32_t size = config.image_size;
  if (view_index < 0 || view_index >= prepared.plan.view_count || out.data == nullptr ||
      out.rows != int64_t{3} * size || out.cols != size) {
    return OCELLUS_FAIL(Code::kInternal, "view %d of %d cannot be rendered into [%lld, %lld]", view_index,
                        prepared.plan.view_count, static_cast<long long>(out.rows), static_cast<long long>(out.cols));
  }
  const PlaneWriter writer(config, out);
  switch (config.flavour) {
    case ResizeFlavour::kLlamaCpp: return render_llama_cpp(size, prepared, view_index, writer);
    case ResizeFlavour::kHuggingFace: return render_hugging_face(size, prepared, view_index, writer);
    case ResizeFlavour::kLlava: return render_llava(config, prepared, writer);
  }
  return OCELLUS_FAIL(Code::kInternal, "no resize of this kind");
}

}  // namespace ocellus
