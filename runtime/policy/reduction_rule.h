// ReductionRule: which rows of a picture are read, chosen between the vision part and the language model, so that the
// others cost neither time nor slots. Rows keep their positions. A rule has a name, a paper and a table of options; a
// new one is a row in reduction_rule.cpp.
#pragma once

#include "kernels/rows/gather_rows.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "platform/views.h"
#include "runtime/policy/method_text.h"

namespace ocellus {

/// A picture's rows in a chunk, between which text may stand.
struct RowsToChoose {
  DeviceView<const float> rows;  // [T, D]
  const int32_t* ids = nullptr;  // [T] on the device: candidates are the rows whose id is kSkippedRow
  HostView<int32_t> host_ids;    // [1, T]
  int64_t candidates = 0;
  int64_t keep = 0;               // 1 to `candidates`
  uint64_t seed = 0;              // the picture's own
  float* least = nullptr;         // [T] on the device, scratch
  float* mean = nullptr;          // [D] on the device, scratch
  int32_t* picks = nullptr;       // [keep] on the device: the result, in any order
  int32_t* host_picks = nullptr;  // [keep] pinned
  // Only for rules that need them, which may change what is read of the rows that they pick:
  DeviceView<float> inputs;           // [T, input_width] `rows`, and what joins them after the first layers
  DeviceView<const float> attention;  // [T, 1] that the rows receive in the tower: see tower_notes.h
  DeviceView<const float> keys;       // [T, E] their keys there
  StagedRows<float> values;           // [2, T or more] scratch
  StagedRows<int32_t> marks;          // [1, T or more] scratch
};

/// Calls visit(row, its number among the candidates).
template <class Visit>
void for_each_candidate(const RowsToChoose& a, Visit visit) {
  int64_t number = 0;
  for (int64_t row = 0; row < a.host_ids.cols; ++row)
    if (a.host_ids.data[row] == kSkippedRow) visit(static_cast<int32_t>(row), number++);
}

/// Passes the choice of the host to the device.
inline void pass_on(const RowsToChoose& a, Queue& queue) {
  queue.copy(a.picks, a.host_picks, a.keep * static_cast<int64_t>(sizeof *a.picks));
}

struct ReductionRule {
  ocellus_method method;
  void (*choose)(const RowsToChoose& picture, const MethodValues& options, Queue& queue);
  bool needs_attention = false;  // and keys of the tower
};

/// Returns the index-th rule; null after the last.
const ReductionRule* reduction_rule_at(int32_t index);

/// Parses "divprune"; null for "none" or an empty text. kBadArgument names the method or the option.
Status parse_reduction(const char (&text)[OCELLUS_METHOD_TEXT], const ReductionRule** rule, MethodValues* options);

/// The planned rule, its options and the share that it keeps.
struct Reduction {
  const ReductionRule* rule = nullptr;  // null: all rows are read
  MethodValues options;
  float keep = 1;            // share of a picture's rows
  int64_t encoded_rows = 0;  // maximum rows of a picture before it

  bool planned() const { return rule != nullptr; }
  bool needs_attention() const { return planned() && rule->needs_attention; }
  /// Number of rows that are read of a picture of `rows`, one at least.
  int64_t kept_of(int64_t rows) const;
};

/// kBadArgument names the limit that is wrong; `encoded_rows` stays 0.
Status plan_reduction(const ocellus_limits& limits, Reduction* out);

}  // namespace ocellus
