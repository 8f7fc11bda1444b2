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

/// Row y that many rows before row t, of which those nearer than `before` are in the call; null: zeros.
const float* stored_row(const ShortConvArgs& args, int64_t t, int64_t before, int64_t back) {
  const int64_t kept = args.conv.taps - 1;
  if (const float* const state = args.states.at(t - before); state != nullptr)
    return state + (kept - (back - before)) * args.conv.output.cols;
  const float* const listed = args.before[kept + t - back];
  return listed == nullptr ? nullptr : listed + args.before_offset;
}

/// Stores the rows y that the row after row t sees.
void store_state(const ShortConvArgs& args, int64_t t, float* out, int64_t stride) {
  const ShortConv& c = args.conv;
  const int64_t before = rows_before(args.states, t, c.taps - 1);
  for (int64_t back = c.taps - 2; back >= 0; --back, out += stride) {
    const float* const stored = back <= before ? nullptr : stored_row(args, t, before, back);
    if (back <= before)
      multiply_gate(c, t - back, 0, c.output.cols, out);
    else if (stored != nullptr)
      std::copy_n(stored, c.output.cols, out);
    else
      std::fill_n(out, c.output.cols, 0.0f);
  }
}

}  // namespace

void cpu::short_conv(const ShortConvArgs& args, Queue& queue) {
  const ShortConv& c = args.conv;
  const ShortConvStates& states = args.states;
  const int64_t rows = c.output.rows, cols = c.output.cols;
  if (args.end.rows > 0) store_state(args, rows - 1, args.end.data, args.end.stride);
  queue.parallel(rows, rows_per_piece(cols, kValuesPerPiece), [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t before = rows_before(states, t, c.taps - 1);
      convolve_row(c, t, before, [&](int64_t back) { return stored_row(args, t, before, back); });
      if (args.places[t] != nullptr) multiply_gate(c, t, 0, cols, args.places[t] + args.places_offset);
      if (states.after != nullptr && states.after[t] != nullptr)
        store_state(args, t, states.after[t] + states.offset, cols);
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
