#include "mm/resize.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/pictures.h"

using namespace ocellus;
using namespace ocellus::testing;

namespace {

nlohmann::json goldens() {
  std::ifstream file(std::string(OCELLUS_SOURCE_DIR) + "/tests/data/images/goldens.json");
  return nlohmann::json::parse(file);
}

Filter filter_named(const std::string& name) {
  return name == "bilinear" ? Filter::kBilinear : name == "bicubic" ? Filter::kBicubic : Filter::kLanczos;
}

std::vector<uint8_t> pillow_resize(const RgbImage& image, Size target, Filter filter) {
  const Size source = {image.width, image.height};
  GuardedScratch scratch(PillowResize::scratch_bytes(source, target, filter));
  ImageRows rows(image);
  PillowResize resize;
  REQUIRE(resize.begin(rows, source, target, filter, scratch.extent()).ok());
  std::vector<uint8_t> pixels;
  for (int32_t y = 0; y < target.height; ++y) {
    const uint8_t* row = resize.row(y);
    pixels.insert(pixels.end(), row, row + 3 * target.width);
  }
  CHECK(scratch.intact());
  return pixels;
}

double pixel(const RgbImage& image, int x, int y, int c) {
  return image.row(std::clamp(y, 0, image.height - 1))[3 * std::clamp(x, 0, image.width - 1) + c];
}

// Lagrange's cubic, written as such.
double lagrange(const double* v, double t) {
  double sum = 0;
  for (int i = -1; i <= 2; ++i) {
    double product = 1;
    for (int j = -1; j <= 2; ++j) product *= i == j ? 1 : (t - j) / (i - j);
    sum += v[i + 1] * product;
  }
  return sum;
}

}  // namespace

TEST_CASE("Pillow's resize is reproduced to the bit") {
  const nlohmann::json entries = goldens()["resizes"];
  REQUIRE(entries.size() >= 30);
  for (const auto& entry : entries) {
    const Size source = {entry["source"][0], entry["source"][1]}, target = {entry["target"][0], entry["target"][1]};
    CAPTURE(entry.dump());
    const auto pixels = synthetic_pixels(source.width, source.height);
    const auto resized =
        pillow_resize(view_of(pixels, source.width, source.height), target, filter_named(entry["filter"]));
    const std::vector<int> first = entry["first"];
    for (size_t i = 0; i < first.size(); ++i) CHECK(int{resized[i]} == first[i]);
    CHECK(fnv(resized.data(), static_cast<int64_t>(resized.size())) ==
          std::stoull(entry["hash"].get<std::string>(), nullptr, 16));
  }
}

TEST_CASE("resizes chain without a picture between them") {
  const auto pixels = synthetic_pixels(53, 47);
  const RgbImage image = view_of(pixels, 53, 47);
  const auto half = pillow_resize(image, {31, 29}, Filter::kLanczos);
  const auto whole = pillow_resize(view_of(half, 31, 29), {64, 16}, Filter::kBicubic);
  GuardedScratch first_scratch(PillowResize::scratch_bytes({53, 47}, {31, 29}, Filter::kLanczos));
  GuardedScratch second_scratch(PillowResize::scratch_bytes({31, 29}, {64, 16}, Filter::kBicubic));
  ImageRows rows(image);
  PillowResize first, second;
  REQUIRE(first.begin(rows, {53, 47}, {31, 29}, Filter::kLanczos, first_scratch.extent()).ok());
  REQUIRE(second.begin(first, {31, 29}, {64, 16}, Filter::kBicubic, second_scratch.extent()).ok());
  for (int32_t y = 0; y < 16; ++y) CHECK(std::memcmp(second.row(y), whole.data() + y * 192, 192) == 0);
}

TEST_CASE("a resize without enough scratch or with empty sides is refused") {
  const auto pixels = synthetic_pixels(20, 10);
  ImageRows rows(view_of(pixels, 20, 10));
  const int64_t bytes = PillowResize::scratch_bytes({20, 10}, {7, 7}, Filter::kLanczos);
  GuardedScratch scratch(bytes - 1);
  PillowResize resize;
  CHECK(resize.begin(rows, {20, 10}, {7, 7}, Filter::kLanczos, scratch.extent()).code() == Code::kFull);
  CHECK(resize.begin(rows, {20, 10}, {0, 7}, Filter::kLanczos, scratch.extent()).code() == Code::kBadArgument);
}

TEST_CASE("the stretches follow their formulas") {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    const int w = static_cast<int>(random() % 40) + 1, h = static_cast<int>(random() % 40) + 1;
    const Size target = {static_cast<int>(random() % 60) + 1, static_cast<int>(random() % 60) + 1};
    CAPTURE(w);
    CAPTURE(h);
    CAPTURE(target.width);
    CAPTURE(target.height);
    const auto pixels = synthetic_pixels(w, h);
    const RgbImage image = view_of(pixels, w, h);
    std::vector<uint8_t> linear(static_cast<size_t>(target.width) * 3), cubic(static_cast<size_t>(target.width) * 3);
    for (int y = 0; y < target.height; ++y) {
      stretch_row_bilinear(image, target, y, linear.data());
      stretch_row_bicubic(image, target, y, 0, target.width, cubic.data());
      for (int x = 0; x < target.width; ++x) {
        const double u = target.width > 1 ? static_cast<double>(x) * (w - 1) / (target.width - 1) : 0;
        const double v = target.height > 1 ? static_cast<double>(y) * (h - 1) / (target.height - 1) : 0;
        const int u0 = static_cast<int>(u), v0 = static_cast<int>(v);
        const double s = static_cast<double>(x) * w / target.width, t = static_cast<double>(y) * h / target.height;
        const int s0 = static_cast<int>(s + 1e-6), t0 = static_cast<int>(t + 1e-6);
        for (int c = 0; c < 3; ++c) {
          const double above = std::lerp(pixel(image, u0, v0, c), pixel(image, u0 + 1, v0, c), u - u0);
          const double below = std::lerp(pixel(image, u0, v0 + 1, c), pixel(image, u0 + 1, v0 + 1, c), u - u0);
          CHECK(std::lerp(above, below, v - v0) - linear[static_cast<size_t>(3 * x + c)] ==
                doctest::Approx(0.5).epsilon(0.51));
          double along[4];
          for (int i = 0; i < 4; ++i) {
            double values[4];
            for (int j = 0; j < 4; ++j) values[j] = pixel(image, s0 - 1 + j, t0 - 1 + i, c);
            along[i] = lagrange(values, s - s0);
          }
          const double expected = std::clamp(lagrange(along, t - t0), 0.0, 255.0);
          CHECK(std::fabs(expected - cubic[static_cast<size_t>(3 * x + c)]) < 0.51);
        }
      }
    }
  }
}

TEST_CASE("a stretch to the same size copies, and a part of a row is that part of the row") {
  const auto pixels = synthetic_pixels(19, 5);
  const RgbImage image = view_of(pixels, 19, 5);
  uint8_t row[57], part[12];
  for (int y = 0; y < 5; ++y) {
    stretch_row_bilinear(image, {19, 5}, y, row);
    CHECK(std::memcmp(row, image.row(y), 57) == 0);
    stretch_row_bicubic(image, {19, 5}, y, 0, 19, row);
    CHECK(std::memcmp(row, image.row(y), 57) == 0);
  }
  uint8_t wide[90];
  stretch_row_bicubic(image, {30, 9}, 4, 0, 30, wide);
  stretch_row_bicubic(image, {30, 9}, 4, 11, 4, part);
  CHECK(std::memcmp(wide + 33, part, 12) == 0);
}
