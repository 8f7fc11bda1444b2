#include "kernels/backends.h"
#include "kernels/base/launch.cuh"
#include "kernels/base/row_access.cuh"
#include "kernels/linear/decode_weights.cuh"
#include "kernels/rows/class_rows.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWideValues = 8;

struct Placing {
  float* values;
  int64_t stride;
  int eights;  // groups of eight values in a row
  const float* class_row;
  const uint8_t* positions;
  int64_t position_bytes;  // bytes per row
  int64_t view_rows;
  int64_t first;
};

/// Eight values per thread; blockIdx.x is the row.
template <class Decoder, int kWide>
__global__ void place_rows(const Placing p) {
  constexpr int kParts = Decoder::kElements / 8;
  wait_for_inputs();
  let_next_start();
  const int eight = static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  if (eight >= p.eights) return;
  const int64_t place = (p.first + blockIdx.x) % p.view_rows;
  float position[8];
  const uint8_t* block = p.positions + place * p.position_bytes + int64_t{eight / kParts} * Decoder::kBytes;
  Decoder::eight(block, eight % kParts, position);
  float* out = p.values + blockIdx.x * p.stride + int64_t{8} * eight;
  const float* base = place == 0 ? p.class_row + int64_t{8} * eight : out;
#pragma unroll
  for (int i = 0; i < 8; i += kWide) {
    float part[kWide];
    load_values<kWide>(base + i, part);
#pragma unroll
    for (int k = 0; k < kWide; ++k) part[k] += position[i + k];
    store_values<kWide>(out + i, part);
  }
}

template <class Decoder, int kWide>
void place(const Placing& placing, int64_t rows, Queue& queue) {
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(divide_up(placing.eights, kThreads)));
  launch<place_rows<Decoder, kWide>>(queue, "place_class_rows", {.grid = grid, .threads = kThreads}, placing);
}

}  // namespace

void place_class_rows(const PlaceClassRowsArgs& args, Queue& queue) {
  const Placing placing{.values = args.values.data,
                        .stride = args.values.stride,
                        .eights = static_cast<int>(args.values.cols / 8),
                        .class_row = args.class_row,
                        .positions = args.positions.data,
                        .position_bytes = args.positions.row_bytes(),
                        .view_rows = args.positions.rows,
                        .first = args.first};
  const bool wide = takes_wide(args.values, kWideValues) && takes_wide(args.class_row, kWideValues);
  with_decoder(args.positions.format, [&](auto decoder) {
    using Decoder = decltype(decoder);
    if (wide)
      place<Decoder, kWideValues>(placing, args.values.rows, queue);
    else
      place<Decoder, 1>(placing, args.values.rows, queue);
  });
}

}  // namespace cuda
}  // namespace ocellus
