#pragma once

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

enum class ScorePooling : uint8_t { kMax, kMean };

/// Division of the slots to select between modalities.
enum class SelectStage : uint8_t {
  kUnified,     // the best of all rows: SnapKV
  kDecoupled,   // visual_quota among visual rows, the rest among text
  kUntilSwitch  // decoupled until NCAR triggers the switch, then unified: DAVID
};

/// DAVID's conditions to switch from the decoupled to the unified stage at layer m; its section "Normalized Cross
/// Attention Rate" allows three readings. theta_m: NCAR of layer m, theta before the first layer 1.
enum class NcarSwitch : uint8_t {
  kSmallDrop,  // eq. 7 and Alg. 1 line 19: theta_{m-1} - theta_m < threshold
  kLargeDrop,  // the prose, "abrupt drops": theta_{m-1} - theta_m > threshold
  kLow,        // the caption of figure 2: theta_m < threshold
  kAtLayer     // at layer `threshold`, whatever theta is
};

/// DAVID's state from layer to layer of one prompt chunk, in device memory.
struct NcarState {
  static constexpr int32_t kMaxLayers = 128;
  static constexpr int32_t kNotYet = -1;
  int32_t switch_layer = kNotYet;  // the first unified layer
  float theta[kMaxLayers] = {};    // NCAR by layer, as far as computed

  /// Number of layers for which it was computed: those up to the one that switched.
  int32_t layers(int32_t layer_count) const { return switch_layer == kNotYet ? layer_count : switch_layer + 1; }
};

/// The rows that compete, or not: text and visual ones.
struct SelectRows {
  int64_t count = 0;
  const uint8_t* is_visual = nullptr;
  int64_t visual_count = 0;
};

/// Pooling of neighbouring scores.
struct ScorePool {
  int32_t width = 1;
  ScorePooling kind = ScorePooling::kMax;
};

/// When the decoupled stage ends; SelectStage::kUntilSwitch only.
struct NcarRule {
  NcarSwitch when = NcarSwitch::kSmallDrop;
  float threshold = 0.3f;
  int32_t layer = 0;  // 0: the state begins anew
  NcarState* state = nullptr;
};

/// Which kept rows are listed where.
struct KeptRows {
  bool is_split = false;
  bool pack_window = true;
  bool pack_text = false;
  int64_t first_text = 0;
  int64_t last_text = -1;  // -1: by modality and window
  DeviceView<int32_t> text;
  DeviceView<int32_t> visual;
  int32_t* text_counts = nullptr;
  int32_t* visual_counts = nullptr;
};

/// Chooses which rows of a chunk each key/value head keeps: the last `window` rows, and of the others the `budget` best
/// by pooled score. Higher scores first, among equals the lower row; a score that is not a number ranks before all. A
/// modality's share is capped at the rows it has, and what is left over goes to the other.
///
/// NCAR (DAVID, eq. 6)  theta = n / (n_V r) * mean over g of sum over visual j of scores[g][j], r = min(observed, n):
///                      the mean attention per visual row divided by 1 / n. Without visual rows 0. Not computed in the
///                      layers after the one that switches
/// Pooling              over pool.width neighbouring rows (odd; fewer at the ends) among the rows before the window,
///                      before the modalities are told apart
///
/// Shapes    scores [G, >= n] f32, n = rows.count; rows.is_visual [n], or null where all is text; kept.text,
///           kept.visual [G, >= n] row numbers, ascending; kept.text_counts, kept.visual_counts [G]; ncar.state one.
///           All in the device's memory
/// Types     integers, but for pooled means, which are f32 and added from the lowest row on, and theta, added in f64
/// Split     kept.is_split: visual rows that are kept go to kept.visual, text to kept.text; visual rows of the window
///           go to kept.text unless pack_window; with pack_text all rows are treated as visual ones are. The first
///           first_text rows go to kept.text in any case. With last_text the last last_text kept rows go to kept.text
///           and all before them to kept.visual, whatever they are. Without is_split all kept rows go to kept.text, and
///           kept.visual and kept.visual_counts may be null
/// Scratch   select_slots_scratch_bytes(n, G, traits)
/// Determinism the same bits whatever the number of threads; both backends choose the same rows of the same scores,
///           unless theta lies as close to the threshold as its rounding
/// Special   n <= window + budget: everything is kept (and theta still recorded)
/// Errors    kInternal in the queue if scratch is too small, kUnsupported for more layers than the state has room for
struct SelectSlotsArgs {
  DeviceView<const float> scores;
  SelectRows rows;
  int64_t window = 0;
  int64_t observed = 0;  // number of queries that the scores sum over; 0: the window's
  int64_t budget = 0;
  int64_t visual_quota = 0;  // part of the budget, in the decoupled stage
  ScorePool pool;
  SelectStage stage = SelectStage::kUnified;
  NcarRule ncar;
  KeptRows kept;
  DeviceView<std::byte> scratch;
};

int64_t select_slots_scratch_bytes(int64_t row_count, int32_t kv_heads, const DeviceTraits& device);

void select_slots(const SelectSlotsArgs& args, Queue& queue);

}  // namespace ocellus
