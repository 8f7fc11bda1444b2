#include "apps/camera/place_painter.h"

#include <stb_easy_font.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

namespace ocellus::app {
namespace {

using Colour = std::array<uint8_t, 3>;

constexpr Colour kBlack = {0, 0, 0}, kWhite = {255, 255, 255};
constexpr Colour kColours[] = {{230, 57, 53},  {67, 160, 71}, {30, 136, 229}, {253, 216, 53},
                               {216, 27, 166}, {0, 188, 212}, {251, 140, 0},  {126, 87, 194}};
constexpr size_t kMaxLabelLength = 48;
constexpr int32_t kFontHeight = 9;      // height of a line, with the space around it, before it is enlarged
constexpr size_t kQuadBytes = 4 * 16;   // four corners of x, y, z and a colour
constexpr size_t kQuadsPerLetter = 16;  // more than any has

struct Rect {
  int32_t left, top, right, bottom;
};

// Lengths in pixels, which grow with the picture.
struct Pen {
  explicit Pen(const Picture& picture)
      : width(std::max(2, std::max(picture.width, picture.height) / 500)),
        letter(std::max(1, std::max(picture.width, picture.height) / 500)) {}
  int32_t width;   // width of an outline
  int32_t letter;  // enlargement of the font
};

class Canvas {
 public:
  explicit Canvas(Picture* picture) : picture_(*picture) {}

  void fill(const Rect& rect, const Colour& colour) {
    const int32_t left = std::max(rect.left, 0), right = std::min(rect.right, picture_.width);
    for (int32_t y = std::max(rect.top, 0); y < std::min(rect.bottom, picture_.height); ++y) {
      for (int32_t x = left; x < right; ++x) set(x, y, colour);
    }
  }
  void outline(const Rect& r, int32_t width, const Colour& colour) {
    fill({r.left, r.top, r.right, r.top + width}, colour);
    fill({r.left, r.bottom - width, r.right, r.bottom}, colour);
    fill({r.left, r.top, r.left + width, r.bottom}, colour);
    fill({r.right - width, r.top, r.right, r.bottom}, colour);
  }
  void disc(int32_t x, int32_t y, int32_t radius, const Colour& colour) {
    for (int32_t down = -radius; down <= radius; ++down) {
      const auto half = static_cast<int32_t>(std::sqrt(radius * radius - down * down));
      fill({x - half, y + down, x + half + 1, y + down + 1}, colour);
    }
  }
  // A line of text on a ground of `colour`, whose left bottom corner is at x and y as far as the picture has room.
  void label(std::string text, int32_t x, int32_t y, int32_t enlargement, const Colour& colour) {
    const int32_t width = (stb_easy_font_width(text.data()) + 3) * enlargement,
                  height = (kFontHeight + 2) * enlargement;
    x = std::max(0, std::min(x, picture_.width - width));
    y = std::max(height, std::min(y, picture_.height));
    fill({x, y - height, x + width, y}, colour);
    std::vector<char> quads(kQuadBytes * kQuadsPerLetter * text.size());
    const int count = stb_easy_font_print(0, 0, text.data(), nullptr, quads.data(), static_cast<int>(quads.size()));
    const bool is_bright = 299 * colour[0] + 587 * colour[1] + 114 * colour[2] > 140 * 1000;
    const auto pixels = [enlargement](float value) { return static_cast<int32_t>(value) * enlargement; };
    for (int i = 0; i < count; ++i) {
      std::array<float, 16> quad;  // corners clockwise from the left top one
      std::memcpy(quad.data(), quads.data() + kQuadBytes * static_cast<size_t>(i), kQuadBytes);
      const int32_t left = x + 2 * enlargement, top = y - height + 2 * enlargement;
      fill({left + pixels(quad[0]), top + pixels(quad[1]), left + pixels(quad[8]), top + pixels(quad[9])},
           is_bright ? kBlack : kWhite);
    }
  }

 private:
  void set(int32_t x, int32_t y, const Colour& colour) {
    std::copy(colour.begin(), colour.end(), picture_.pixels.begin() + 3 * (int64_t{y} * picture_.width + x));
  }

  Picture& picture_;
};

std::string painted_label(const std::string& label, size_t index) {
  const bool is_ascii = std::all_of(label.begin(), label.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (is_ascii) return label.substr(0, kMaxLabelLength);
  std::string number = "#";  // "#" + std::to_string(...) makes GCC 12 warn of a copy that never is
  return number += std::to_string(index + 1);
}

}  // namespace

void paint_places(const std::vector<Place>& places, Picture* picture) {
  Canvas canvas(picture);
  const Pen pen(*picture);
  const auto pixel = [](double value) { return static_cast<int32_t>(value); };
  for (size_t i = 0; i < places.size(); ++i) {
    const Place& place = places[i];
    const Colour& colour = kColours[i % std::size(kColours)];
    const Rect rect = {pixel(place.left), pixel(place.top), pixel(place.right), pixel(place.bottom)};
    if (place.is_point) {
      canvas.disc(rect.left, rect.top, 4 * pen.width, kWhite);
      canvas.disc(rect.left, rect.top, 3 * pen.width, colour);
    } else {
      canvas.outline(rect, pen.width, colour);
    }
    const std::string label = painted_label(place.label, i);
    const int32_t beside = place.is_point ? 4 * pen.width : 0;
    if (!label.empty()) canvas.label(label, rect.left + beside, rect.top - beside, pen.letter, colour);
  }
}

}  // namespace ocellus::app
