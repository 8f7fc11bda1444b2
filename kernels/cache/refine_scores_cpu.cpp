#include <cmath>
#include <limits>

#include "kernels/backends.h"
#include "kernels/base/row_pieces.h"
#include "kernels/cache/refine_scores.h"
#include "quant/weight_format.h"

namespace ocellus {
namespace {

float value_norm(const KvLayerRows& rows, int64_t row, int64_t head) {
  const Half* values = rows.values + rows.at(row, head);
  float squares = 0;
  for (int32_t e = 0; e < rows.head_dim; ++e) {
    const float value = half_to_float(values[e]);
    squares += value * value;
  }
  return std::sqrt(squares);
}

void refine_row(const RefineScoresArgs& args, int64_t row) {
  const int64_t heads = args.scores.rows;
  float sum = 0;
  for (int64_t g = 0; g < heads; ++g) {
    float& score = args.scores.row(g)[row];
    if (args.clear) score = 0;
    if (args.random) score = random_score(args.seed, g, row);
    if (args.by_readers) score /= reader_count(args, row);
    if (args.by_values) score *= value_norm(args.rows, row, g);
    if (args.text_first != nullptr && args.text_first[row] == 0) score += static_cast<float>(args.row_count);
    sum += score;
  }
  if (!args.mean && row >= args.first_rows) return;
  const float all = row < args.first_rows ? std::numeric_limits<float>::infinity() : sum / static_cast<float>(heads);
  for (int64_t g = 0; g < heads; ++g) args.scores.row(g)[row] = all;
}

}  // namespace

void cpu::refine_scores(const RefineScoresArgs& args, Queue& queue) {
  const int64_t width = args.scores.rows * (args.by_values ? args.rows.head_dim : 1);
  queue.parallel(args.row_count, rows_per_piece(width, 32768), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) refine_row(args, row);
  });
}

}  // namespace ocellus
