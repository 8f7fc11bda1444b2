#pragma once

#include <cmath>
#include <cstdint>

#include "platform/everywhere.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

enum class PickBy : uint8_t {
  kAngle,        // rows at wide angles to each other (DivPrune, Alvar et al. 2025, algorithm 1)
  kDeterminant,  // relevant rows that span a large volume (CDPruner, Zhang et al. 2025, equations 8 to 11)
  kCover         // rows that all others are near to (facility location: Lin and Bilmes 2011). Ours
};

/// A row's place: its view, and its line and column there as shares of the view's sides.
struct ViewPlace {
  float line = 0, column = 0;
  int32_t view = 0;
};
template <>
struct TypeName<ViewPlace> {
  static constexpr const char* value = "place";
};

/// Chooses some of n rows by their products with each other, greedily:
///
///   kAngle        distance 1 - cos(i, j); first the row whose nearest other one is farthest, then always the row that
///                 is farthest from those chosen so far
///   kDeterminant  of L(i, j) = r_i cos(i, j) r_j: always the row that multiplies the determinant of the chosen rows
///                 most (Chen et al. 2018, algorithm 1). Once no row is left that adds volume: the most relevant one
///   kCover        cost c(i, j) = |i - j|^2 / mean of all |i - j|^2 + place_weight * squared distance of their places,
///                 which is 2 between views: always the row that lowers most the sum of every row's cost to the
///                 nearest chosen one
///
/// Shapes    products [n, n], symmetric, overwritten by kCover; relevance [n] >= 0, null: 1; places [n], kCover only;
///           scratch pick_rows_scratch(by, n, count) floats; picks [count], count <= n, in the order of choice;
///           stands_for [count] or null, kCover only: the number of rows nearest to each pick, itself included
/// Types     f32
/// Special   of equal rows the lower one; picks differ from each other whatever the products are
struct PickRowsArgs {
  DeviceView<float> products = {};
  PickBy by = PickBy::kAngle;
  const float* relevance = nullptr;
  const ViewPlace* places = nullptr;
  float place_weight = 0;
  float* scratch = nullptr;
  int32_t* picks = nullptr;
  int32_t* stands_for = nullptr;
  int64_t count = 0;
};
void pick_rows(const PickRowsArgs& args, Queue& queue);

constexpr int64_t pick_rows_scratch(PickBy by, int64_t rows, int64_t count) {
  return by == PickBy::kAngle ? 2 * rows : by == PickBy::kDeterminant ? (count + 2) * rows : 3 * rows;
}

namespace picking {

/// Scores of a row that was chosen, and of one whose score is NaN.
inline constexpr float kTaken = -3.4028235e38f, kNoNumber = -1e38f;
/// A determinant that is multiplied by less than this is rounding.
inline constexpr float kLeastVolume = 1e-6f;

OCELLUS_EVERYWHERE inline float score_of(float x) { return std::isnan(x) ? kNoNumber : x; }

/// From the product of two rows and their lengths.
OCELLUS_EVERYWHERE inline float angle_distance(float ab, float a, float b) {
  if (a == 0 || b == 0) return 1;
  const float distance = 1 - ab / (a * b);
  return distance < 0 ? 0 : distance;  // rounding
}
/// From the products of two rows with each other and with themselves.
OCELLUS_EVERYWHERE inline float squared_distance(float ab, float aa, float bb) {
  const float distance = aa + bb - 2 * ab;
  return distance < 0 ? 0 : distance;
}
OCELLUS_EVERYWHERE inline float place_distance(const ViewPlace& a, const ViewPlace& b) {
  if (a.view != b.view) return 2;
  return (a.line - b.line) * (a.line - b.line) + (a.column - b.column) * (a.column - b.column);
}

}  // namespace picking

}  // namespace ocellus
