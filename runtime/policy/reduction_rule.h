// ReductionRule: which rows of a picture are read, chosen between the vision part and the language model, so that the
// others cost neither time nor slots; or, by their attention, after its first layers (runtime/session/drop_pictures.h).
// Rows keep their positions. A rule has a name, a paper and a table of options; a new one is a row in
// reduction_rule.cpp.
#pragma once

#include "platform/queue.h"
#include "platform/views.h"
#include "runtime/policy/method_text.h"

namespace ocellus {

struct CachePolicy;
struct TextConfig;

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
};

struct ReductionRule {
  ocellus_method method;
  void (*choose)(const RowsToChoose& picture, const MethodValues& options, Queue& queue);  // null: after layers
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
  /// Layers that all rows go through before some are dropped; 0: they are dropped before the first.
  int32_t full_layers() const {
    return planned() && rule->choose == nullptr ? static_cast<int32_t>(options.number("layer")) : 0;
  }
  /// Number of rows that are read of a picture of `rows`, one at least.
  int64_t kept_of(int64_t rows) const;
};

/// kBadArgument names the limit that is wrong; `encoded_rows` stays 0.
Status plan_reduction(const ocellus_limits& limits, Reduction* out);
/// Refuses layers after which this model cannot drop rows, and a cache that is compressed before the prompt's end.
Status check_reduction(const Reduction& reduction, const CachePolicy& policy, const TextConfig& text);

}  // namespace ocellus
