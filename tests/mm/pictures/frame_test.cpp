#include "mm/pictures/frame.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/support/pictures.h"
#include "tests/support/random_frame.h"
#include "tests/support/whole_pictures.h"

using namespace ocellus;
using namespace ocellus::testing;
using ocellus::test::RandomFrame;

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

void reference_pixel(const RandomFrame& f, int32_t x, int32_t y, double* rgb) {
  const auto yuv = [&](double luma, double u, double v) {
    reference_rgb(luma, u, v, f.frame.matrix, f.frame.full_range, rgb);
  };
  const auto packed = [&](int64_t step, bool is_reversed, bool has_alpha) {
    for (int c = 0; c < 3; ++c) {
      const double alpha = has_alpha ? f.at(0, y, step * x + 3) / 255 : 1;
      rgb[c] = 255 - (255 - f.at(0, y, step * x + (is_reversed ? 2 - c : c))) * alpha;
    }
  };
  switch (f.frame.format) {
    case PixelFormat::kRgb8: return packed(3, false, false);
    case PixelFormat::kRgba8: return packed(4, false, true);
    case PixelFormat::kBgr8: return packed(3, true, false);
    case PixelFormat::kBgra8: return packed(4, true, true);
    case PixelFormat::kGray8: rgb[0] = rgb[1] = rgb[2] = f.at(0, y, x); return;
    case PixelFormat::kNv12: return yuv(f.at(0, y, x), f.at(1, y / 2, x / 2 * 2), f.at(1, y / 2, x / 2 * 2 + 1));
    case PixelFormat::kI420: return yuv(f.at(0, y, x), f.at(1, y / 2, x / 2), f.at(2, y / 2, x / 2));
    case PixelFormat::kYuyv: return yuv(f.at(0, y, 2 * x), f.at(0, y, x / 2 * 4 + 1), f.at(0, y, x / 2 * 4 + 3));
    case PixelFormat::kI422: return yuv(f.at(0, y, x), f.at(1, y, x / 2), f.at(2, y, x / 2));
    case PixelFormat::kI444: return yuv(f.at(0, y, x), f.at(1, y, x), f.at(2, y, x));
    case PixelFormat::kGray16: {
      const double value = f.at(0, y, 2 * x) + 256 * f.at(0, y, 2 * x + 1), near = f.frame.depth.near,
                   far = f.frame.depth.far;
      rgb[0] = far == 0     ? std::floor(value / 256)
               : value == 0 ? 0
                            : 255 * std::clamp((far - value) / (far - near), 0.0, 1.0);
      rgb[1] = rgb[2] = rgb[0];
      return;
    }
  }
}

}  // namespace

TEST_CASE("every format of any size and stride is within one of the exact conversion, and reads no byte too many") {
  std::mt19937 random(11);
  for (int round = 0; round < 400; ++round) {
    const auto format = static_cast<PixelFormat>(round % kPixelFormats);
    const bool even_width = format == PixelFormat::kNv12 || format == PixelFormat::kYuyv;
    const bool even_height = format == PixelFormat::kNv12;
    const auto side = [&](bool even) {
      const auto value = static_cast<int32_t>(1 + random() % 37);
      return even ? 2 * value : value;
    };
    const int32_t width = side(even_width), height = side(even_height);
    CAPTURE(pixel_format_name(format));
    CAPTURE(width);
    CAPTURE(height);
    const RandomFrame source(format, width, height, random);
    GuardedScratch row(3 * width);
    std::vector<uint8_t> pixels;
    RgbImage image;
    REQUIRE(convert_frame(source.frame, {}, row.extent(), &pixels, &image).ok());
    CHECK(row.intact());
    double worst = 0;
    for (int32_t y = 0; y < height; ++y)
      for (int32_t x = 0; x < width; ++x) {
        double rgb[3];
        reference_pixel(source, x, y, rgb);
        for (int c = 0; c < 3; ++c) worst = std::max(worst, std::fabs(image.row(y)[3 * x + c] - rgb[c]));
      }
    CHECK(worst < 0.51);
  }
}

TEST_CASE("depth is white at its nearest, black at its farthest and where there is no reading") {
  const std::vector<uint16_t> depths = {0, 1, 299, 300, 301, 1475, 2650, 4999, 5000, 5001, 65535};
  std::vector<uint8_t> bytes;
  for (const uint16_t depth : depths) {
    bytes.push_back(static_cast<uint8_t>(depth));
    bytes.push_back(static_cast<uint8_t>(depth >> 8));
  }
  const auto shown = [&](DepthRange own, DepthRange of_limits) {
    Frame frame = make_frame(PixelFormat::kGray16, static_cast<int>(depths.size()), 1, bytes, 40);
    frame.depth = own;
    ImageLimits limits;
    limits.depth = of_limits;
    GuardedScratch row(3 * frame.width);
    std::vector<uint8_t> rgb, whole(static_cast<size_t>(3 * frame.width));
    RgbImage image;
    REQUIRE(convert_frame(frame, limits, row.extent(), &rgb, &image).ok());
    REQUIRE(ocellus::convert_frame(frame, limits, whole.data(), std::ssize(whole)).ok());
    CHECK(whole == rgb);
    std::vector<int> grey;
    for (size_t i = 0; i < rgb.size(); i += 3) {
      CHECK(rgb[i] == rgb[i + 1]);
      CHECK(rgb[i] == rgb[i + 2]);
      grey.push_back(rgb[i]);
    }
    return grey;
  };
  const std::vector<int> expected = {0, 255, 255, 255, 255, 191, 128, 0, 0, 0, 0};
  CHECK(shown({300, 5000}, {}) == expected);
  CHECK(shown({}, {300, 5000}) == expected);
  CHECK(shown({300, 5000}, {1, 2}) == expected);
  CHECK(shown({}, {}) == std::vector<int>{0, 0, 1, 1, 1, 5, 10, 19, 19, 19, 255});
  CHECK(shown({0, 65535}, {})[10] == 0);
  CHECK(shown({0, 65535}, {})[1] == 255);
  for (const DepthRange bad : {DepthRange{5, 5}, {6, 5}, {-1, 5}, {0, 65536}, {3, 0}}) {
    CHECK(check_depth(bad).code() == Code::kBadArgument);
    Frame frame = make_frame(PixelFormat::kGray16, 2, 1, bytes, 4);
    frame.depth = bad;
    CHECK(check_frame(frame, {}).code() == Code::kBadArgument);
  }
  uint8_t small[5];
  CHECK(ocellus::convert_frame(make_frame(PixelFormat::kGray16, 2, 1, bytes, 4), {}, small, 5).code() == Code::kFull);
}

TEST_CASE("video black and white become black and white") {
  const std::vector<uint8_t> pixels = {16, 128, 235, 128};
  const Frame frame = make_frame(PixelFormat::kYuyv, 2, 1, pixels, 4);
  GuardedScratch row(6);
  std::vector<uint8_t> rgb;
  RgbImage image;
  REQUIRE(convert_frame(frame, {}, row.extent(), &rgb, &image).ok());
  CHECK(std::all_of(image.pixels, image.pixels + 3, [](int value) { return value == 0; }));
  CHECK(std::all_of(image.pixels + 3, image.pixels + 6, [](int value) { return value == 255; }));
}

TEST_CASE("grey is spread, alpha is composited on white, RGB is used where it lies") {
  const auto bytes = random_bytes(400, 3);
  GuardedScratch row(3 * 7);
  std::vector<uint8_t> rgb;
  RgbImage image;
  REQUIRE(convert_frame(make_frame(PixelFormat::kGray8, 7, 5, bytes, 11), {}, row.extent(), &rgb, &image).ok());
  for (int y = 0; y < 5; ++y) {
    for (int i = 0; i < 21; ++i) CHECK(image.row(y)[i] == bytes[static_cast<size_t>(y * 11 + i / 3)]);
  }
  REQUIRE(convert_frame(make_frame(PixelFormat::kRgba8, 7, 5, bytes, 40), {}, row.extent(), &rgb, &image).ok());
  for (int y = 0; y < 5; ++y) {
    for (int i = 0; i < 21; ++i) {
      const uint8_t* pixel = bytes.data() + y * 40 + i / 3 * 4;
      CHECK(image.row(y)[i] == blend_on_white(pixel[i % 3], pixel[3]));
    }
  }
  struct : RowConsumer {
    void take(const uint8_t* given) override { rows.push_back(given); }
    std::vector<const uint8_t*> rows;
  } consumer;
  REQUIRE(feed_frame(make_frame(PixelFormat::kRgb8, 7, 5, bytes, 33), {}, Extent(), consumer).ok());
  REQUIRE(consumer.rows.size() == 5);
  for (size_t y = 0; y < 5; ++y) CHECK(consumer.rows[y] == bytes.data() + 33 * y);
}

TEST_CASE("frames that cannot be right are refused") {
  const auto bytes = random_bytes(400, 4);
  GuardedScratch row(24);
  std::vector<uint8_t> rgb;
  RgbImage image;
  const auto code = [&](const Frame& frame) { return convert_frame(frame, {}, row.extent(), &rgb, &image).code(); };
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
  CHECK(code(make_frame(PixelFormat::kGray16, 8, 4, bytes, 15)) == Code::kBadArgument);
  CHECK(code(make_frame(static_cast<PixelFormat>(255), 8, 4, bytes, 8)) == Code::kBadArgument);
  CHECK(code(make_frame(static_cast<PixelFormat>(kPixelFormats), 8, 4, bytes, 8)) == Code::kBadArgument);
  Frame planar = make_frame(PixelFormat::kI420, 7, 3, bytes, 7);
  planar.planes[1] = planar.planes[2] = bytes.data();
  planar.stride_bytes[1] = planar.stride_bytes[2] = 4;
  CHECK(code(planar) == Code::kOk);
  planar.stride_bytes[2] = 3;
  CHECK(code(planar) == Code::kBadArgument);
  planar.planes[2] = nullptr;
  CHECK(code(planar) == Code::kBadArgument);
  CHECK(row.intact());
}
