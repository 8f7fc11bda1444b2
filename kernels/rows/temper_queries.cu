#include "kernels/backends.h"
#include "kernels/base/launch.cuh"
#include "kernels/base/row_access.cuh"
#include "kernels/rows/temper_queries.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kUnits = RowPieces::kUnitsPerThread;
constexpr int kWideHalves = 8;

template <int kWide>
__global__ void temper_rows(__half* values, int64_t stride, int64_t cols, const int32_t* positions,
                            int64_t position_stride, QueryTemperature temperature, unsigned pieces) {
  const RowPlace place(pieces);
  values += place.row * stride;
  wait_for_inputs();
  let_next_start();
  const int passed = positions[place.row * position_stride] / temperature.length;
  const float factor = temperature.scale * (1.0f + temperature.beta * log1pf(static_cast<float>(passed)));
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int64_t col = (place.first + i * place.step) * kWide;
    if (col >= cols) continue;
    float x[kWide];
    load_values(values + col, x);
#pragma unroll
    for (int k = 0; k < kWide; ++k) x[k] *= factor;
    store_values(values + col, x);
  }
}

template <int kWide>
void temper(const TemperQueriesArgs& args, Queue& queue) {
  const ActivationView& x = args.values;
  const RowPieces pieces(x.rows, x.cols / kWide);
  launch<temper_rows<kWide>>(queue, "temper_queries", {.grid = pieces.blocks, .threads = pieces.threads}, half_data(x),
                             x.stride, x.cols, args.positions, args.position_stride, args.temperature, pieces.per_row);
}

}  // namespace

void temper_queries(const TemperQueriesArgs& args, Queue& queue) {
  if (!is_half(args.values, "temper_queries", queue)) return;
  if (args.values.cols % kWideHalves == 0 && takes_wide(args.values, kWideHalves))
    temper<kWideHalves>(args, queue);
  else
    temper<1>(args, queue);
}

}  // namespace cuda
}  // namespace ocellus
