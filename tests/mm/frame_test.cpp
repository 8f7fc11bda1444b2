#include "mm/frame.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/support/pictures.h"

using namespace ocellus;
using namespace ocellus::testing;

namespace {

std::vector<uint8_t> random_bytes(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// Rec. 601 and Rec. 709 as their definitions give them, in double.
void reference_rgb(double y, double u, double v, ColorMatrix matrix, bool full_range, double* rgb) {
  const double kr = matrix == ColorMatrix::kBt601 ? 0.299 : 0.2126, kb = matrix == ColorMatrix::kBt601 ? 0.114 : 0.0722;
  const double luma = full_range ? y / 255 : (y - 16) / 219;
  const double pb = (u - 128) / (full_range ? 255 : 224), pr = (v - 128) / (full_range ? 255 : 224);
  const double red = luma + 2 * (1 - kr) * pr, blue = luma + 2 * (1 - kb) * pb;
  const double green = (luma - kr * red - kb * blue) / (1 - kr - kb);
  rgb[0] = 255 * std::clamp(red, 0.0, 1.0);
  rgb[1] = 255 * std::clamp(green, 0.0, 1.0);
  rgb[2] = 255 * std::clamp(blue, 0.0, 1.0);
}

Frame make_frame(PixelFormat format, int width, int height, const std::vector<uint8_t>& luma, int64_t stride) {
  Frame frame;
  frame.format = format;
  frame.width = width;
  frame.height = height;
  frame.planes[0] = luma.data();
  frame.stride_bytes[0] = stride;
  return frame;
}

}  // namespace

TEST_CASE("NV12 and YUYV are within one of the exact conversion") {
  const int width = 26, height = 14;
  const int64_t stride = 61;
  const auto first = random_bytes(static_cast<size_t>(stride) * height, 1),
             chroma = random_bytes(static_cast<size_t>(stride) * height / 2, 2);
  for (const PixelFormat format : {PixelFormat::kNv12, PixelFormat::kYuyv}) {
    for (const ColorMatrix matrix : {ColorMatrix::kBt601, ColorMatrix::kBt709}) {
      for (const bool full_range : {false, true}) {
        Frame frame = make_frame(format, width, height, first, stride);
        frame.planes[1] = chroma.data();
        frame.stride_bytes[1] = stride;
        frame.matrix = matrix;
        frame.full_range = full_range;
        GuardedScratch scratch(3 * width * height);
        RgbImage image;
        REQUIRE(convert_frame(frame, {}, scratch.extent(), &image).ok());
        CHECK(scratch.intact());
        for (int y = 0; y < height; ++y) {
          for (int x = 0; x < width; ++x) {
            const uint8_t* row = first.data() + y * stride;
            const uint8_t* uv = chroma.data() + y / 2 * stride + x / 2 * 2;
            const bool planar = format == PixelFormat::kNv12;
            const double luma = planar ? row[x] : row[2 * x];
            double rgb[3];
            reference_rgb(luma, planar ? uv[0] : row[x / 2 * 4 + 1], planar ? uv[1] : row[x / 2 * 4 + 3], matrix,
                          full_range, rgb);
            for (int c = 0; c < 3; ++c) CHECK(std::fabs(image.row(y)[3 * x + c] - rgb[c]) < 0.51);
          }
        }
      }
    }
  }
}

TEST_CASE("video black and white become black and white") {
  const std::vector<uint8_t> pixels = {16, 128, 235, 128};
  const Frame frame = make_frame(PixelFormat::kYuyv, 2, 1, pixels, 4);
  GuardedScratch scratch(6);
  RgbImage image;
  REQUIRE(convert_frame(frame, {}, scratch.extent(), &image).ok());
  CHECK(std::all_of(image.pixels, image.pixels + 3, [](int value) { return value == 0; }));
  CHECK(std::all_of(image.pixels + 3, image.pixels + 6, [](int value) { return value == 255; }));
}

TEST_CASE("grey is spread, alpha is composited on white, RGB is used where it lies") {
  const auto bytes = random_bytes(400, 3);
  GuardedScratch scratch(3 * 7 * 5);
  RgbImage image;
  REQUIRE(convert_frame(make_frame(PixelFormat::kGray8, 7, 5, bytes, 11), {}, scratch.extent(), &image).ok());
  for (int y = 0; y < 5; ++y) {
    for (int i = 0; i < 21; ++i) CHECK(image.row(y)[i] == bytes[static_cast<size_t>(y * 11 + i / 3)]);
  }
  REQUIRE(convert_frame(make_frame(PixelFormat::kRgba8, 7, 5, bytes, 40), {}, scratch.extent(), &image).ok());
  for (int y = 0; y < 5; ++y) {
    for (int i = 0; i < 21; ++i) {
      const uint8_t* pixel = bytes.data() + y * 40 + i / 3 * 4;
      CHECK(image.row(y)[i] == blend_on_white(pixel[i % 3], pixel[3]));
    }
  }
  REQUIRE(convert_frame(make_frame(PixelFormat::kRgb8, 7, 5, bytes, 33), {}, Extent(), &image).ok());
  CHECK(image.pixels == bytes.data());
  CHECK(image.stride_bytes == 33);
}

TEST_CASE("frames that cannot be right are refused") {
  const auto bytes = random_bytes(400, 4);
  GuardedScratch scratch(300);
  RgbImage image;
  const auto code = [&](const Frame& frame) { return convert_frame(frame, {}, scratch.extent(), &image).code(); };
  CHECK(code(make_frame(PixelFormat::kGray8, 8, 4, bytes, 8)) == Code::kOk);
  CHECK(code(make_frame(PixelFormat::kGray8, 8, 4, bytes, 7)) == Code::kBadArgument);
  CHECK(code(make_frame(PixelFormat::kGray8, 8, 4, bytes, -8)) == Code::kBadArgument);
  CHECK(code(make_frame(PixelFormat::kGray8, 0, 4, bytes, 8)) == Code::kBadImage);
  CHECK(code(make_frame(PixelFormat::kGray8, -3, 4, bytes, 8)) == Code::kBadImage);
  CHECK(code(make_frame(PixelFormat::kGray8, 8, 100000, bytes, 8)) == Code::kBadImage);
  CHECK(code(make_frame(PixelFormat::kYuyv, 7, 4, bytes, 14)) == Code::kBadArgument);
  CHECK(code(make_frame(PixelFormat::kYuyv, 8, 3, bytes, 16)) == Code::kOk);
  CHECK(code(make_frame(PixelFormat::kNv12, 8, 4, bytes, 8)) == Code::kBadArgument);  // no chroma
  Frame frame = make_frame(PixelFormat::kNv12, 8, 4, bytes, 8);
  frame.planes[1] = bytes.data();
  frame.stride_bytes[1] = 8;
  CHECK(code(frame) == Code::kOk);
  frame.stride_bytes[1] = 4;
  CHECK(code(frame) == Code::kBadArgument);
  frame.stride_bytes[1] = 8;
  frame.height = 3;
  CHECK(code(frame) == Code::kBadArgument);
  frame.height = 4;
  frame.planes[0] = nullptr;
  CHECK(code(frame) == Code::kBadArgument);
  CHECK(code(make_frame(PixelFormat::kGray8, 12, 10, bytes, 12)) == Code::kFull);
  CHECK(code(make_frame(static_cast<PixelFormat>(9), 8, 4, bytes, 8)) == Code::kBadArgument);
  CHECK(scratch.intact());
  CHECK(frame_scratch_bytes({}) >= 3 * ImageLimits().max_pixels);
}
