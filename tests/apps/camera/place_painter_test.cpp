// Boxes, points and labels on a picture, and the files that it is written to.
#include "apps/camera/place_painter.h"

#include <doctest/doctest.h>

#include <set>

#include "apps/camera/jpeg_repair.h"
#include "apps/camera/picture_encode.h"

namespace ocellus::app {
namespace {

using Colour = std::array<uint8_t, 3>;
constexpr Colour kGround = {10, 20, 30};

Picture make_picture(int32_t width, int32_t height) {
  Picture picture = {.width = width, .height = height, .pixels = {}};
  for (int32_t i = 0; i < width * height; ++i) {
    picture.pixels.insert(picture.pixels.end(), kGround.begin(), kGround.end());
  }
  return picture;
}

Colour at(const Picture& picture, int32_t x, int32_t y) {
  const uint8_t* pixel = picture.pixels.data() + 3 * (y * picture.width + x);
  return {pixel[0], pixel[1], pixel[2]};
}

Place box(double left, double top, double right, double bottom, const std::string& label = "") {
  return {.label = label, .is_point = false, .left = left, .top = top, .right = right, .bottom = bottom};
}

Place point(double x, double y, const std::string& label = "") {
  return {.label = label, .is_point = true, .left = x, .top = y, .right = x, .bottom = y};
}

TEST_CASE("a box is an outline of two pixels, and the next one has another colour") {
  Picture picture = make_picture(200, 100);
  paint_places({box(20, 30, 80, 70), box(100, 30, 180, 70)}, &picture);
  const Colour first = at(picture, 20, 30), second = at(picture, 100, 30);
  CHECK(first != kGround);
  CHECK(second != kGround);
  CHECK(first != second);
  for (const auto& [x, y] : {std::pair(21, 31), {79, 69}, {50, 30}, {50, 69}, {20, 50}, {79, 50}}) {
    CHECK(at(picture, x, y) == first);
  }
  for (const auto& [x, y] : {std::pair(22, 32), {77, 67}, {80, 50}, {50, 70}, {19, 50}, {50, 29}, {50, 50}}) {
    CHECK(at(picture, x, y) == kGround);
  }
}

TEST_CASE("a point is a disc with a white rim") {
  Picture picture = make_picture(200, 100);
  paint_places({point(100, 50)}, &picture);
  CHECK(at(picture, 100, 50) != kGround);
  CHECK(at(picture, 100, 42) == Colour{255, 255, 255});
  CHECK(at(picture, 100, 40) == kGround);
}

TEST_CASE("a label stands above its box, in letters on its colour") {
  Picture plain = make_picture(200, 100), labelled = plain;
  paint_places({box(20, 30, 80, 70)}, &plain);
  paint_places({box(20, 30, 80, 70, "car")}, &labelled);
  CHECK(at(plain, 20, 29) == kGround);
  CHECK(at(labelled, 20, 29) == at(labelled, 20, 30));
  std::set<Colour> seen;
  for (int32_t x = 20; x < 45; ++x) {
    for (int32_t y = 19; y < 30; ++y) seen.insert(at(labelled, x, y));
  }
  CHECK(seen.count({255, 255, 255}) == 1);
}

TEST_CASE("a label that the font lacks is its number") {
  Picture foreign = make_picture(200, 100), number = foreign;
  paint_places({box(20, 30, 80, 70, "\xE8\xBD\xA6")}, &foreign);
  paint_places({box(20, 30, 80, 70, "#1")}, &number);
  CHECK(foreign.pixels == number.pixels);
}

TEST_CASE("places at the edges, without size and with long labels stay in the picture") {
  for (const auto& [width, height] : {std::pair(1, 1), {3, 200}, {200, 3}, {64, 48}}) {
    Picture picture = make_picture(width, height);
    const std::vector<uint8_t> before = picture.pixels;
    paint_places({box(0, 0, width, height, std::string(500, 'W')), box(width, height, width, height, "~"),
                  point(width - 1, height - 1, "!"), point(0, 0, "A \x7F\n")},
                 &picture);
    CHECK(picture.pixels.size() == before.size());
    CHECK(picture.pixels != before);
  }
}

TEST_CASE("a painted picture is written as PNG without loss and as JPEG") {
  Picture picture = make_picture(64, 48);
  paint_places({box(5, 20, 60, 40, "car")}, &picture);
  Frame frame;
  Picture read;
  REQUIRE(encode_png(picture.pixels.data(), 64, 48, &frame.bytes));
  CHECK(is_png(frame.bytes));
  REQUIRE(decode_rgb(frame, &read));
  CHECK(read.pixels == picture.pixels);
  REQUIRE(encode_jpeg(picture.pixels.data(), 64, 48, 92, &frame.bytes));
  CHECK(is_jpeg(frame.bytes));
  REQUIRE(decode_rgb(frame, &read));
  CHECK((read.width == 64 && read.height == 48));
}

}  // namespace
}  // namespace ocellus::app
