// RowRule: the one place where ways to store a chunk's rows differ. compress.cpp passes a rule the data of a layer
// (keys and values in full precision, queries of the last rows, the modality of every row), and stores the rows that it
// keeps. All sizes are known beforehand: the number of queries it reads, the maximum of surviving slots, its scratch.
// So plans stay exact.
//
// EvictionRule: a RowRule that drops rows. The branch evict has them.
#pragma once

#include <algorithm>

#include "runtime/policy/compress.h"
#include "runtime/policy/layer_budgets.h"
#include "runtime/policy/method_text.h"

namespace ocellus {

/// One layer of a chunk, after its attention.
struct LayerToCompress {
  const TextConfig& config;
  CompressPlan plan;
  const CompressScratch& scratch;
  KvLayerRows rows;             // keys and values of the whole chunk; a merging rule writes here
  ActivationView queries = {};  // [observed rows, H * E], rotated: the chunk's last rows
  const KvRun* past = nullptr;  // the runs of the cache that attention reads before the chunk
  int32_t past_count = 0;
  KvLayer layer = {};
  DeviceView<const float> angles = {};  // [T, rotated], for the rows' positions
  const int32_t* readers = nullptr;     // see ObservingRows

  /// Scores of rows by head, [G, T].
  DeviceView<float> scores() const {
    const int64_t heads = config.kv_heads;
    return scratch.scores.rows == heads ? scratch.scores : scratch.scores.slice_rows(layer.index * heads, heads);
  }
};

/// Eviction during an answer (evict_step.h).
struct AnswerRule {
  bool evicts = false;        // a slot is evicted for every new token, if policies allow
  bool required = false;      // the method is not what its name says without it
  bool by_attention = false;  // evicts the slot with least attention, not among the newest half; else the oldest
  bool grows = false;         // keeps `keep` of all tokens; else as many slots as at the start of the answer
  bool moves_sinks = false;   // kept first slots are read as if they stood right before the others
  int64_t first_slots = 0;    // minimum of a prompt's first slots that are kept
  int64_t last_slots = -1;    // -1: off; n: all are kept but the last n

  /// Number of first slots that are kept of the `kept` slots of a prompt.
  int64_t stay(int64_t kept) const {
    return last_slots < 0 ? first_slots : std::max<int64_t>(first_slots, kept - last_slots);
  }
};

class RowRule {
 public:
  /// Number of last rows among the `kept` rows. At least one, if any are kept.
  virtual int64_t window(const CachePolicy& policy, int64_t kept) const = 0;
  /// Number of the chunk's last rows whose queries are read, if the window has `window` rows. Maximum without images.
  virtual int64_t observed_rows(int64_t window, const ChunkFacts& facts) const = 0;
  /// Bytes of scratch.rule, for chunks of up to `rows` rows with queries of up to `observed` rows.
  virtual int64_t scratch_bytes(const TextConfig& config, int64_t observed, int64_t rows,
                                const DeviceTraits& device) const = 0;
  /// Fills scratch.kept_text and kept_visual, and the counts that the plan names: per head the kept rows, including
  /// those of the window, plan.survivors.slots() in all.
  virtual void choose(const LayerToCompress& layer, Queue& queue) const = 0;

 protected:
  constexpr RowRule() = default;
  ~RowRule() = default;
};

class EvictionRule : public RowRule {
 public:
  const ocellus_method& method() const { return method_; }

  virtual AnswerRule answers(const MethodValues&) const { return {}; }
  /// True if all text is kept, even beyond the share (and images get the rest).
  virtual bool keeps_text() const { return false; }
  /// True if all layers keep the same rows. A prompt then goes through the layers twice: first they are observed, then
  /// choose() finds the sums of observe() in layer.scores().
  virtual bool ranks_layers_together(const MethodValues&) const { return false; }
  /// Number of clusters of dropped rows that take slots beyond the share.
  virtual int64_t clusters(const MethodValues&) const { return 0; }
  /// True if it drops nothing of a chunk: it thins the images of rolling sessions.
  virtual bool thins_frames() const { return false; }
  /// True if NCAR is tracked from layer to layer (NcarState).
  virtual bool watches_ncar() const { return false; }

  /// Late rules: budgets differ by layer and are known after all layers. In a layer a late rule only observes: it fills
  /// layer.scores() and the layer's entry in scratch.layer_facts, a sum over heads and observed rows. Then choose() is
  /// called layer by layer, with the layer's survivors in the plan.
  virtual bool is_late() const { return false; }
  virtual void observe(const LayerToCompress&, Queue&) const {}
  virtual LayerShares layer_shares() const { return LayerShares::kDensity; }
  /// Returns the survivors of a layer that may keep `share` of the chunk's rows.
  virtual Survivors survivors_of_layer(const CachePolicy& policy, const ChunkFacts& facts, double /*share*/) const {
    return policy.survivors(facts);
  }

 protected:
  explicit constexpr EvictionRule(const ocellus_method& method) : method_(method) {}
  ~EvictionRule() = default;

 private:
  ocellus_method method_;
};

// Both are of the branch evict.
const MethodTable& eviction_methods();
/// Returns the rule of the index-th method; null after the last, and where the branch is left out.
const EvictionRule* eviction_rule_at(int32_t index);

}  // namespace ocellus
