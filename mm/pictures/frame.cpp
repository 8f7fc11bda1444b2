#include "mm/pictures/frame.h"

#include "kernels/vision/picture_math.h"

namespace ocellus {

using namespace picture;

namespace {

/// A loop per format, known at compile time.
template <PixelFormat kFormat>
void convert_row(const Frame& frame, const DepthRange& depth, int32_t y, uint8_t* out) {
  const PixelMeaning meaning = {yuv_conversion(frame.matrix, frame.full_range), depth};
  const uint8_t* rows[kFramePlanes];
  for (int i = 0; i < kFramePlanes; ++i) {
    const int32_t row = i == 0 ? y : chroma_row(kFormat, y);
    rows[i] = plane_size(frame, i).rows > 0 ? frame.planes[i] + row * frame.stride_bytes[i] : nullptr;
  }
  for (int32_t x = 0; x < frame.width; ++x, out += 3)
    convert_pixel(kFormat, meaning, rows[0], rows[1], rows[2], x, out);
}

void convert_row(const Frame& frame, const DepthRange& depth, int32_t y, uint8_t* out) {
  switch (frame.format) {
    case PixelFormat::kRgb8: return convert_row<PixelFormat::kRgb8>(frame, depth, y, out);
    case PixelFormat::kRgba8: return convert_row<PixelFormat::kRgba8>(frame, depth, y, out);
    case PixelFormat::kGray8: return convert_row<PixelFormat::kGray8>(frame, depth, y, out);
    case PixelFormat::kNv12: return convert_row<PixelFormat::kNv12>(frame, depth, y, out);
    case PixelFormat::kYuyv: return convert_row<PixelFormat::kYuyv>(frame, depth, y, out);
    case PixelFormat::kBgr8: return convert_row<PixelFormat::kBgr8>(frame, depth, y, out);
    case PixelFormat::kBgra8: return convert_row<PixelFormat::kBgra8>(frame, depth, y, out);
    case PixelFormat::kI420: return convert_row<PixelFormat::kI420>(frame, depth, y, out);
    case PixelFormat::kGray16: return convert_row<PixelFormat::kGray16>(frame, depth, y, out);
    case PixelFormat::kI422: return convert_row<PixelFormat::kI422>(frame, depth, y, out);
    case PixelFormat::kI444: return convert_row<PixelFormat::kI444>(frame, depth, y, out);
  }
}

Status check_planes(const Frame& frame) {
  const char* name = pixel_format_name(frame.format);
  const bool even_width = frame.format == PixelFormat::kNv12 || frame.format == PixelFormat::kYuyv;
  const bool even_height = frame.format == PixelFormat::kNv12;
  if ((even_width && frame.width % 2 != 0) || (even_height && frame.height % 2 != 0)) {
    return OCELLUS_FAIL(Code::kBadArgument, "the %s frame is %d x %d pixels: its chroma needs an even %s", name,
                        frame.width, frame.height, even_height ? "width and height" : "width");
  }
  for (int plane = 0; plane < kFramePlanes; ++plane) {
    const int64_t needed = plane_size(frame, plane).row_bytes;
    if (needed == 0) continue;
    if (frame.planes[plane] == nullptr) {
      return OCELLUS_FAIL(Code::kBadArgument, "plane %d of the %s frame is null", plane, name);
    }
    if (frame.stride_bytes[plane] < needed || frame.stride_bytes[plane] > int64_t{1} << 31) {
      return OCELLUS_FAIL(Code::kBadArgument,
                          "plane %d of the %s frame has a stride of %lld bytes, but its rows take %lld", plane, name,
                          static_cast<long long>(frame.stride_bytes[plane]), static_cast<long long>(needed));
    }
  }
  return {};
}

}  // namespace

DepthRange depth_of(const Frame& frame, const ImageLimits& limits) {
  return frame.depth.far > 0 ? frame.depth : limits.depth;
}

const char* pixel_format_name(PixelFormat format) {
  switch (format) {
    case PixelFormat::kRgb8: return "RGB8";
    case PixelFormat::kRgba8: return "RGBA8";
    case PixelFormat::kGray8: return "GRAY8";
    case PixelFormat::kNv12: return "NV12";
    case PixelFormat::kYuyv: return "YUYV";
    case PixelFormat::kBgr8: return "BGR8";
    case PixelFormat::kBgra8: return "BGRA8";
    case PixelFormat::kI420: return "I420";
    case PixelFormat::kGray16: return "GRAY16";
    case PixelFormat::kI422: return "I422";
    case PixelFormat::kI444: return "I444";
  }
  return "unknown";
}

PlaneSize plane_size(const Frame& frame, int plane) {
  const int64_t width = frame.width;
  if (plane == 1 && frame.format == PixelFormat::kNv12) return {frame.height / 2, width};
  if (plane != 0 && frame.format == PixelFormat::kI420) return {(frame.height + 1) / 2, (width + 1) / 2};
  if (plane != 0 && frame.format == PixelFormat::kI422) return {frame.height, (width + 1) / 2};
  if (plane != 0 && frame.format == PixelFormat::kI444) return {frame.height, width};
  if (plane != 0) return {};
  switch (frame.format) {
    case PixelFormat::kRgb8:
    case PixelFormat::kBgr8: return {frame.height, 3 * width};
    case PixelFormat::kRgba8:
    case PixelFormat::kBgra8: return {frame.height, 4 * width};
    case PixelFormat::kYuyv:
    case PixelFormat::kGray16: return {frame.height, 2 * width};
    case PixelFormat::kGray8:
    case PixelFormat::kNv12:
    case PixelFormat::kI420:
    case PixelFormat::kI422:
    case PixelFormat::kI444: return {frame.height, width};
  }
  return {};
}

Status check_frame(const Frame& frame, const ImageLimits& limits) {
  if (static_cast<int>(frame.format) >= kPixelFormats || frame.matrix > ColorMatrix::kBt709) {
    return OCELLUS_FAIL(Code::kBadArgument, "the frame has pixel format %d and colour matrix %d, which do not exist",
                        static_cast<int>(frame.format), static_cast<int>(frame.matrix));
  }
  OCELLUS_TRY(check_depth(frame.depth));
  OCELLUS_TRY(check_image_size(limits, "frame", frame.width, frame.height));
  return check_planes(frame);
}

Status feed_frame(const Frame& frame, const ImageLimits& limits, Extent scratch, RowConsumer& rows) {
  OCELLUS_TRY(check_frame(frame, limits));
  if (frame.format == PixelFormat::kRgb8) {
    feed_rows({frame.planes[0], frame.width, frame.height, frame.stride_bytes[0]}, rows);
    return {};
  }
  if (scratch.data == nullptr || scratch.bytes < int64_t{3} * frame.width)
    return OCELLUS_FAIL(Code::kFull, "a row of the %d x %d frame takes %lld bytes of scratch, but %lld were planned",
                        frame.width, frame.height, static_cast<long long>(int64_t{3} * frame.width),
                        static_cast<long long>(scratch.bytes));
  auto* const row = reinterpret_cast<uint8_t*>(scratch.data);
  const DepthRange depth = depth_of(frame, limits);
  for (int32_t y = 0; y < frame.height; ++y) {
    convert_row(frame, depth, y, row);
    rows.take(row);
  }
  return {};
}

Status convert_frame(const Frame& frame, const ImageLimits& limits, uint8_t* rgb, int64_t rgb_bytes) {
  OCELLUS_TRY(check_frame(frame, limits));
  const int64_t needed = int64_t{3} * frame.width * frame.height;
  if (rgb_bytes < needed)
    return OCELLUS_FAIL(Code::kFull, "the %d x %d frame takes %lld bytes as RGB, but there is room for %lld",
                        frame.width, frame.height, static_cast<long long>(needed), static_cast<long long>(rgb_bytes));
  const DepthRange depth = depth_of(frame, limits);
  for (int32_t y = 0; y < frame.height; ++y) convert_row(frame, depth, y, rgb + int64_t{3} * y * frame.width);
  return {};
}

}  // namespace ocellus
