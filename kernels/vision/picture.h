// Pictures on the device: conversion of raw frames to RGB8, and of RGB8 to the normalised planes that vision towers
// read. Pictures are matrices of bytes: [height, 3 * width] for RGB8, rows possibly strided. No op needs aligned rows.
// Every result is bit-equal to mm/pictures/frame.h and mm/pictures/resize.h (resample_picture: see there); the
// arithmetic of both is in kernels/vision/picture_math.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

enum class PixelFormat : uint8_t {
  kRgb8,    // R G B
  kRgba8,   // R G B A; composited on white
  kGray8,   // Y
  kNv12,    // plane 0: Y; plane 1: U V for every 2 x 2 pixels
  kYuyv,    // Y0 U Y1 V for every 2 x 1 pixels
  kBgr8,    // B G R
  kBgra8,   // B G R A; composited on white
  kI420,    // plane 0: Y; planes 1 and 2: U and V for every 2 x 2 pixels, fewer at the edges of odd sizes
  kGray16,  // 16 bits, the low byte first: depth or Y
  kI422,    // as kI420, for every 2 x 1 pixels
  kI444,    // as kI420, for every pixel
};
inline constexpr int kPixelFormats = 11, kFramePlanes = 3;
enum class ColorMatrix : uint8_t { kBt601, kBt709 };

/// Depths, in the picture's units, that are shown as white and as black; between them grey falls linearly.
struct DepthRange {
  int32_t near = 0;
  int32_t far = 0;  // 0: 16 bits are no depth, and lose their lower eight
};

/// rgb[y][3 * x + c] = channel c of pixel (x, y); chroma is replicated
///
/// Shapes    rgb [H, 3 * W]; planes[0] [H, bytes of W pixels]; planes[1] [H / 2, W] for NV12; planes[1] and planes[2]
///           [(H + 1) / 2, (W + 1) / 2] for I420, [H, (W + 1) / 2] for I422, [H, W] for I444; else unused; W even for
///           NV12 and YUYV, H even for NV12
/// Types     u8; 16.16 fixed point between
/// Aliasing  none
struct ConvertPixelsArgs {
  PixelFormat format = PixelFormat::kRgb8;
  ColorMatrix matrix = ColorMatrix::kBt601;  // meaning of U and V
  bool full_range = false;                   // false: Y in 16..235, U and V in 16..240
  DepthRange depth = {};                     // meaning of kGray16
  DeviceView<const uint8_t> planes[kFramePlanes];
  DeviceView<uint8_t> output;
};
void convert_pixels(const ConvertPixelsArgs& args, Queue& queue);

/// Normalisation of a byte for a tower: (byte / 255 - mean) / std, by channel.
struct Normalisation {
  float mean[3] = {0.5f, 0.5f, 0.5f};
  float std[3] = {0.5f, 0.5f, 0.5f};
};

/// The filters of Pillow's resize.
enum class Filter : uint8_t { kBilinear, kBicubic, kLanczos };

/// A picture inside a longer one, along the resampled axis: `before` pixels of one colour, the picture, and then more
/// of that colour up to `length`.
struct Margins {
  int64_t length = 0;  // 0: no margins
  int64_t before = 0;
  uint8_t colour[3] = {};
};

/// Pillow's antialiased resize along one axis: 22-bit fixed-point weights, 8 bits out. Both axes take two of these,
/// columns first.
///
/// Shapes    source [H, 3 * W]; output [H, 3 * V] or [G, 3 * W]: exactly one side has another length than the source
///           with its margins
/// Types     u8; weights are formed in f64 and rounded to 22 bits, sums in i32. The backends' sines (of Lanczos only)
///           differ in their last bit, which moves a rounded weight by one once in about 1e9 weights and then a result
///           by at most one
/// Aliasing  none
/// Scratch   resample_scratch_bytes(source's length with margins, output's length, filter) on a 16-byte boundary
struct ResamplePictureArgs {
  DeviceView<const uint8_t> source;
  DeviceView<uint8_t> output;
  bool columns = true;  // the width changes, not the height
  Filter filter = Filter::kLanczos;
  Margins margins = {};
  DeviceView<std::byte> scratch;
};
void resample_picture(const ResamplePictureArgs& args, Queue& queue);
int64_t resample_scratch_bytes(int64_t source_length, int64_t output_length, Filter filter);

/// Normalises some of the tiles of an RGB8 image, row by row. The image lies at (left, top) of a black one with
/// tile_cols tiles per row: with (u, v) = (tile_col * width + x - left, tile_row * height + y - top),
/// pixels[(i * 3 + c) * height + y][x] = normalise(image[v][3 * u + c]), or normalise(0) outside the image.
///
/// Shapes    image [H, 3 * W]; pixels [tiles * 3 * height, width]
/// Types     u8 in, f32 out
struct NormaliseTilesArgs {
  DeviceView<const uint8_t> image;
  Normalisation normalisation;
  int32_t height = 0;
  int32_t tile_cols = 1;
  int32_t left = 0;
  int32_t top = 0;
  int32_t first_tile = 0;
  DeviceView<float> pixels;
};
void normalise_tiles(const NormaliseTilesArgs& args, Queue& queue);

}  // namespace ocellus
