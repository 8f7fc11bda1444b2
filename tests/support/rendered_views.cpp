#include "tests/support/rendered_views.h"

namespace ocellus::testing {

ImageLimits tight_limits(int32_t width, int32_t height) {
  ImageLimits limits;
  limits.max_side = std::max(width, height);
  limits.max_pixels = int64_t{width} * height;
  return limits;
}

ViewPlan plan_of(const PreprocessConfig& config, int32_t width, int32_t height) {
  ViewPlan plan;
  REQUIRE_MESSAGE(plan_views(config, width, height, &plan).ok(), last_failure().sentence);
  return plan;
}

std::vector<Planes> render_views(const PreprocessConfig& config, const RgbImage& image, const ImageLimits& limits,
                                 const Orientation& orientation) {
  const RgbImage seen = seen_picture(nullptr, orientation, image.width, image.height);
  const ViewPlan plan = plan_of(config, seen.width, seen.height);
  const GuardedScratch scratch(ViewMaker::scratch_bytes(config, limits));
  PreparedViews prepared;
  const Status status = prepare_views(config, plan, image, scratch.extent(), &prepared, orientation);
  REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
  std::vector<Planes> views;
  for (int32_t i = 0; i < plan.view_count(); ++i) {
    const auto [across, down] = plan.view_size(i);
    Planes& planes = views.emplace_back(static_cast<size_t>(int64_t{3} * across * down), -9.0f);
    const Status rendered = render_view(config, prepared, i, {planes.data(), int64_t{3} * down, across});
    REQUIRE_MESSAGE(rendered.ok(), last_failure().sentence);
  }
  CHECK(scratch.intact());
  return views;
}

std::vector<Planes> render_views(const PreprocessConfig& config, const RgbImage& image,
                                 const Orientation& orientation) {
  return render_views(config, image, tight_limits(image.width, image.height), orientation);
}

std::vector<uint8_t> pixels_of(const Planes& planes, const PreprocessConfig& config) {
  const size_t count = planes.size() / 3;
  std::vector<uint8_t> pixels;
  pixels.reserve(planes.size());
  for (size_t i = 0; i < count; ++i)
    for (size_t c = 0; c < 3; ++c)
      pixels.push_back(
          static_cast<uint8_t>(std::lround((planes[c * count + i] * config.std[c] + config.mean[c]) * 255)));
  return pixels;
}

}  // namespace ocellus::testing
