#include "mm/pictures/rgb_image.h"

#include <algorithm>

#include "platform/round_up.h"

namespace ocellus {
namespace {

Status check_limits(const ImageLimits& limits) {
  constexpr int64_t kMaxPixels = int64_t{1} << 28;  // keeps every byte count below 2^31 in decoders that use int
  if (limits.max_pixels < 1 || limits.max_pixels > kMaxPixels || limits.max_side < 1 ||
      limits.max_side > kMostImageSide || limits.max_aspect < 1 || limits.max_encoded_bytes < 1 ||
      limits.max_encoded_bytes > (int64_t{1} << 30)) {
    return OCELLUS_FAIL(Code::kBadArgument,
                        "the image limits are out of range: max_pixels must be 1..2^28, max_side 1..65500, max_aspect "
                        "at least 1, max_encoded_bytes 1..2^30");
  }
  return {};
}

}  // namespace

void to_rgb_on_white(uint8_t* row, int32_t width) {
  for (int32_t x = 0; x < width; ++x) {
    const uint8_t* const rgba = row + 4 * x;
    const uint8_t alpha = rgba[3];
    for (int c = 0; c < 3; ++c) row[3 * x + c] = blend_on_white(rgba[c], alpha);
  }
}

Status check_depth(const DepthRange& depth) {
  const bool is_none = depth.near == 0 && depth.far == 0;
  if (is_none || (depth.near >= 0 && depth.near < depth.far && depth.far <= 65535)) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "depths of %d to %d are no range: 0 <= near < far <= 65535", depth.near,
                      depth.far);
}

Status check_image_size(const ImageLimits& limits, const char* what, int64_t width, int64_t height) {
  OCELLUS_TRY(check_limits(limits));
  const auto w = static_cast<long long>(width), h = static_cast<long long>(height);
  if (width < 1 || height < 1) {
    return OCELLUS_FAIL(Code::kBadImage, "the %s is %lld x %lld pixels: both sides must be at least 1", what, w, h);
  }
  if (width > limits.max_side || height > limits.max_side) {
    return OCELLUS_FAIL(Code::kBadImage,
                        "the %s is %lld x %lld pixels, but sides of %d were planned: shrink it or plan for longer "
                        "sides (max_image_side), at most %d",
                        what, w, h, limits.max_side, kMostImageSide);
  }
  if (width * height > limits.max_pixels) {
    return OCELLUS_FAIL(Code::kBadImage,
                        "the %s is %lld x %lld = %lld pixels, but %lld were planned: shrink it or plan for more pixels",
                        what, w, h, w * h, static_cast<long long>(limits.max_pixels));
  }
  if (std::max(width, height) > limits.max_aspect * std::min(width, height)) {
    return OCELLUS_FAIL(Code::kBadImage, "the %s is %lld x %lld pixels, longer than %d to 1: crop it", what, w, h,
                        limits.max_aspect);
  }
  return {};
}

int64_t max_side_sum(const ImageLimits& limits) {
  // The sum of the sides grows, for a fixed area, with the longer one, so the maximum side decides.
  int64_t longest = 1;
  const int64_t most = std::min<int64_t>(limits.max_side, limits.max_pixels);
  for (int64_t bit = int64_t{1} << 15; bit > 0; bit >>= 1) {
    const int64_t side = longest + bit;
    const int64_t shortest = divide_up(side, limits.max_aspect);
    if (side <= most && side * shortest <= limits.max_pixels) longest = side;
  }
  return longest + std::min(longest, limits.max_pixels / longest);
}

}  // namespace ocellus
