#include "kernels/vision/picture.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/vision/picture_math.h"
#include "tests/support/device.h"
#include "tests/support/guard.h"
#include "tests/support/resizes.h"
#include "tests/support/whole_pictures.h"

namespace ocellus {
namespace {

using test::Guarded;

/// Random bytes [rows, cols], smooth in places and with black and white in it.
Guarded<uint8_t> random_rows(int64_t rows, int64_t cols, int64_t stride, unsigned seed) {
  std::mt19937 random(seed);
  Guarded<uint8_t> bytes(rows, cols, stride);
  for (int64_t y = 0; y < rows; ++y) {
    for (int64_t x = 0; x < cols; ++x) {
      const bool flat = (x / 24 + y / 8) % 2 == 0;
      const unsigned value = flat ? (x / 48 % 2 == 0 ? 0 : 252) + random() % 4 : random() % 256;
      bytes.at(y, x) = static_cast<uint8_t>(value);
    }
  }
  return bytes;
}

RgbImage image_of(const Guarded<uint8_t>& rows, int32_t width, int32_t height, int64_t stride) {
  return {rows.data(), width, height, stride};
}

void check_conversion(PixelFormat format, int32_t width, int32_t height, ColorMatrix matrix, bool full_range,
                      Queue& queue) {
  CAPTURE(pixel_format_name(format));
  CAPTURE(width);
  CAPTURE(height);
  Frame frame;
  frame.format = format;
  frame.width = width;
  frame.height = height;
  frame.matrix = matrix;
  frame.full_range = full_range;
  if (width % 2 == 0) frame.depth = {300 + width, 40000};
  std::vector<Guarded<uint8_t>> planes;
  ConvertPixelsArgs args;
  args.format = format;
  args.matrix = matrix;
  args.full_range = full_range;
  args.depth = frame.depth;
  for (int i = 0; i < kFramePlanes; ++i) {
    const PlaneSize size = plane_size(frame, i);
    frame.stride_bytes[i] = size.row_bytes + 7 - 2 * i;
    planes.push_back(random_rows(std::max(size.rows, 1), std::max<int64_t>(size.row_bytes, 1), frame.stride_bytes[i],
                                 static_cast<unsigned>(i + 1)));
    frame.planes[i] = planes.back().data();
    if (size.rows > 0) args.planes[i] = planes.back().view();
  }
  std::vector<std::byte> row(static_cast<size_t>(width) * 3);
  std::vector<uint8_t> rgb;
  RgbImage expected;
  REQUIRE(testing::convert_frame(frame, {}, {row.data(), static_cast<int64_t>(row.size())}, &rgb, &expected).ok());

  Guarded<uint8_t> out(height, int64_t{3} * width, int64_t{3} * width + 11);
  args.output = out.view();
  convert_pixels(args, queue);
  REQUIRE(queue.finish().ok());
  CHECK(out.intact());
  for (int32_t y = 0; y < height; ++y)
    REQUIRE(std::memcmp(&out.at(y, 0), expected.row(y), static_cast<size_t>(width) * 3) == 0);
}

/// The picture inside its margins, as memory.
Guarded<uint8_t> with_margins(const Guarded<uint8_t>& source, Size size, const Margins& margins, bool columns) {
  const Size whole = columns ? Size{static_cast<int32_t>(margins.length), size.height}
                             : Size{size.width, static_cast<int32_t>(margins.length)};
  const int64_t left = columns ? margins.before : 0, top = columns ? 0 : margins.before;
  Guarded<uint8_t> out(whole.height, int64_t{3} * whole.width);
  for (int64_t y = 0; y < whole.height; ++y)
    for (int64_t x = 0; x < whole.width; ++x)
      for (int64_t c = 0; c < 3; ++c) {
        const bool inside = y >= top && y < top + size.height && x >= left && x < left + size.width;
        out.at(y, 3 * x + c) = inside ? source.at(y - top, 3 * (x - left) + c) : margins.colour[c];
      }
  return out;
}

/// `size` becomes `length` pixels wide, or high.
void check_resample(Size size, bool columns, int32_t length, Filter filter, const Margins& margins, Queue& queue) {
  CAPTURE(size.width);
  CAPTURE(size.height);
  CAPTURE(columns);
  CAPTURE(length);
  CAPTURE(margins.length);
  const int64_t stride = int64_t{3} * size.width + 4;
  Guarded<uint8_t> source =
      random_rows(size.height, int64_t{3} * size.width, stride, static_cast<unsigned>(size.width + size.height));
  const Size target = columns ? Size{length, size.height} : Size{size.width, length};
  Guarded<uint8_t> out(target.height, int64_t{3} * target.width, int64_t{3} * target.width + 9);
  const int64_t own_length = columns ? size.width : size.height;
  const int64_t source_length = margins.length > 0 ? margins.length : own_length;
  Guarded<std::byte> scratch(1, resample_scratch_bytes(source_length, length, filter));
  resample_picture({.source = source.view(),
                    .output = out.view(),
                    .columns = columns,
                    .filter = filter,
                    .margins = margins,
                    .scratch = scratch.view()},
                   queue);
  REQUIRE(queue.finish().ok());
  CHECK(out.intact());
  CHECK(scratch.intact());

  const Guarded<uint8_t> whole =
      margins.length > 0 ? with_margins(source, size, margins, columns) : random_rows(1, 3, 3, 0);
  const Size from = columns ? Size{static_cast<int32_t>(source_length), size.height}
                            : Size{size.width, static_cast<int32_t>(source_length)};
  const auto expected =
      testing::pillow_resized(margins.length > 0 ? image_of(whole, from.width, from.height, int64_t{3} * from.width)
                                                 : image_of(source, size.width, size.height, stride),
                              target, filter);
  for (int32_t y = 0; y < target.height; ++y)
    REQUIRE(std::memcmp(&out.at(y, 0), expected.data() + int64_t{3} * target.width * y,
                        static_cast<size_t>(target.width) * 3) == 0);
}

TEST_CASE("convert_pixels equals the conversion of frames to the bit") {
  test::for_each_backend([](Queue& queue) {
    for (const auto& [width, height] : {std::pair{2, 2}, {6, 4}, {258, 6}, {640, 30}, {1000, 6}}) {
      for (const PixelFormat format : {PixelFormat::kNv12, PixelFormat::kYuyv, PixelFormat::kI420, PixelFormat::kI422,
                                       PixelFormat::kI444, PixelFormat::kGray16})
        for (const ColorMatrix matrix : {ColorMatrix::kBt601, ColorMatrix::kBt709})
          for (const bool full_range : {false, true})
            check_conversion(format, width, height, matrix, full_range, queue);
    }
    check_conversion(PixelFormat::kYuyv, 4, 7, ColorMatrix::kBt601, false, queue);
    for (const auto& [width, height] : {std::pair{1, 1}, {7, 5}, {255, 3}, {257, 9}, {1, 190}})
      for (const PixelFormat format :
           {PixelFormat::kRgba8, PixelFormat::kGray8, PixelFormat::kBgr8, PixelFormat::kBgra8, PixelFormat::kI420,
            PixelFormat::kGray16, PixelFormat::kI422, PixelFormat::kI444})
        check_conversion(format, width, height, ColorMatrix::kBt709, width % 2 == 0, queue);
  });
}

TEST_CASE("convert_pixels copies RGB8") {
  test::for_each_backend([](Queue& queue) {
    Guarded<uint8_t> source = random_rows(5, 3 * 301, 3 * 301 + 8, 4), out(5, 3 * 301);
    convert_pixels({.planes = {source.view()}, .output = out.view()}, queue);
    REQUIRE(queue.finish().ok());
    CHECK(out.intact());
    for (int64_t y = 0; y < 5; ++y) CHECK(std::memcmp(&out.at(y, 0), &source.at(y, 0), 3 * 301) == 0);
  });
}

TEST_CASE("resample_picture equals Pillow's passes") {
  test::for_each_backend([](Queue& queue) {
    for (const Filter filter : {Filter::kBilinear, Filter::kBicubic, Filter::kLanczos}) {
      for (const auto& [from, to] :
           {std::pair{1, 9}, {9, 1}, {2, 1}, {50, 64}, {64, 50}, {100, 7}, {333, 128}, {40, 341}}) {
        check_resample({from, 5}, true, to, filter, {}, queue);
        check_resample({6, from}, false, to, filter, {}, queue);
        check_resample({from, 131}, true, to, filter, {}, queue);
        check_resample({350, from}, false, to, filter, {}, queue);
      }
      check_resample({4000, 2}, true, 30, filter, {}, queue);  // windows of hundreds of pixels
      check_resample({2, 4000}, false, 30, filter, {}, queue);
    }
  });
}

TEST_CASE("resample_picture sees margins as if they were pixels") {
  test::for_each_backend([](Queue& queue) {
    for (const bool columns : {true, false}) {
      for (const Filter filter : {Filter::kBicubic, Filter::kLanczos}) {
        for (const auto& [length, before, whole, to] : {std::tuple{1, 0, 2, 3},
                                                        {1, 40, 100, 7},  // windows in the margins only
                                                        {30, 10, 50, 64},
                                                        {30, 0, 50, 33},
                                                        {30, 20, 50, 9},
                                                        {48, 8, 64, 64},  // only put into its margins
                                                        {600, 300, 1200, 31},
                                                        {200, 0, 200, 50}}) {
          const Margins margins = {.length = whole, .before = before, .colour = {122, 0, 255}};
          check_resample(columns ? Size{length, 19} : Size{19, length}, columns, to, filter, margins, queue);
        }
      }
    }
  });
}

TEST_CASE("normalise_tiles puts every pixel where the formula says") {
  test::for_each_backend([](Queue& queue) {
    for (const auto& [rows, cols, side] : {std::tuple{1, 1, 1}, {1, 1, 37}, {2, 3, 16}, {3, 1, 24}, {4, 4, 50}}) {
      CAPTURE(side);
      const int64_t width = int64_t{3} * cols * side;
      Guarded<uint8_t> picture = random_rows(int64_t{rows} * side, width, width + 5, 8);
      const Normalisation norm = {{0.48f, 0.45f, 0.41f}, {0.27f, 0.26f, 0.28f}};
      const int32_t first = rows * cols / 2, count = rows * cols - first;
      Guarded<float> pixels(int64_t{3} * count * side, side, side + 2);
      normalise_tiles({.image = picture.view(),
                       .normalisation = norm,
                       .height = side,
                       .tile_cols = cols,
                       .first_tile = first,
                       .pixels = pixels.view()},
                      queue);
      REQUIRE(queue.finish().ok());
      CHECK(pixels.intact());
      int64_t wrong = 0;
      for (int32_t i = 0; i < count; ++i)
        for (int32_t c = 0; c < 3; ++c)
          for (int32_t y = 0; y < side; ++y)
            for (int32_t x = 0; x < side; ++x) {
              const int32_t tile = first + i;
              const uint8_t value =
                  picture.at(int64_t{tile / cols} * side + y, int64_t{3} * (tile % cols * side + x) + c);
              wrong += pixels.at((int64_t{3} * i + c) * side + y, x) !=
                       (static_cast<float>(value) / 255.0f - norm.mean[c]) / norm.std[c];
            }
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("normalise_tiles is black around an image that is smaller than its tiles") {
  test::for_each_backend([](Queue& queue) {
    constexpr int32_t kSide = 16, kCols = 3, kLeft = 5, kTop = 9, kWidth = 38, kHeight = 20;
    Guarded<uint8_t> image = random_rows(kHeight, int64_t{3} * kWidth, int64_t{3} * kWidth + 2, 8);
    const Normalisation norm = {{0.48f, 0.45f, 0.41f}, {0.27f, 0.26f, 0.28f}};
    Guarded<float> pixels(int64_t{3} * 6 * kSide, kSide, kSide + 1);
    normalise_tiles({.image = image.view(),
                     .normalisation = norm,
                     .height = kSide,
                     .tile_cols = kCols,
                     .left = kLeft,
                     .top = kTop,
                     .pixels = pixels.view()},
                    queue);
    REQUIRE(queue.finish().ok());
    CHECK(pixels.intact());
    int64_t wrong = 0;
    for (int32_t tile = 0; tile < 6; ++tile)
      for (int32_t c = 0; c < 3; ++c)
        for (int32_t y = 0; y < kSide; ++y)
          for (int32_t x = 0; x < kSide; ++x) {
            const int32_t u = tile % kCols * kSide + x - kLeft, v = tile / kCols * kSide + y - kTop;
            const bool inside = u >= 0 && u < kWidth && v >= 0 && v < kHeight;
            const uint8_t value = inside ? image.at(v, int64_t{3} * u + c) : uint8_t{0};
            wrong += pixels.at((int64_t{3} * tile + c) * kSide + y, x) !=
                     (static_cast<float>(value) / 255.0f - norm.mean[c]) / norm.std[c];
          }
    CHECK(wrong == 0);
  });
}

}  // namespace
}  // namespace ocellus
