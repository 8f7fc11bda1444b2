// ReductionRule: which rows of a picture are read, chosen between the vision part and the language model, so that the
// others cost neither time nor slots; or, by their attention, after its first layers (drop_pictures.cpp). Rows keep
// their positions. A new rule is a method in reduction_methods.h and a row in reduction_rule.cpp.
#pragma once

#include "kernels/choice/pick_rows.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "platform/views.h"
#include "runtime/policy/method_text.h"

namespace ocellus {

struct Reduction;

/// Memory of a choice. `n` rows choose together.
struct ChoiceScratch {
  StagedRows<int32_t> list;      // [1, n] the candidates: numbers of rows in the chunk
  StagedRows<int32_t> others;    // [1, n] rows in the chunk that they are compared with, or the prompt's text
  StagedRows<ViewPlace> places;  // [1, n] of the candidates
  StagedRows<float> cosines;     // [1, n] or other measures of the candidates
  HostView<int32_t> order;       // [1, n]
  StagedRows<int32_t> marks;     // [1, rows of the chunk]
  DeviceView<float> mean;        // [1, D]
  DeviceView<float> products;    // [n, n]
  DeviceView<float> picking;     // [1, pick_rows_scratch()]

  /// Lays out what the rule needs for pictures of `encoded` rows of `width` values in a chunk of `chunk_rows` rows.
  Status lay_out(const Reduction& reduction, int64_t encoded, int64_t chunk_rows, int64_t width, RowSink& sink);
};

/// Pictures that share what is kept of them, in a chunk; between their rows text may stand.
struct RowsToChoose {
  DeviceView<const float> rows;    // [T, D] the chunk's: pictures encoded, text embedded if the rule reads it
  const ChoiceScratch& scratch;    // its list, and what the rule reads besides, is filled on the host
  int64_t candidates = 0;          // rows of the pictures, in their order
  int64_t pictures = 1;            // with equally many rows each
  int64_t texts = 0;               // rows of text, in scratch.others
  int64_t keep = 0;                // 1 to `candidates`
  uint64_t seed = 0;               // the pictures' own
  StagedRows<int32_t> picks;       // [1, keep] the result in the host's memory, once the queue has finished: numbers of
                                   // candidates, in any order
  StagedRows<int32_t> stands_for;  // [1, keep] the same: candidates that each pick stands for, itself included; only
                                   // where the reduction weighs rows
  // Only for rules that merge rows, and so change what is read of those that they pick:
  DeviceView<float> inputs = {};           // [T, input_width] `rows`, and what joins them after the first layers
  DeviceView<const float> attention = {};  // [T, 1] that the rows receive in the tower: see tower_notes.h
  DeviceView<const float> keys = {};       // [T, E] their keys there
};

/// A rule's needs besides rows.
struct ReductionNeeds {
  bool products = false;  // scratch for pick_rows
  PickBy by = PickBy::kAngle;
  bool weighs = false;     // rows that stand for others weigh more
  bool text = false;       // the prompt: a chunk holds all of a session
  bool clips = false;      // frames of clips, which share what is kept of them: a chunk holds all of a session
  bool layers = false;     // the attention of the prompt's last row, after some layers: a chunk holds all of a session
  bool places = false;     // places of rows in their picture
  bool merges = false;     // scratch for merge_similar_rows
  bool attention = false;  // and keys of the tower
  bool shares() const { return clips; }
  bool whole_session() const { return text || clips || layers; }
};

struct ReductionRule {
  ocellus_method method;
  ReductionNeeds needs;
  /// Null: drop_pictures.cpp chooses.
  Status (*choose)(const RowsToChoose& pictures, const MethodValues& options, Queue& queue);
};

/// The planned rule, its options and the share that it keeps.
struct Reduction {
  const ReductionRule* rule = nullptr;  // null: all rows are read
  MethodValues options;
  float keep = 1;       // share of a picture's rows
  float target_ms = 0;  // see ocellus_limits.reduce_ms; 0: none

  bool planned() const { return rule != nullptr; }
  /// Layers that all rows go through before some are dropped; 0: they are dropped before the first.
  int32_t full_layers() const { return rule->needs.layers ? static_cast<int32_t>(options.number("layer")) : 0; }
  /// Number of rows that are read of a picture of `rows`, one at least; of `share` of them if that is less.
  int64_t kept_of(int64_t rows, double share = 1) const;
};

/// kBadArgument names the limit that is wrong.
Status plan_reduction(const ocellus_limits& limits, Reduction* out);

}  // namespace ocellus
