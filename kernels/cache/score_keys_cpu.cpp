#include <algorithm>
#include <cmath>

#include "kernels/backends.h"
#include "kernels/base/row_pieces.h"
#include "kernels/cache/score_keys.h"
#include "quant/weight_format.h"

namespace ocellus {
namespace {

constexpr int64_t kParts = ScoreKeysArgs::kParts;

float length_of(const Half* key, int64_t dim) {
  float squares = 0;
  for (int64_t e = 0; e < dim; ++e) squares += half_to_float(key[e]) * half_to_float(key[e]);
  return std::sqrt(squares);
}

/// Sums the directions of the keys of one head in one part of the rows.
void sum_part(const ScoreKeysArgs& args, int64_t index) {
  const int64_t head = index / kParts, part = index % kParts, dim = args.rows.head_dim;
  float* const sum = args.anchors.row(index);
  std::fill_n(sum, dim, 0.0f);
  for (int64_t row = args.part_begin(part); row < args.part_begin(part + 1); ++row) {
    const Half* const key = args.rows.keys + args.rows.at(row, head);
    const float length = length_of(key, dim);
    if (length == 0) continue;
    for (int64_t e = 0; e < dim; ++e) sum[e] += half_to_float(key[e]) / length;
  }
}

/// Adds the parts of a head to its first one, and divides by the length.
void join_parts(const ScoreKeysArgs& args, int64_t head) {
  const int64_t dim = args.rows.head_dim;
  float* const anchor = args.anchors.row(head * kParts);
  for (int64_t part = 1; part < kParts; ++part)
    for (int64_t e = 0; e < dim; ++e) anchor[e] += args.anchors.row(head * kParts + part)[e];
  float squares = 0;
  for (int64_t e = 0; e < dim; ++e) squares += anchor[e] * anchor[e];
  const float length = std::sqrt(squares);
  for (int64_t e = 0; length != 0 && e < dim; ++e) anchor[e] /= length;
}

void score_row(const ScoreKeysArgs& args, int64_t head, int64_t row) {
  const float* const anchor = args.anchors.row(head * kParts);
  const Half* const key = args.rows.keys + args.rows.at(row, head);
  float product = 0;
  for (int64_t e = 0; e < args.rows.head_dim; ++e) product += half_to_float(key[e]) * anchor[e];
  const float length = length_of(key, args.rows.head_dim);
  args.scores.row(head)[row] = length == 0 ? 1.0f : 1 - product / length;
}

}  // namespace

void cpu::score_keys(const ScoreKeysArgs& args, Queue& queue) {
  const int64_t heads = args.scores.rows, dim = args.rows.head_dim;
  queue.parallel(heads * kParts, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t index = begin; index < end; ++index) sum_part(args, index);
  });
  for (int64_t head = 0; head < heads; ++head) join_parts(args, head);
  queue.parallel(args.row_count, rows_per_piece(heads * dim, 16384), [&](int64_t begin, int64_t end, int) {
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t row = begin; row < end; ++row) score_row(args, head, row);
  });
}

}  // namespace ocellus
