// Shared by the backends of select_slots, so that they choose the same rows: pooling and order of scores, division of
// the budget, and DAVID's switch. Compiled for the device too.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cache/select_slots.h"
#include "platform/everywhere.h"

namespace ocellus::select {

/// Fails the queue for arguments that would access memory out of bounds.
inline void check(const SelectSlotsArgs& args, Queue& queue) {
  const int64_t given = args.scratch.rows * args.scratch.cols;
  const int64_t needed =
      select_slots_scratch_bytes(args.rows.count, static_cast<int32_t>(args.scores.rows), queue.traits());
  if (given < needed)
    queue.fail(OCELLUS_FAIL(Code::kInternal, "select_slots got %lld bytes of scratch instead of %lld",
                            static_cast<long long>(given), static_cast<long long>(needed)));
  if (args.stage == SelectStage::kUntilSwitch && args.ncar.layer >= NcarState::kMaxLayers)
    queue.fail(OCELLUS_FAIL(Code::kUnsupported, "DAVID's state has no room for layer %d; it has room for %d layers",
                            args.ncar.layer, NcarState::kMaxLayers));
}

/// Maps scores to integers in the same order, better ones larger; NaN is the largest, -0 is 0, and no score maps to 0.
OCELLUS_EVERYWHERE inline uint32_t rank_of(float score) {
  if (score != score) return 0xFFFFFFFFu;
  if (score == 0) return 0x80000000u;
  uint32_t bits;
  memcpy(&bits, &score, sizeof bits);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/// Returns the pooled score of row `row` of `rows`. Sums run upwards from the lowest row.
OCELLUS_EVERYWHERE inline float pool_score(const float* scores, int64_t rows, int64_t row, int32_t pool,
                                           ScorePooling pooling) {
  const int64_t reach = pool / 2;
  const int64_t first = row > reach ? row - reach : 0;
  const int64_t last = row + reach < rows ? row + reach : rows - 1;
  float pooled = scores[first];
  for (int64_t i = first + 1; i <= last; ++i) {
    const float score = scores[i];
    if (pooling == ScorePooling::kMean)
      pooled += score;
    else if (score > pooled || score != score)  // NaN stays NaN
      pooled = score;
  }
  return pooling == ScorePooling::kMean ? pooled / static_cast<float>(last - first + 1) : pooled;
}

struct Shares {
  int64_t text, visual;
};
/// The decoupled stage's shares of a budget no larger than the number of rows.
OCELLUS_EVERYWHERE inline Shares share_budget(int64_t budget, int64_t visual_quota, int64_t text_rows,
                                              int64_t visual_rows) {
  int64_t visual = visual_quota < budget ? visual_quota : budget;
  if (visual < budget - text_rows) visual = budget - text_rows;  // text leaves some of its share
  if (visual > visual_rows) visual = visual_rows;
  return {budget - visual, visual};
}

/// The rows before the window, among which `budget` are chosen; 0 if everything is kept.
OCELLUS_EVERYWHERE inline int64_t rows_to_choose_from(const SelectSlotsArgs& args) {
  return args.rows.count - args.window > args.budget ? args.rows.count - args.window : 0;
}

/// Number of rows that every head keeps.
OCELLUS_EVERYWHERE inline int64_t kept_rows(const SelectSlotsArgs& args) {
  return rows_to_choose_from(args) > 0 ? args.window + args.budget : args.rows.count;
}

/// True if theta of this layer is to be computed.
OCELLUS_EVERYWHERE inline bool is_watching(const SelectSlotsArgs& args) {
  return args.ncar.layer == 0 || args.ncar.state->switch_layer == NcarState::kNotYet;
}

/// Returns NCAR from the sum of all heads' scores of visual rows.
OCELLUS_EVERYWHERE inline double ncar_of(const SelectSlotsArgs& args, double visual_sum) {
  const int64_t observed = args.observed > 0 ? args.observed : args.window;
  const int64_t queries = observed < args.rows.count ? observed : args.rows.count;
  if (args.rows.visual_count == 0 || queries == 0) return 0;
  const double heads = static_cast<double>(args.scores.rows);
  const double per_row =
      visual_sum / heads / static_cast<double>(args.rows.visual_count) / static_cast<double>(queries);
  return per_row * static_cast<double>(args.rows.count);
}

/// Records theta in the state, and the switch if it happens here. Differences are those of the recorded values.
OCELLUS_EVERYWHERE inline void note_ncar(const SelectSlotsArgs& args, double ncar) {
  NcarState& state = *args.ncar.state;
  const double before = args.ncar.layer == 0 ? 1.0 : static_cast<double>(state.theta[args.ncar.layer - 1]);
  state.theta[args.ncar.layer] = static_cast<float>(ncar);
  const double theta = static_cast<double>(state.theta[args.ncar.layer]);
  const double threshold = static_cast<double>(args.ncar.threshold);
  bool switches = false;
  switch (args.ncar.when) {
    case NcarSwitch::kSmallDrop: switches = before - theta < threshold; break;
    case NcarSwitch::kLargeDrop: switches = before - theta > threshold; break;
    case NcarSwitch::kLow: switches = theta < threshold; break;
    case NcarSwitch::kAtLayer: switches = args.ncar.layer >= threshold; break;
  }
  state.switch_layer = switches ? args.ncar.layer : NcarState::kNotYet;
}

/// True if each modality has its share in this layer; read after note_ncar.
OCELLUS_EVERYWHERE inline bool is_decoupled(const SelectSlotsArgs& args) {
  if (args.stage == SelectStage::kUntilSwitch) return args.ncar.state->switch_layer == NcarState::kNotYet;
  return args.stage == SelectStage::kDecoupled;
}

OCELLUS_EVERYWHERE inline bool is_visual_row(const SelectSlotsArgs& args, int64_t row) {
  return args.rows.is_visual != nullptr && args.rows.is_visual[row] != 0;
}
/// True if a kept row is listed as visual. `place`: the number of kept rows before it, read with last_text only.
OCELLUS_EVERYWHERE inline bool goes_to_visual(const SelectSlotsArgs& args, int64_t row, bool is_visual, int64_t place) {
  if (args.kept.last_text >= 0) return place < kept_rows(args) - args.kept.last_text;
  return args.kept.is_split && row >= args.kept.first_text && (is_visual || args.kept.pack_text) &&
         (args.kept.pack_window || row < args.rows.count - args.window);
}

}  // namespace ocellus::select
