#include "apps/setup/board_likeness.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "apps/base/terminal.h"
#include "apps/base/usage_error.h"

namespace ocellus::app {
namespace {

constexpr std::string_view kBundledName = "Shapeboard 34M";
constexpr int64_t kMaxPixels = 12'600'000;
constexpr size_t kMaxPictures = 16;
constexpr int64_t kMaxPixelBytes = int64_t{16} << 20;

constexpr int kCells = 32;  // per side; cells are averaged, so that noise and the picture's size do not matter
constexpr int kFits = 8;
constexpr double kTrusted = 0.6;     // share of the cells used for a fit, those that fit best so far
constexpr double kTolerance = 0.03;  // fraction of full brightness, per channel
// Four shapes of maximum size and a sign leave .566; the minimum of 67 boards is .824.
constexpr double kLeastShare = 0.55;
constexpr double kMaxColor = 0.055;  // boards are drawn with up to 0.04
using Color = std::array<double, 3>;
constexpr std::array<Color, 5> kBackgrounds = {{{128 / 255.0, 128 / 255.0, 128 / 255.0},  // gray
                                                {228 / 255.0, 214 / 255.0, 180 / 255.0},  // cream
                                                {28 / 255.0, 36 / 255.0, 84 / 255.0},     // navy
                                                {22 / 255.0, 104 / 255.0, 104 / 255.0},   // teal
                                                {96 / 255.0, 26 / 255.0, 40 / 255.0}}};   // maroon

struct Cell {
  double x, y;  // -1 to 1
  Color color;  // 0 to 1
};
using Cells = std::array<Cell, kCells * kCells>;

// A background: its colour in the middle of the picture, and its gradients to the right and to the bottom.
struct Plane {
  Color color = {};
  double right = 0, down = 0;

  double error(const Cell& cell) const {
    double most = 0;
    for (size_t c = 0; c < 3; ++c)
      most = std::max(most, std::abs(cell.color[c] - color[c] - right * cell.x - down * cell.y));
    return most;
  }
};

Cells average_cells(const Picture& picture) {
  const auto edge = [](int i, int32_t side) { return static_cast<size_t>(int64_t{i} * side / kCells); };
  Cells cells;
  for (int row = 0; row < kCells; ++row)
    for (int column = 0; column < kCells; ++column) {
      const size_t top = edge(row, picture.height), bottom = std::max(edge(row + 1, picture.height), top + 1);
      const size_t left = edge(column, picture.width), right = std::max(edge(column + 1, picture.width), left + 1);
      std::array<int64_t, 3> sums = {};
      for (size_t y = top; y < bottom; ++y) {
        const uint8_t* pixel = picture.pixels.data() + 3 * (y * static_cast<size_t>(picture.width) + left);
        for (size_t x = left; x < right; ++x, pixel += 3)
          for (size_t c = 0; c < 3; ++c) sums[c] += pixel[c];
      }
      Cell& cell = cells[static_cast<size_t>(row * kCells + column)];
      cell = {(column + 0.5) * 2 / kCells - 1, (row + 0.5) * 2 / kCells - 1, {}};
      const double count = 255.0 * static_cast<double>((bottom - top) * (right - left));
      for (size_t c = 0; c < 3; ++c) cell.color[c] = static_cast<double>(sums[c]) / count;
    }
  return cells;
}

// Fits a plane by least squares to the first `count` cells.
Plane fit_plane(const Cells& cells, size_t count) {
  Color color = {};
  double x = 0, y = 0;
  const double share = 1.0 / static_cast<double>(count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t c = 0; c < 3; ++c) color[c] += cells[i].color[c] * share;
    x += cells[i].x * share;
    y += cells[i].y * share;
  }
  double xx = 0, xy = 0, yy = 0, xv = 0, yv = 0;
  for (size_t i = 0; i < count; ++i) {
    const double dx = cells[i].x - x, dy = cells[i].y - y;
    const Color& own = cells[i].color;
    const double dv = (own[0] - color[0] + own[1] - color[1] + own[2] - color[2]) / 3;
    xx += dx * dx, xy += dx * dy, yy += dy * dy, xv += dx * dv, yv += dy * dv;
  }
  const double determinant = xx * yy - xy * xy;  // positive: the cells are not all on one line
  Plane plane = {color, (xv * yy - yv * xy) / determinant, (yv * xx - xv * xy) / determinant};
  for (double& value : plane.color) value -= plane.right * x + plane.down * y;
  return plane;
}

// True if the engine gives a picture's pixels the answers that it gives the file: it refuses files by sizes that were
// asked for, knows them in a library as they are stored, and has a way of its own with depth.
bool may_stay_decoded(const ImageFile& image, const CommonOptions& options) {
  const PictureOptions& pictures = options.pictures;
  return !image.is_gray16 && !pictures.pixels && !pictures.side && !pictures.whole_pixels &&
         options.library.path.empty();
}

}  // namespace

bool looks_like_a_board(const Picture& picture) {
  Cells cells = average_cells(picture);
  size_t count = cells.size();
  Plane plane;
  for (int i = 0; i < kFits; ++i) {
    plane = fit_plane(cells, count);
    const auto fits_better = [&plane](const Cell& a, const Cell& b) { return plane.error(a) < plane.error(b); };
    count = static_cast<size_t>(kTrusted * static_cast<double>(cells.size()));
    std::nth_element(cells.begin(), cells.begin() + static_cast<ptrdiff_t>(count), cells.end(), fits_better);
  }
  const auto fitting =
      std::count_if(cells.begin(), cells.end(), [&plane](const Cell& cell) { return plane.error(cell) <= kTolerance; });
  if (static_cast<double>(fitting) < kLeastShare * static_cast<double>(cells.size())) return false;
  return std::any_of(kBackgrounds.begin(), kBackgrounds.end(), [&plane](const Color& known) {
    double most = 0;
    for (size_t c = 0; c < 3; ++c) most = std::max(most, std::abs(known[c] - plane.color[c]));
    return most <= kMaxColor;
  });
}

std::string describe_far_frame(const Model& model, const std::string& name, const Frame& frame, Picture* picture) {
  if (model.facts.name != kBundledName || int64_t{frame.width} * frame.height > kMaxPixels) return "";
  if (!decode_rgb(frame, picture) || looks_like_a_board(*picture)) return "";
  return "Note: " + name +
         " is unlike the boards of plain shapes that the bundled model was trained on: expect wrong answers. For "
         "photographs, name another model, as with -hf SmolVLM-500M (`ocellus models --published` lists more).";
}

void remark_on_far_pictures(const Model& model, const CommonOptions& options, const std::vector<ImageFile>& images) {
  if (options.quiet || model.facts.name != kBundledName) return;
  int64_t kept_bytes = 0;
  for (size_t i = 0; i < std::min(images.size(), kMaxPictures); ++i) {
    const std::shared_ptr<Frame> frame = read_image(images[i]);
    frame->depth = options.pictures.depth;
    Picture picture;
    const std::string remark = describe_far_frame(model, images[i].path, *frame, &picture);
    kept_bytes += 3 * images[i].pixels();
    if (picture.width > 0 && kept_bytes <= kMaxPixelBytes && may_stay_decoded(images[i], options)) {
      frame->kind = FrameKind::kPixels;
      frame->bytes.swap(picture.pixels);
    }
    if (!remark.empty()) return print_note(remark);
  }
}

}  // namespace ocellus::app
