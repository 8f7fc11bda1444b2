#include "kernels/backends.h"
#include "kernels/base/launch.cuh"
#include "kernels/base/row_access.cuh"
#include "kernels/rows/short_conv.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kUnits = RowPieces::kUnitsPerThread;
constexpr int kWideHalves = 8;

/// The rows of a ShortConv, as kernels read them.
struct ConvRows {
  const __half* gate;
  const __half* x;
  const __half* output_gate;
  __half* output;
  int64_t gate_stride, x_stride, output_gate_stride, output_stride;
  const float* weights;
  int64_t cols;

  explicit ConvRows(const ShortConv& c)
      : gate(half_data(c.gate)),
        x(half_data(c.x)),
        output_gate(half_data(c.output_gate)),
        output(half_data(c.output)),
        gate_stride(c.gate.stride),
        x_stride(c.x.stride),
        output_gate_stride(c.output_gate.stride),
        output_stride(c.output.stride),
        weights(c.weights),
        cols(c.output.cols) {}
};

template <int kCount>
__device__ void load_floats(const float* from, float (&to)[kCount]) {
  if constexpr (kCount % 4 == 0) {
    load_values(from, to);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = from[i];
  }
}

template <int kWide>
__device__ void multiply_gate(const ConvRows& c, int64_t row, int64_t col, float (&y)[kWide]) {
  float gate[kWide];
  load_values(c.gate + row * c.gate_stride + col, gate);
  load_values(c.x + row * c.x_stride + col, y);
#pragma unroll
  for (int i = 0; i < kWide; ++i) y[i] *= gate[i];
}

/// Row y from a list or a ring; null: zeros.
template <int kWide>
__device__ void load_stored(const float* row, int64_t col, float (&y)[kWide]) {
#pragma unroll
  for (int i = 0; i < kWide; ++i) y[i] = 0;
  if (row != nullptr) load_values(row + col, y);
}

template <int kTaps, int kWide>
__device__ void write_output(const ConvRows& c, int64_t row, int64_t col, const float (&weights)[kTaps * kWide],
                             const float (&y)[kTaps][kWide]) {
  float out[kWide];
  load_values(c.output_gate + row * c.output_gate_stride + col, out);
#pragma unroll
  for (int i = 0; i < kWide; ++i) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kTaps; ++k) sum += weights[i * kTaps + k] * y[k][i];
    out[i] *= sum;
  }
  store_values(c.output + row * c.output_stride + col, out);
}

/// Stores what the next row sees.
template <int kTaps, int kWide>
__device__ void store_state(float* out, int64_t stride, int64_t col, const float (&y)[kTaps][kWide]) {
#pragma unroll
  for (int k = 1; k < kTaps; ++k) store_values(out + (k - 1) * stride + col, y[k]);
}

/// The last row's thread has what the next call sees.
template <int kTaps, int kWide>
__global__ void __launch_bounds__(RowPieces::kMaxThreads)
    convolve_rows(ConvRows c, ShortConvArgs args, unsigned pieces) {
  const RowPlace place(pieces);
  wait_for_inputs();
  let_next_start();
  float* const own = args.places[place.row];
  float* const after = args.states.after == nullptr ? nullptr : args.states.after[place.row];
  const int64_t before = rows_before(args.states, place.row, kTaps - 1);
  const float* const state = args.states.at(place.row - before);
#pragma unroll
  for (int unit = 0; unit < kUnits; ++unit) {
    const int64_t col = (place.first + unit * place.step) * kWide;
    if (col >= c.cols) continue;
    float weights[kTaps * kWide], y[kTaps][kWide];
    load_floats(c.weights + col * kTaps, weights);
#pragma unroll
    for (int k = 0; k < kTaps; ++k) {
      const int64_t back = kTaps - 1 - k, row = place.row - back;
      if (back <= before) {
        multiply_gate(c, row, col, y[k]);
      } else if (state != nullptr) {
        load_stored(state + (kTaps - 1 - (back - before)) * c.cols, col, y[k]);
      } else {
        const float* const stored = args.before[kTaps - 1 + row];
        load_stored(stored == nullptr ? nullptr : stored + args.before_offset, col, y[k]);
      }
    }
    write_output<kTaps, kWide>(c, place.row, col, weights, y);
    if (own != nullptr) store_values(own + args.places_offset + col, y[kTaps - 1]);
    if (after != nullptr) store_state<kTaps>(after + args.states.offset, c.cols, col, y);
    if (place.row == args.conv.output.rows - 1 && args.end.rows > 0)
      store_state<kTaps>(args.end.data, args.end.stride, col, y);
  }
}

template <int kTaps, int kWide>
__global__ void __launch_bounds__(RowPieces::kMaxThreads)
    convolve_step(ConvRows c, ShortConvStepArgs args, unsigned pieces) {
  const RowPlace place(pieces);
  wait_for_inputs();
  let_next_start();
  const int64_t row = place.row;
  const StepTiles& tiles = args.tiles;
  if (tiles.steps[row].active == 0) return;
  int before = 0;
  while (before < kTaps - 1 && follows_row(tiles, row - before)) ++before;
  const int number = tiles.steps[row].position - tiles.ring_starts[row];
#pragma unroll
  for (int unit = 0; unit < kUnits; ++unit) {
    const int64_t col = (place.first + unit * place.step) * kWide;
    if (col >= c.cols) continue;
    float weights[kTaps * kWide], y[kTaps][kWide];
    load_floats(c.weights + col * kTaps, weights);
#pragma unroll
    for (int k = 0; k < kTaps; ++k) {
      const int back = kTaps - 1 - k;
      if (back <= before)
        multiply_gate(c, row - back, col, y[k]);
      else
        load_stored(number < back ? nullptr : ring_row(args, row, number - back), col, y[k]);
    }
    write_output<kTaps, kWide>(c, row, col, weights, y);
    store_values(ring_row(args, row, number) + col, y[kTaps - 1]);
  }
}

bool is_wide(const ShortConv& c) {
  return c.output.cols % kWideHalves == 0 && takes_wide(c.gate, kWideHalves) && takes_wide(c.x, kWideHalves) &&
         takes_wide(c.output_gate, kWideHalves) && takes_wide(c.output, kWideHalves) &&
         takes_wide(c.weights, kWideHalves);
}

/// Calls run<taps, wide>() with what fits.
template <class Run>
void choose(const ShortConv& c, const char* op, Queue& queue, const Run& run) {
  if (!is_half(c.output, op, queue)) return;
  const bool wide = is_wide(c);
  if (c.taps == 3)
    wide ? run.template operator()<3, kWideHalves>() : run.template operator()<3, 1>();
  else
    wide ? run.template operator()<4, kWideHalves>() : run.template operator()<4, 1>();
}

}  // namespace

void short_conv(const ShortConvArgs& args, Queue& queue) {
  const ActivationView& out = args.conv.output;
  choose(args.conv, "short_conv", queue, [&]<int kTaps, int kWide>() {
    const RowPieces pieces(out.rows, out.cols / kWide);
    launch<convolve_rows<kTaps, kWide>>(queue, "short_conv", {.grid = pieces.blocks, .threads = pieces.threads},
                                        ConvRows(args.conv), args, pieces.per_row);
  });
}

void short_conv_step(const ShortConvStepArgs& args, Queue& queue) {
  const ActivationView& out = args.conv.output;
  choose(args.conv, "short_conv_step", queue, [&]<int kTaps, int kWide>() {
    const RowPieces pieces(out.rows, out.cols / kWide);
    launch<convolve_step<kTaps, kWide>>(queue, "short_conv_step", {.grid = pieces.blocks, .threads = pieces.threads},
                                        ConvRows(args.conv), args, pieces.per_row);
  });
}

}  // namespace cuda
}  // namespace ocellus
