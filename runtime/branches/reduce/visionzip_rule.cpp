// Published are rows before the projector, chosen view by view; a merged row is the sum of its target and the mean of
// the others. Here rows of the language model are chosen from a whole picture, and a merged row is the mean of all,
// target included, which is as long as other rows. The attention and the key of a row that was joined from several
// patches are the means of theirs.
#include "runtime/branches/reduce/visionzip_rule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/rows/convert_rows.h"
#include "kernels/rows/merge_similar_rows.h"

namespace ocellus {
namespace {

/// Copies the attention of the candidates to the host: no number is less than any.
Status read_attention(const RowsToChoose& a, Queue& queue) {
  const StagedRows<float>& values = a.scratch.cosines;
  queue.upload(a.scratch.list, a.candidates);
  convert_rows({.from = a.attention,
                .to = DeviceView<float>(values.device.data, a.candidates, 1),
                .sources = a.scratch.list.device.data},
               queue);
  queue.copy(values.host.data, values.device.data, a.candidates * static_cast<int64_t>(sizeof(float)));
  OCELLUS_TRY(queue.finish());
  std::replace_if(
      values.host.data, values.host.data + a.candidates, [](float x) { return std::isnan(x); }, -1.0f);
  return {};
}

/// Picks the `count` candidates with the most attention, of equal ones the first.
void pick_dominant(const RowsToChoose& a, int64_t count) {
  const float* const values = a.scratch.cosines.host.data;
  int32_t* const order = a.scratch.order.data;
  std::iota(order, order + a.candidates, 0);
  std::nth_element(order, order + count, order + a.candidates,
                   [&](int32_t x, int32_t y) { return values[x] != values[y] ? values[x] > values[y] : x < y; });
  std::copy_n(order, count, a.picks.host.data);
}

/// Picks every n-th of the candidates that are left, after the first `taken` picks, and lists their rows. All rows of
/// the chunk are marked.
void pick_targets(const RowsToChoose& a, int64_t taken) {
  const int32_t* const rows = a.scratch.list.host.data;
  int32_t *const marks = a.scratch.marks.host.data, *targets = a.scratch.others.host.data;
  std::fill_n(marks, a.rows.rows, kJoinsNone);
  for (int64_t i = 0; i < a.candidates; ++i) marks[rows[i]] = kJoinsNearest;
  for (int64_t i = 0; i < taken; ++i) marks[rows[a.picks.host.data[i]]] = kJoinsNone;
  const int64_t wanted = a.keep - taken, step = wanted > 0 ? (a.candidates - taken) / wanted : 1;
  for (int64_t i = 0, left = 0; i < a.candidates && taken < a.keep; ++i) {
    if (marks[rows[i]] != kJoinsNearest || left++ % step != 0) continue;
    a.picks.host.data[taken++] = static_cast<int32_t>(i);
    marks[rows[i]] = kJoinsNone;
    *targets++ = rows[i];
  }
}

}  // namespace

Status choose_visionzip(const RowsToChoose& a, const MethodValues& options, Queue& queue) {
  OCELLUS_TRY(read_attention(a, queue));
  const auto share = static_cast<double>(options.number("contextual"));
  const auto contextual = static_cast<int64_t>(share * static_cast<double>(a.keep) + 0.5);
  const int64_t dominant = a.keep - contextual;
  pick_dominant(a, dominant);
  pick_targets(a, dominant);
  queue.upload(a.scratch.others, contextual);
  queue.upload(a.scratch.marks, a.rows.rows);
  merge_similar_rows({.rows = a.inputs,
                      .keys = a.keys,
                      .targets = a.scratch.others.device.data,
                      .count = contextual,
                      .joined = a.scratch.marks.device.data},
                     queue);
  return queue.status();
}

}  // namespace ocellus
