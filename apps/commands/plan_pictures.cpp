#include "apps/commands/plan_pictures.h"

#include <algorithm>
#include <cmath>

#include "apps/base/sizes.h"

namespace ocellus::app {
namespace {

constexpr int32_t kMostRows = 65536;  // more than any model takes of a picture

std::string size_text(int32_t width, int32_t height) { return std::to_string(width) + " x " + std::to_string(height); }

// A view of one size, as whose square every picture is seen.
bool has_one_view(const Model& model, const ocellus_limits& limits) {
  return model.facts.any_image_size == 0 && (model.facts.max_views <= 1 || limits.max_clip_frames > 0);
}

// 0 if the library refuses the picture.
int32_t count_rows(const Model& model, const ocellus_limits& limits, const LargestPicture& picture) {
  const Result<int32_t> rows = model.count_image_rows(limits, {picture.width, picture.height});
  return rows ? *rows : 0;
}

}  // namespace

int32_t planned_tiles(const Model& model, const ocellus_limits& limits) {
  if (limits.max_clip_frames > 0) return 0;
  const int32_t tiles = std::max(model.facts.max_views - 1, 0);
  return limits.max_tiles > 0 && tiles > 0 ? limits.max_tiles : tiles;
}

LargestPicture largest_picture(const Model& model, const ocellus_limits& limits) {
  const int64_t side = limits.max_image_side > 0 ? limits.max_image_side : kUsualSide;
  const auto pixels = static_cast<double>(limits.max_image_pixels);
  LargestPicture picture;
  picture.width = static_cast<int32_t>(std::clamp<int64_t>(std::lround(std::sqrt(pixels * 16 / 9)), 1, side));
  picture.height = static_cast<int32_t>(std::clamp<int64_t>(limits.max_image_pixels / picture.width, 1, side));
  picture.rows = picture.whole_rows = count_rows(model, limits, picture);
  picture.seen_width = picture.width;
  picture.seen_height = picture.height;
  if (has_one_view(model, limits)) {
    picture.seen_width = picture.seen_height = model.facts.image_size;
    return picture;
  }
  ocellus_limits whole = limits;
  whole.max_tiles = whole.max_clip_frames = whole.planned_image_rows = 0;
  whole.max_image_rows = model.facts.any_image_size != 0 ? kMostRows : 0;
  picture.whole_rows = std::max(picture.rows, count_rows(model, whole, picture));
  if (picture.rows == picture.whole_rows) return picture;
  const double share = std::sqrt(static_cast<double>(picture.rows) / picture.whole_rows);
  picture.seen_width = static_cast<int32_t>(std::lround(share * picture.width));
  picture.seen_height = static_cast<int32_t>(std::lround(share * picture.height));
  return picture;
}

nlohmann::ordered_json largest_picture_json(const LargestPicture& picture) {
  return {{"width", picture.width},
          {"height", picture.height},
          {"seen_width", picture.seen_width},
          {"seen_height", picture.seen_height},
          {"rows", picture.rows},
          {"whole_rows", picture.whole_rows},
          {"reduced", picture.is_reduced()}};
}

std::string seen_size(const LargestPicture& picture) {
  if (!picture.is_reduced()) return "";
  return (picture.rows < picture.whole_rows ? "about " : "") + size_text(picture.seen_width, picture.seen_height);
}

std::string describe_reduction(const Model& model, const ocellus_limits& limits) {
  const LargestPicture picture = largest_picture(model, limits);
  std::string text;
  if (picture.is_reduced()) {
    text = "one of " + size_text(picture.width, picture.height) + " reduced to " + seen_size(picture);
    if (picture.rows < picture.whole_rows)
      text += " (" + std::to_string(picture.rows) + " of " + format_count(picture.whole_rows, "row") + ")";
  }
  if (limits.max_whole_pixels > 0 && limits.max_whole_pixels < limits.max_image_pixels)
    text += (text.empty() ? "" : ", ") + ("those decoded as a whole (progressive JPEG, WebP) of up to " +
                                          format_count(limits.max_whole_pixels, "pixel"));
  return text;
}

std::string describe_shown(const Model& model, const ocellus_limits& limits, const ocellus_plan& plan) {
  if (shown_pictures(limits) == 0) return "";
  std::string text = limits.max_images > 0 ? format_count(limits.max_images, "picture") : "";
  if (limits.max_clip_frames > 0)
    text += (text.empty() ? "" : " and ") + format_count(limits.max_clip_frames, "frame") + " of clips";
  text += " of up to " + std::to_string(limits.max_image_pixels) + " pixels";
  if (limits.max_image_side > kUsualSide) text += " and sides of " + std::to_string(limits.max_image_side);
  if (const int32_t tiles = planned_tiles(model, limits); tiles > 0) text += " in up to " + format_count(tiles, "tile");
  if (model.facts.any_image_size != 0) text += " in up to " + format_count(plan.rows_per_image, "row");
  const std::string reduction = describe_reduction(model, limits);
  return reduction.empty() ? text : text + ", " + reduction + ",";
}

int32_t shown_pictures(const ocellus_limits& limits) { return limits.max_images + limits.max_clip_frames; }

}  // namespace ocellus::app
