#include "mm/pictures/resize.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/resizes.h"

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
        pillow_resized(view_of(pixels, source.width, source.height), target, filter_named(entry["filter"]));
    const std::vector<int> first = entry["first"];
    for (size_t i = 0; i < first.size(); ++i) CHECK(int{resized[i]} == first[i]);
    CHECK(fnv(resized.data(), static_cast<int64_t>(resized.size())) ==
          std::stoull(entry["hash"].get<std::string>(), nullptr, 16));
  }
}

TEST_CASE("resizes chain without a picture between them") {
  const auto pixels = synthetic_pixels(53, 47);
  const RgbImage image = view_of(pixels, 53, 47);
  const auto half = pillow_resized(image, {31, 29}, Filter::kLanczos);
  const auto whole = pillow_resized(view_of(half, 31, 29), {64, 16}, Filter::kBicubic);
  GuardedScratch first_scratch(PillowResize::scratch_bytes({53, 47}, {31, 29}, {}, Filter::kLanczos));
  GuardedScratch second_scratch(PillowResize::scratch_bytes({31, 29}, {64, 16}, {}, Filter::kBicubic));
  RowKeeper rows(192);
  PillowResize first, second;
  REQUIRE(first.begin({53, 47}, {31, 29}, {}, Filter::kLanczos, second, first_scratch.extent()).ok());
  REQUIRE(second.begin({31, 29}, {64, 16}, {}, Filter::kBicubic, rows, second_scratch.extent()).ok());
  feed_rows(image, first);
  CHECK(rows.bytes == whole);
}

TEST_CASE("a resize without enough scratch or with empty sides is refused") {
  RowKeeper rows(0);
  const Size source = {20, 10}, target = {7, 7};
  GuardedScratch scratch(PillowResize::scratch_bytes(source, target, {}, Filter::kLanczos) - 1);
  PillowResize resize;
  CHECK(resize.begin(source, target, {}, Filter::kLanczos, rows, scratch.extent()).code() == Code::kFull);
  CHECK(resize.begin(source, {0, 7}, {}, Filter::kLanczos, rows, scratch.extent()).code() == Code::kBadArgument);
  GuardedScratch few(Stretch::scratch_bytes(source, target, {}, Stretch::Kind::kCubic) - 1);
  Stretch stretch;
  CHECK(stretch.begin(source, target, {}, Stretch::Kind::kCubic, rows, few.extent()).code() == Code::kFull);
  CHECK(stretch.begin({20, 0}, target, {}, Stretch::Kind::kLinear, rows, few.extent()).code() == Code::kBadArgument);
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
    const auto linear = stretched(image, target, Stretch::Kind::kLinear);
    const auto cubic = stretched(image, target, Stretch::Kind::kCubic);
    for (int y = 0; y < target.height; ++y) {
      for (int x = 0; x < target.width; ++x) {
        const double u = target.width > 1 ? static_cast<double>(x) * (w - 1) / (target.width - 1) : 0;
        const double v = target.height > 1 ? static_cast<double>(y) * (h - 1) / (target.height - 1) : 0;
        const int u0 = static_cast<int>(u), v0 = static_cast<int>(v);
        const double s = static_cast<double>(x) * w / target.width, t = static_cast<double>(y) * h / target.height;
        const int s0 = static_cast<int>(s + 1e-6), t0 = static_cast<int>(t + 1e-6);
        for (int c = 0; c < 3; ++c) {
          const double above = std::lerp(pixel(image, u0, v0, c), pixel(image, u0 + 1, v0, c), u - u0);
          const double below = std::lerp(pixel(image, u0, v0 + 1, c), pixel(image, u0 + 1, v0 + 1, c), u - u0);
          CHECK(std::lerp(above, below, v - v0) - linear[static_cast<size_t>(3 * (y * target.width + x) + c)] ==
                doctest::Approx(0.5).epsilon(0.51));
          double along[4];
          for (int i = 0; i < 4; ++i) {
            double values[4];
            for (int j = 0; j < 4; ++j) values[j] = pixel(image, s0 - 1 + j, t0 - 1 + i, c);
            along[i] = lagrange(values, s - s0);
          }
          const double expected = std::clamp(lagrange(along, t - t0), 0.0, 255.0);
          CHECK(std::fabs(expected - cubic[static_cast<size_t>(3 * (y * target.width + x) + c)]) < 0.51);
        }
      }
    }
  }
}

TEST_CASE("a stretch to the same size copies") {
  const auto pixels = synthetic_pixels(19, 5);
  for (const Stretch::Kind kind : {Stretch::Kind::kLinear, Stretch::Kind::kCubic})
    CHECK(stretched(view_of(pixels, 19, 5), {19, 5}, kind) == pixels);
}
