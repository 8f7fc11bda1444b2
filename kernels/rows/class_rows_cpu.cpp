#include <algorithm>

#include "kernels/backends.h"
#include "kernels/base/row_pieces.h"
#include "kernels/rows/class_rows.h"

namespace ocellus {
namespace {

constexpr int64_t kPartValues = 256;  // a multiple of every format's block

void place_row(const PlaceClassRowsArgs& args, int64_t place, float* x) {
  const WeightView& positions = args.positions;
  const float* base = place == 0 ? args.class_row : x;
  float part[kPartValues];
  for (int64_t first = 0; first < positions.cols; first += kPartValues) {
    const int64_t count = std::min(kPartValues, positions.cols - first);
    decode_row(positions.format, positions.row(place) + row_bytes(positions.format, first), count, part);
    for (int64_t i = 0; i < count; ++i) x[first + i] = base[first + i] + part[i];
  }
}

}  // namespace

void cpu::place_class_rows(const PlaceClassRowsArgs& args, Queue& queue) {
  const int64_t grain = rows_per_piece(args.values.cols, 16384);
  queue.parallel(args.values.rows, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) place_row(args, (args.first + t) % args.positions.rows, args.values.row(t));
  });
}

}  // namespace ocellus
