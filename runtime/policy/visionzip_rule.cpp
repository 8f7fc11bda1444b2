// Published are rows before the projector, chosen view by view; a merged row is the sum of its target and the mean of
// the others. Here rows of the language model are chosen from a whole picture, and a merged row is the mean of all,
// target included, which is as long as other rows. The attention and the key of a row that was joined from several
// patches are the means of theirs.
#include "runtime/policy/visionzip_rule.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/rows/convert_rows.h"
#include "kernels/rows/merge_similar_rows.h"

namespace ocellus {
namespace {

/// Copies the attention to the host: no number is less than any.
Status read_attention(const RowsToChoose& a, Queue& queue) {
  const int64_t rows = a.attention.rows;
  convert_rows({.from = a.attention, .to = DeviceView<float>(a.values.device.data, rows, 1)}, queue);
  float* const values = a.values.host.data;
  queue.copy(values, a.values.device.data, rows * static_cast<int64_t>(sizeof *values));
  OCELLUS_TRY(queue.finish());
  std::replace_if(
      values, values + rows, [](float x) { return std::isnan(x); }, -1.0f);
  return {};
}

/// Picks the `count` candidates with the most attention, of equal ones the first, and marks them.
void pick_dominant(const RowsToChoose& a, int64_t count) {
  const float* const values = a.values.host.row(0);
  float* const sorted = a.values.host.row(1);
  if (count == 0) return;
  for_each_candidate(a, [&](int32_t row, int64_t number) { sorted[number] = values[row]; });
  std::nth_element(sorted, sorted + count - 1, sorted + a.candidates, std::greater<>());
  const float least = sorted[count - 1];
  int64_t equal = count - std::count_if(sorted, sorted + count, [&](float x) { return x > least; }), taken = 0;
  for_each_candidate(a, [&](int32_t row, int64_t) {
    if (values[row] < least || (values[row] == least && equal-- <= 0)) return;
    a.host_picks[taken++] = row;
    a.marks.host.data[row] = kJoinsNone;
  });
}

/// Picks every n-th of the candidates that are left, after the first `taken` picks, and marks them.
void pick_targets(const RowsToChoose& a, int64_t taken) {
  int32_t* const marks = a.marks.host.data;
  const int64_t wanted = a.keep - taken, step = wanted > 0 ? (a.candidates - taken) / wanted : 1;
  int64_t left = 0;
  for_each_candidate(a, [&](int32_t row, int64_t) {
    if (marks[row] != kJoinsNearest || left++ % step != 0 || taken == a.keep) return;
    a.host_picks[taken++] = row;
    marks[row] = kJoinsNone;
  });
}

}  // namespace

void choose_visionzip(const RowsToChoose& a, const MethodValues& options, Queue& queue) {
  if (!read_attention(a, queue).ok()) return;
  const auto share = static_cast<double>(options.number("contextual"));
  const int64_t contextual = std::llround(share * static_cast<double>(a.keep)), dominant = a.keep - contextual;
  const int64_t rows = a.host_ids.cols;
  std::fill_n(a.marks.host.data, rows, kJoinsNone);
  for_each_candidate(a, [&](int32_t row, int64_t) { a.marks.host.data[row] = kJoinsNearest; });
  pick_dominant(a, dominant);
  pick_targets(a, dominant);
  pass_on(a, queue);
  queue.upload(a.marks, rows);
  merge_similar_rows({.rows = a.inputs,
                      .keys = a.keys,
                      .targets = a.picks + dominant,
                      .count = contextual,
                      .joined = a.marks.device.data},
                     queue);
}

}  // namespace ocellus
