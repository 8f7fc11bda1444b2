#include "apps/camera/scene_painter.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ocellus::app {
namespace {

// Signed distance of a point to a shape of radius 1 (negative: inside), by the formulas of the model's training
// pictures. `u` points to the right and `v` down.
float distance_to(SceneShape shape, float u, float v) {
  const float au = std::fabs(u), av = std::fabs(v);
  switch (shape) {
    case SceneShape::kCircle: return std::sqrt(u * u + v * v) - 1.0f;
    case SceneShape::kSquare: return std::max(au, av) - 0.86f;
    case SceneShape::kTriangle: return std::max(v - 0.62f, 0.866f * au - 0.5f * (v + 1.0f));
    case SceneShape::kStar: {
      const float rho = std::sqrt(u * u + v * v);
      if (rho < 0.35f) return rho - 0.42f;  // inside at every angle
      const float fifth = std::atan2(u, -v) * 0.795774715f;
      return rho - (0.42f + 1.24f * std::fabs(fifth - std::floor(fifth) - 0.5f));
    }
    case SceneShape::kCross: return std::min(std::max(au - 1.0f, av - 0.32f), std::max(av - 1.0f, au - 0.32f));
    case SceneShape::kRing: return std::fabs(std::sqrt(u * u + v * v) - 0.76f) - 0.22f;
    case SceneShape::kDiamond: return 0.72f * (au * 1.35f + av - 1.0f);
    case SceneShape::kHeart: {
      const float x = 1.18f * u, y = 0.12f - 1.18f * v, q = x * x + y * y - 1.0f;
      return 0.35f * std::clamp(q * q * q - x * x * y * y * y, -1.0f, 1.0f);
    }
  }
  return 1.0f;
}

struct Canvas {
  int32_t width, height;
  uint8_t* rgb;
};

void paint_object(const SceneObject& object, const Canvas& canvas) {
  const double scale_x = canvas.width / kBoardSide, scale_y = canvas.height / kBoardSide;
  // Maximum extent of any shape: the corners of a square and the points of a star.
  const double reach = 1.3 * object.radius + 2;
  const auto left = std::max(0, static_cast<int32_t>((object.x - reach) * scale_x));
  const auto right = std::min(canvas.width, static_cast<int32_t>((object.x + reach) * scale_x) + 1);
  const auto top = std::max(0, static_cast<int32_t>((object.y - reach) * scale_y));
  const auto bottom = std::min(canvas.height, static_cast<int32_t>((object.y + reach) * scale_y) + 1);
  const float cosine = static_cast<float>(std::cos(object.turn) / object.radius);
  const float sine = static_cast<float>(std::sin(object.turn) / object.radius);
  // Edges are one pixel soft.
  const float sharpness = static_cast<float>(object.radius * std::sqrt(scale_x * scale_y));
  const SceneColor color = scene_color(object.color);
  for (int32_t y = top; y < bottom; ++y) {
    const float dy = static_cast<float>((y + 0.5) / scale_y - object.y);
    uint8_t* pixel = canvas.rgb + (int64_t{y} * canvas.width + left) * 3;
    for (int32_t x = left; x < right; ++x, pixel += 3) {
      const float dx = static_cast<float>((x + 0.5) / scale_x - object.x);
      const float f = distance_to(object.shape, cosine * dx + sine * dy, cosine * dy - sine * dx);
      const float alpha = 0.5f - f * sharpness;
      if (alpha <= 0.0f) continue;
      const auto share = static_cast<int32_t>(std::min(alpha, 1.0f) * 256.0f);
      for (size_t c = 0; c < 3; ++c) {
        pixel[c] = static_cast<uint8_t>((pixel[c] * (256 - share) + color[c] * share) >> 8);
      }
    }
  }
}

}  // namespace

void paint_scene(const Board& board, int32_t width, int32_t height, std::vector<uint8_t>* rgb) {
  const size_t row_bytes = size_t{3} * static_cast<size_t>(width);
  rgb->resize(row_bytes * static_cast<size_t>(height));
  const SceneColor color = board.background_color();
  uint8_t* row = rgb->data();
  for (int32_t x = 0; x < width; ++x) std::memcpy(row + 3 * x, color.data(), 3);
  for (int32_t y = 1; y < height; ++y) std::memcpy(row + static_cast<size_t>(y) * row_bytes, row, row_bytes);
  for (const SceneObject& object : board.objects) paint_object(object, {width, height, row});
}

}  // namespace ocellus::app
