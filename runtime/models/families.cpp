#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "runtime/models/family.h"

namespace ocellus {

extern const Family kSmolVlmFamily, kLlavaNextFamily, kLlavaFamily, kInternVlFamily, kQwen2VlFamily, kQwen25VlFamily,
    kQwen3VlFamily, kCosmos3EdgeFamily, kGemma3Family, kGemma4Family, kPixtralFamily, kLfm2Family, kLightOnOcrFamily,
    kPaddleOcrFamily;

namespace {

constexpr const Family* kFamilies[] = {&kSmolVlmFamily,    &kLlavaNextFamily, &kLlavaFamily,   &kInternVlFamily,
                                       &kQwen25VlFamily,   &kQwen2VlFamily,   &kQwen3VlFamily, &kCosmos3EdgeFamily,
                                       &kGemma3Family,     &kGemma4Family,    &kPixtralFamily, &kLfm2Family,
                                       &kLightOnOcrFamily, &kPaddleOcrFamily};

constexpr auto kVisionFamilies = [] {
  std::array<const VisionFamily*, std::size(kFamilies)> halves{};
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = &kFamilies[i]->vision;
  return halves;
}();

}  // namespace

std::span<const Family* const> families() { return kFamilies; }

/// The first pass of a resize leaves the source's height: with a side cut to a whole number of rows, at most twice what
/// the reduction in both directions would leave.
void bound_resizes(int64_t row_side, int64_t reduced_rows, const ImageLimits& limits, ViewBounds* bounds) {
  bounds->view_pixels = bounds->rows * row_side * row_side;
  bounds->longest_side = static_cast<int32_t>(bounds->rows * row_side);
  const auto least = static_cast<int64_t>(std::sqrt(static_cast<double>(reduced_rows)));
  bounds->resize_bytes = resize_bound_bytes(longest_side(limits), least * row_side, bounds->longest_side);
  const auto pixels = static_cast<double>(std::max(limits.max_pixels, bounds->view_pixels));
  const auto reduced = static_cast<int64_t>(2 * std::sqrt(pixels * static_cast<double>(bounds->view_pixels)));
  bounds->stage_pixels = std::max(reduced, limits.max_side * row_side) + row_side;
}

void describe_plain_layer(const VisionConfig& c, std::string_view at, ShapeTensors* tensors) {
  tensors->norm(at, "ln1", c.width, true);
  for (const char* part : {"attn_q", "attn_k", "attn_v", "attn_out"}) tensors->matrix(at, part, c.width, c.width, true);
  tensors->norm(at, "ln2", c.width, true);
  tensors->matrix(at, "ffn_up", c.mlp_width, c.width, true);
  tensors->matrix(at, "ffn_down", c.width, c.mlp_width, true);
}

std::span<const VisionFamily* const> vision_families() { return kVisionFamilies; }

const Family& find_family(std::string_view name) {
  static constexpr Family kNone;
  for (const Family* family : kFamilies)
    if (family->name == name) return *family;
  return kNone;
}

const Family* family_of(const VisionConfig& config) {
  for (const Family* family : kFamilies)
    if (&family->vision == config.family) return family;
  return nullptr;
}

}  // namespace ocellus
