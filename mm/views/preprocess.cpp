#include "mm/views/preprocess.h"

#include <algorithm>

#include "kernels/vision/picture_rows.h"
#include "mm/pictures/image_decode.h"
#include "mm/views/view_maker.h"

namespace ocellus {

int64_t image_scratch_bytes(const PreprocessConfig& config, const ImageLimits& limits) {
  return aligned_bytes(ViewMaker::scratch_bytes(config, limits)) + aligned_bytes(decode_rows_scratch_bytes(limits));
}

Normalisation normalisation_of(const PreprocessConfig& config) {
  Normalisation out;
  std::copy_n(config.mean, 3, out.mean);
  std::copy_n(config.std, 3, out.std);
  return out;
}

Status render_view(const PreprocessConfig& config, const PreparedViews& prepared, int32_t view_index,
                   DeviceView<float> out) {
  const ViewPlan& plan = prepared.plan;
  const auto [width, height] = plan.view_size(view_index);
  if (view_index < 0 || view_index >= plan.view_count() || out.data == nullptr || out.rows != int64_t{3} * height ||
      out.cols != width) {
    return OCELLUS_FAIL(Code::kInternal, "view %d of %d cannot be rendered into [%lld, %lld]", view_index,
                        plan.view_count(), static_cast<long long>(out.rows), static_cast<long long>(out.cols));
  }
  const Normalisation normalisation = normalisation_of(config);
  const bool is_tile = view_index != plan.overview_index();
  const int32_t tile = view_index - plan.first_tile();
  const int32_t top = is_tile ? tile / plan.tile_cols * height : 0, left = is_tile ? tile % plan.tile_cols * width : 0;
  const RgbImage& image = is_tile ? prepared.tiles : prepared.overview;
  for (int32_t y = 0; y < height; ++y) {
    float* const planes[3] = {out.row(y), out.row(int64_t{height} + y), out.row(int64_t{2} * height + y)};
    normalise_row(normalisation, image.row(top + y) + int64_t{3} * left, width, planes);
  }
  return {};
}

}  // namespace ocellus
