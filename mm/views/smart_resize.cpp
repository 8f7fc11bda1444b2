#include "mm/views/smart_resize.h"

#include <algorithm>
#include <cmath>

namespace ocellus {
namespace {

/// Sides in factors.
struct Sides {
  double width, height;
  double count() const { return width * height; }
};

/// Cuts the longer side if the other, of one factor or more, leaves it too much.
Sides bounded(const Sides& sides, int64_t most_rows) {
  const auto most = static_cast<double>(most_rows);
  if (sides.count() <= most) return sides;
  const bool is_wide = sides.width >= sides.height;
  const double shorter = is_wide ? sides.height : sides.width, longer = std::max(1.0, std::floor(most / shorter));
  return is_wide ? Sides{longer, shorter} : Sides{shorter, longer};
}

}  // namespace

// Products and quotients stand in the order of the published code, whose roundings they repeat. The default rounding
// mode takes halves to even numbers, as Python's round() does.
Size smart_size(const SmartResize& rules, Size picture) {
  const double width = picture.width, height = picture.height, factor = rules.factor;
  const auto most = static_cast<double>(rules.max_pixels),
             least = static_cast<double>(std::min(rules.min_pixels, rules.max_pixels));
  const double least_side = rules.rounds_up ? 1 : 0;
  Sides sides{std::max(least_side, std::nearbyint(width / factor)),
              std::max(least_side, std::nearbyint(height / factor))};
  if (sides.count() * factor * factor > most) {
    const double beta = std::sqrt(height * width / most);
    sides = {std::max(1.0, std::floor(width / beta / factor)), std::max(1.0, std::floor(height / beta / factor))};
  } else if (sides.count() * factor * factor < least) {
    const double beta = std::sqrt(least / (height * width));
    sides = {std::ceil(width * beta / factor), std::ceil(height * beta / factor)};
  }
  sides = bounded(sides, rules.most_rows());
  return {static_cast<int32_t>(sides.width) * rules.factor, static_cast<int32_t>(sides.height) * rules.factor};
}

}  // namespace ocellus
