#include <algorithm>

#include "kernels/backends.h"
#include "kernels/base/row_pieces.h"
#include "kernels/rows/short_conv.h"

namespace ocellus {
namespace {

constexpr int64_t kValuesPerPiece = 16384;
constexpr int64_t kBlock = 256;  // columns whose sums stay near

/// Columns [first, first + count) of row y of row t.
void multiply_gate(const ShortConv& c, int64_t t, int64_t first, int64_t count, float* out) {
  const float* const gate = c.gate.row(t) + first;
  const float* const x = c.x.row(t) + first;
  for (int64_t i = 0; i < count; ++i) out[i] = gate[i] * x[i];
}

/// `stored(back)`: row y that many rows before row t if it is not among the `before` rows before t in this call; null:
/// zeros.
template <class Stored>
void convolve_row(const ShortConv& c, int64_t t, int64_t before, const Stored& stored) {
  float sums[kBlock], product[kBlock];
  for (int64_t first = 0; first < c.output.cols; first += kBlock) {
    const int64_t count = std::min(kBlock, c.output.cols - first);
    std::fill_n(sums, count, 0.0f);
    for (int64_t back = c.taps - 1; back >= 0; --back) {
      const float* y = product;
      if (back <= before)
        multiply_gate(c, t - back, first, count, product);
      else if (y = stored(back); y != nullptr)
        y += first;
      const float* const weights = c.weights + first * c.taps + c.taps - 1 - back;
      for (int64_t i = 0; y != nullptr && i < count; ++i) sums[i] += weights[i * c.taps] * y[i];
    }
    const float* const gate = c.output_gate.row(t) + first;
    float* const out = c.output.row(t) + first;
    for (int64_t i = 0; i < count; ++i) out[i] = gate[i] * sums[i];
  }
}

}  // namespace

void cpu::short_conv(const ShortConvArgs& args, Queue& queue) {
  const ShortConv& c = args.conv;
  const int64_t rows = c.output.rows, cols = c.output.cols, kept = c.taps - 1;
  const auto before = [&](int64_t row) {  // rows -1, -2, ...
    const float* const list = args.before[kept + row];
    return list == nullptr ? nullptr : list + args.before_offset;
  };
  for (int64_t i = 0; i < args.end.rows; ++i) {
    const int64_t row = rows - kept + i;
    float* const out = args.end.row(i);
    if (row >= 0)
      multiply_gate(c, row, 0, cols, out);
    else if (before(row) != nullptr)
      std::copy_n(before(row), cols, out);
    else
      std::fill_n(out, cols, 0.0f);
  }
  queue.parallel(rows, rows_per_piece(cols, kValuesPerPiece), [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      convolve_row(c, t, t, [&](int64_t back) { return before(t - back); });
      if (args.places[t] != nullptr) multiply_gate(c, t, 0, cols, args.places[t] + args.places_offset);
    }
  });
}

void cpu::short_conv_step(const ShortConvStepArgs& args, Queue& queue) {
  const ShortConv& c = args.conv;
  const StepTiles& tiles = args.tiles;
  queue.parallel(c.output.rows, rows_per_piece(c.output.cols, kValuesPerPiece), [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      if (tiles.steps[t].active == 0) continue;
      int64_t before = 0;
      while (before < c.taps - 1 && follows_row(tiles, t - before)) ++before;
      const int32_t number = tiles.steps[t].position - tiles.ring_starts[t];
      convolve_row(c, t, before, [&](int64_t back) -> const float* {
        return number < back ? nullptr : ring_row(args, t, number - static_cast<int32_t>(back));
      });
      multiply_gate(c, t, 0, c.output.cols, ring_row(args, t, number));
    }
  });
}

}  // namespace ocellus
