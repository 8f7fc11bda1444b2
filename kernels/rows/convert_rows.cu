#include "kernels/backends.h"
#include "kernels/base/launch.cuh"
#include "kernels/base/row_access.cuh"
#include "kernels/rows/convert_rows.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kUnits = RowPieces::kUnitsPerThread;
constexpr int kWideValues = 8;

template <int kWide, class From, class To>
__global__ void convert(const __grid_constant__ ConvertRowsArgs args, unsigned pieces) {
  const RowPlace place(pieces);
  const int64_t cols = args.from.cols;
  float x[kUnits][kWide];
  wait_for_inputs();
  let_next_start();
  const From* from = static_cast<const From*>(args.from.data) + args.source(place.row) * args.from.stride;
  To* to = static_cast<To*>(args.to.data) + args.place(place.row) * args.to.stride;
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int64_t col = (place.first + i * place.step) * kWide;
    if (col < cols) load_values(from + col, x[i]);
  }
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int64_t col = (place.first + i * place.step) * kWide;
    if (col < cols) store_values(to + col, x[i]);
  }
}

template <int kWide, class From, class To>
void convert_wide(const ConvertRowsArgs& args, Queue& queue) {
  const RowPieces pieces(args.count(), args.from.cols / kWide);
  launch<convert<kWide, From, To>>(queue, "convert_rows", {.grid = pieces.blocks, .threads = pieces.threads}, args,
                                   pieces.per_row);
}

template <class From, class To>
void convert_from_to(const ConvertRowsArgs& args, Queue& queue) {
  if (args.from.cols % kWideValues == 0 && takes_wide(args.from, kWideValues) && takes_wide(args.to, kWideValues))
    convert_wide<kWideValues, From, To>(args, queue);
  else
    convert_wide<1, From, To>(args, queue);
}

template <class From>
void convert_from(const ConvertRowsArgs& args, Queue& queue) {
  if (args.to.type == ActivationType::kF16)
    convert_from_to<From, __half>(args, queue);
  else
    convert_from_to<From, float>(args, queue);
}

}  // namespace

void convert_rows(const ConvertRowsArgs& args, Queue& queue) {
  if (args.from.type == ActivationType::kF16)
    convert_from<__half>(args, queue);
  else
    convert_from<float>(args, queue);
}

}  // namespace cuda
}  // namespace ocellus
