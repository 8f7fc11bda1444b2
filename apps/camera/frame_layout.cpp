#include "apps/camera/frame_layout.h"

#include <charconv>
#include <cstring>

#include "apps/base/failure.h"
#include "apps/camera/sentences.h"
#include "runtime/ocellus.h"

namespace ocellus::app {
namespace {

constexpr int64_t kMaxStride = 1 << 20;
constexpr int64_t kGstreamerAlignment = 4;

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

bool has_half_width(int32_t pixel_format) { return pixel_format == OCELLUS_I420 || pixel_format == OCELLUS_I422; }

// Bytes of a pixel in the first plane.
int64_t first_plane_bytes(int32_t pixel_format) {
  switch (static_cast<ocellus_pixel_format>(pixel_format)) {
    case OCELLUS_RGB8:
    case OCELLUS_BGR8: return 3;
    case OCELLUS_RGBA8:
    case OCELLUS_BGRA8: return 4;
    case OCELLUS_YUYV:
    case OCELLUS_GRAY16: return 2;
    case OCELLUS_GRAY8:
    case OCELLUS_NV12:
    case OCELLUS_I420:
    case OCELLUS_I422:
    case OCELLUS_I444: break;
  }
  return 1;
}

std::vector<int64_t> parse_numbers(const std::string& text) {
  std::vector<int64_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;; ++at) {
    int64_t number = 0;
    const auto [stop, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 1) return {};
    numbers.push_back(number);
    if (stop == end) return numbers;
    if (*stop != ',') return {};
    at = stop;
  }
}

}  // namespace

int64_t FrameLayout::bytes() const {
  int64_t sum = 0;
  for (const PlaneLayout& plane : planes) sum += plane.stride * plane.stored_rows;
  return sum;
}

int64_t FrameLayout::needed_bytes() const {
  int64_t sum = 0, padding = 0;
  for (const PlaneLayout& plane : planes) {
    if (plane.rows == 0) continue;
    sum += plane.stride * plane.stored_rows;
    padding = plane.stride * (plane.stored_rows - plane.rows) + plane.stride - plane.row_bytes;
  }
  return sum - padding;
}

FrameLayout packed_layout(int32_t pixel_format, int32_t width, int32_t height) {
  const bool needs_even_width = pixel_format == OCELLUS_NV12 || pixel_format == OCELLUS_YUYV;
  const bool needs_even_height = pixel_format == OCELLUS_NV12;
  FrameLayout layout;
  if (width < 1 || height < 1 || (needs_even_width && width % 2 != 0) || (needs_even_height && height % 2 != 0)) {
    return layout;
  }
  const int64_t half_width = (int64_t{width} + 1) / 2, half_height = (int64_t{height} + 1) / 2;
  const auto plane = [](int64_t row_bytes, int64_t rows) { return PlaneLayout{row_bytes, rows, row_bytes, rows}; };
  layout.planes[0] = plane(first_plane_bytes(pixel_format) * width, height);
  if (pixel_format == OCELLUS_NV12) layout.planes[1] = plane(width, half_height);
  if (pixel_format == OCELLUS_I420) layout.planes[1] = plane(half_width, half_height);
  if (pixel_format == OCELLUS_I422) layout.planes[1] = plane(half_width, height);
  if (pixel_format == OCELLUS_I444) layout.planes[1] = plane(width, height);
  if (pixel_format != OCELLUS_NV12) layout.planes[2] = layout.planes[1];
  return layout;
}

FrameLayout aligned_layout(int32_t pixel_format, int32_t width, int32_t height, int64_t alignment, bool has_even_rows) {
  FrameLayout layout = packed_layout(pixel_format, width, height);
  for (PlaneLayout& plane : layout.planes) plane.stride = round_up(plane.row_bytes, alignment);
  if (has_even_rows && pixel_format == OCELLUS_I420) layout.planes[0].stored_rows = round_up(height, 2);
  return layout;
}

FrameLayout gstreamer_layout(int32_t pixel_format, int32_t width, int32_t height) {
  return aligned_layout(pixel_format, width, height, kGstreamerAlignment, true);
}

FrameLayout strided_layout(int32_t pixel_format, int32_t width, int32_t height, int64_t stride) {
  FrameLayout layout = packed_layout(pixel_format, width, height);
  for (PlaneLayout& plane : layout.planes) {
    const bool is_half = has_half_width(pixel_format) && &plane != layout.planes.data();
    if (plane.rows > 0) plane.stride = is_half ? (stride + 1) / 2 : stride;
  }
  return layout;
}

FrameLayout parse_stride(const std::string& text, int32_t pixel_format, int32_t width, int32_t height) {
  if (text.empty()) return packed_layout(pixel_format, width, height);
  if (text == "gstreamer") return gstreamer_layout(pixel_format, width, height);
  const std::vector<int64_t> strides = parse_numbers(text);
  if (strides.empty()) {
    throw Failure(kExitUsage,
                  "The --stride of raw frames is gstreamer or the bytes from one row to the next, one "
                  "number or one for each plane, as 1280 or 856,428, not \"" +
                      text + "\".");
  }
  FrameLayout layout = strided_layout(pixel_format, width, height, strides[0]);
  size_t planes = 0;
  for (const PlaneLayout& plane : layout.planes) planes += plane.rows > 0 ? 1 : 0;
  if (strides.size() > planes) {
    throw Failure(kExitUsage, "--stride has " + std::to_string(strides.size()) + " numbers, but the format has " +
                                  std::to_string(planes) + (planes == 1 ? " plane." : " planes."));
  }
  for (size_t i = 1; i < planes && strides.size() > 1; ++i)
    layout.planes[i].stride = strides[std::min(i, strides.size() - 1)];
  for (size_t i = 0; i < planes; ++i) {
    const PlaneLayout& plane = layout.planes[i];
    if (plane.stride >= plane.row_bytes && plane.stride <= kMaxStride) continue;
    throw Failure(kExitUsage, "--stride gives rows of " + std::to_string(plane.stride) + " bytes, but those of " +
                                  size_text(width, height) + " take " + std::to_string(plane.row_bytes) +
                                  (i == 0 ? "" : " in plane " + std::to_string(i + 1)) +
                                  ", and at most 1 MiB is read.");
  }
  return layout;
}

void pack_planes(const FrameLayout& layout, const uint8_t* from, uint8_t* to) {
  for (const PlaneLayout& plane : layout.planes) {
    const auto kept = static_cast<size_t>(plane.row_bytes);
    for (int64_t row = 0; row < plane.rows; ++row, to += kept) std::memmove(to, from + row * plane.stride, kept);
    from += plane.stride * plane.stored_rows;
  }
}

void pack_planes(const FrameLayout& layout, std::vector<uint8_t>* bytes) {
  int64_t packed = 0;
  for (const PlaneLayout& plane : layout.planes) packed += plane.row_bytes * plane.rows;
  if (packed == layout.bytes()) return;  // no padding
  pack_planes(layout, bytes->data(), bytes->data());
  bytes->resize(static_cast<size_t>(packed));
}

}  // namespace ocellus::app
