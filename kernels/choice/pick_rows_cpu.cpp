#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/backends.h"
#include "kernels/choice/pick_rows.h"

namespace ocellus {
namespace {

using picking::kTaken;
using picking::score_of;

constexpr int64_t kRowsOfTask = 64;

/// The first row of the largest score that is not taken.
int64_t best_row(const float* scores, int64_t rows) {
  int64_t best = -1;
  for (int64_t t = 0; t < rows; ++t)
    if (scores[t] != kTaken && (best < 0 || score_of(scores[t]) > score_of(scores[best]))) best = t;
  return best;
}

void pick_angles(const PickRowsArgs& a, Queue& queue) {
  const int64_t rows = a.products.rows;
  float *const least = a.scratch, *const lengths = least + rows;
  for (int64_t t = 0; t < rows; ++t) lengths[t] = std::sqrt(a.products.row(t)[t]);
  const auto distance = [&](int64_t t, int64_t u) {
    return picking::angle_distance(a.products.row(t)[u], lengths[t], lengths[u]);
  };
  queue.parallel(rows, kRowsOfTask, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      least[t] = std::numeric_limits<float>::infinity();
      for (int64_t u = 0; u < rows; ++u)
        if (u != t) least[t] = std::min(least[t], distance(t, u));
    }
  });
  for (int64_t k = 0; k < a.count; ++k) {
    const int64_t row = best_row(least, rows);
    a.picks[k] = static_cast<int32_t>(row);
    for (int64_t t = 0; t < rows; ++t)
      if (least[t] != kTaken) least[t] = k == 0 ? distance(t, row) : std::min(least[t], distance(t, row));
    least[row] = kTaken;
  }
}

/// The lines of a Cholesky factor of L over the chosen rows, one per choice, and of every row the part of its own entry
/// that they leave: the factor by which it would multiply the determinant.
void pick_determinant(const PickRowsArgs& a, Queue& queue) {
  const int64_t rows = a.products.rows;
  float* const volume = a.scratch;
  float* const scale = volume + rows;
  float* const lines = scale + rows;
  const auto relevance = [&](int64_t t) { return a.relevance != nullptr ? a.relevance[t] : 1.0f; };
  for (int64_t t = 0; t < rows; ++t) {
    const float square = a.products.row(t)[t];
    scale[t] = square > 0 ? relevance(t) / std::sqrt(square) : 0.0f;
    volume[t] = square > 0 ? relevance(t) * relevance(t) : 0.0f;
  }
  bool spans = true;
  for (int64_t k = 0; k < a.count; ++k) {
    int64_t row = best_row(volume, rows);
    if (spans && !(volume[row] > picking::kLeastVolume)) {
      spans = false;
      for (int64_t t = 0; t < rows; ++t)
        if (volume[t] != kTaken) volume[t] = relevance(t);
      row = best_row(volume, rows);
    }
    a.picks[k] = static_cast<int32_t>(row);
    if (spans) {
      const float root = std::sqrt(volume[row]);
      float* const line = lines + k * rows;
      queue.parallel(rows, 4 * kRowsOfTask, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; ++t) line[t] = scale[row] * a.products.row(row)[t] * scale[t];
        for (int64_t i = 0; i < k; ++i)
          for (int64_t t = begin; t < end; ++t) line[t] -= lines[i * rows + row] * lines[i * rows + t];
        for (int64_t t = begin; t < end; ++t) {
          line[t] /= root;
          if (volume[t] != kTaken) volume[t] -= line[t] * line[t];
        }
      });
    }
    volume[row] = kTaken;
  }
}

/// Turns products into costs: see PickRowsArgs.
void find_costs(const PickRowsArgs& a, float* sums, float* squares, Queue& queue) {
  const int64_t rows = a.products.rows;
  for (int64_t t = 0; t < rows; ++t) squares[t] = a.products.row(t)[t];
  queue.parallel(rows, kRowsOfTask, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      float* const costs = a.products.row(t);
      sums[t] = 0;
      for (int64_t u = 0; u < rows; ++u) {
        costs[u] = u == t ? 0 : picking::squared_distance(costs[u], squares[t], squares[u]);
        sums[t] += costs[u];
      }
    }
  });
  const float mean = std::accumulate(sums, sums + rows, 0.0f) / (static_cast<float>(rows) * static_cast<float>(rows));
  const float scale = mean > 0 ? 1 / mean : 0.0f;
  queue.parallel(rows, kRowsOfTask, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t)
      for (int64_t u = 0; u < rows; ++u)
        a.products.row(t)[u] =
            a.products.row(t)[u] * scale + a.place_weight * picking::place_distance(a.places[t], a.places[u]);
  });
}

/// Cost of row t that a choice of `row` would save.
float saving(const PickRowsArgs& a, float least, int64_t row, int64_t t) {
  return std::max(0.0f, least - a.products.row(t)[row]);
}

/// Each row's gain is what its choice would save in all. It is computed once the first row is chosen, then changed by
/// what the rows whose nearest choice has changed contribute: few.
void pick_cover(const PickRowsArgs& a, Queue& queue) {
  const int64_t rows = a.products.rows;
  float* const least = a.scratch;
  float* const gains = least + rows;
  auto* const nearest = reinterpret_cast<int32_t*>(gains + rows);
  find_costs(a, gains, least, queue);
  for (int64_t t = 0; t < rows; ++t) gains[t] = -std::accumulate(a.products.row(t), a.products.row(t) + rows, 0.0f);
  std::fill_n(least, rows, std::numeric_limits<float>::infinity());
  std::fill_n(nearest, rows, 0);
  for (int64_t k = 0; k < a.count; ++k) {
    const int64_t row = best_row(gains, rows);
    a.picks[k] = static_cast<int32_t>(row);
    gains[row] = kTaken;
    for (int64_t t = 0; t < rows; ++t) {
      const float before = least[t], cost = a.products.row(t)[row];
      if (!(cost < before) && t != row) continue;
      least[t] = cost;
      nearest[t] = static_cast<int32_t>(k);
      for (int64_t c = 0; k > 0 && c < rows; ++c)
        if (gains[c] != kTaken) gains[c] -= saving(a, before, c, t) - saving(a, cost, c, t);
    }
    if (k > 0) continue;
    queue.parallel(rows, kRowsOfTask, [&](int64_t begin, int64_t end, int) {
      for (int64_t c = begin; c < end; ++c) {
        if (gains[c] == kTaken) continue;
        gains[c] = 0;
        for (int64_t t = 0; t < rows; ++t) gains[c] += saving(a, least[t], c, t);
      }
    });
  }
  if (a.stands_for == nullptr) return;
  std::fill_n(a.stands_for, a.count, 0);
  for (int64_t t = 0; t < rows; ++t) ++a.stands_for[nearest[t]];
}

}  // namespace

void cpu::pick_rows(const PickRowsArgs& args, Queue& queue) {
  if (args.count == 0 || !queue.ok()) return;
  switch (args.by) {
    case PickBy::kAngle: return pick_angles(args, queue);
    case PickBy::kDeterminant: return pick_determinant(args, queue);
    case PickBy::kCover: return pick_cover(args, queue);
  }
}

}  // namespace ocellus
