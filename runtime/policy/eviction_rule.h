// RowRule: the one place where ways to store a chunk's rows differ. compress.cpp gives a rule what it may look at in a
// layer (keys and values in full precision, queries of the last rows, the modality of every row), and stores what it
// leaves. Everything is known beforehand: how many rows' queries it reads, how many slots survive at most, how much
// scratch it takes. So plans stay exact.
//
// EvictionRule: a RowRule that drops rows. It says its name, its paper and what it can be told, so a new method is a
// row in eviction_rule.cpp, or a class in a file of its own and its place in the list there.
#pragma once

#include <algorithm>

#include "runtime/policy/compress.h"
#include "runtime/policy/layer_budgets.h"
#include "runtime/policy/method_text.h"

namespace ocellus {

/// One layer of a chunk, after its attention.
struct LayerToCompress {
  const TextConfig& config;
  const CompressPlan& plan;
  const CompressScratch& scratch;
  KvLayerRows rows;             // keys and values of the whole chunk; a rule that merges writes here
  ActivationView queries = {};  // [observed rows, H * E], rotated: the chunk's last
  const KvRun* past = nullptr;  // what attention reads of the cache before the chunk
  int32_t past_count = 0;
  KvLayer layer = {};
  DeviceView<const float> angles = {};  // [T, rotated], of the rows' positions

  /// Of rows by head, [G, T].
  DeviceView<float> scores() const {
    const int64_t heads = config.kv_heads;
    return scratch.scores.rows == heads ? scratch.scores : scratch.scores.slice_rows(layer.index * heads, heads);
  }
};

/// What a rule does while a session answers (evict_step.h).
struct AnswerRule {
  bool evicts = false;        // a slot goes for every token that comes, as far as policies allow
  bool required = false;      // or the method is not what its name says
  bool by_attention = false;  // what had least goes, and of the newest half nothing; else the oldest
  bool grows = false;         // so that `keep` of all tokens stay; else as many slots stay as the answer began with
  bool moves_sinks = false;   // the slots that stay are read as if they stood right before the others
  int64_t first_slots = 0;    // of a prompt's that stay, at least
  int64_t last_slots = -1;    // where not -1: all stay but so many of its last

  /// Of `kept` slots that a prompt left: the first ones that stay.
  int64_t stay(int64_t kept) const {
    return last_slots < 0 ? first_slots : std::max<int64_t>(first_slots, kept - last_slots);
  }
};

class RowRule {
 public:
  /// Of `kept` rows those that stay because they are the last. At least one, where any stay.
  virtual int64_t window(const CachePolicy& policy, int64_t kept) const = 0;
  /// The chunk's last rows whose queries are read, where `window` of its rows are the window. Most without images.
  virtual int64_t observed_rows(int64_t window, const ChunkFacts& facts) const = 0;
  /// Bytes of scratch.rule, for chunks of up to `rows` rows of which the queries of up to `observed` are read.
  virtual int64_t scratch_bytes(const TextConfig& config, int64_t observed, int64_t rows,
                                const DeviceTraits& device) const = 0;
  /// Fills scratch.kept_text and kept_visual, and the counts that the plan names: per head the rows that stay, those
  /// of the window among them, plan.survivors.slots() in all.
  virtual void choose(const LayerToCompress& layer, Queue& queue) const = 0;

 protected:
  constexpr RowRule() = default;
  ~RowRule() = default;
};

class EvictionRule : public RowRule {
 public:
  const ocellus_method& method() const { return method_; }

  virtual AnswerRule answers() const { return {}; }
  /// Whether all text stays, be it more than the share to keep (and images get what it leaves).
  virtual bool keeps_text() const { return false; }
  /// Whether NCAR is watched from layer to layer (NcarState).
  virtual bool watches_ncar() const { return false; }

  /// Late rules: budgets differ by layer and are known when all layers have run. In a layer a late rule only observes:
  /// it fills layer.scores() and the layer's number in scratch.layer_facts, a sum over heads and observed rows. Then
  /// choose() is called layer by layer, with the layer's survivors in the plan.
  virtual bool is_late() const { return false; }
  virtual void observe(const LayerToCompress&, Queue&) const {}
  virtual LayerShares layer_shares() const { return LayerShares::kDensity; }
  /// What stays of a layer that may keep `share` of the chunk's rows.
  virtual Survivors survivors_of_layer(const CachePolicy& policy, const ChunkFacts& facts, double /*share*/) const {
    return policy.survivors(facts);
  }

 protected:
  explicit constexpr EvictionRule(const ocellus_method& method) : method_(method) {}
  ~EvictionRule() = default;

 private:
  ocellus_method method_;
};

/// The index-th method; null behind the last.
const EvictionRule* eviction_rule_at(int32_t index);
/// Null where no method has the name.
const EvictionRule* find_eviction_rule(std::string_view name);

/// The option that every method has: recent tokens that stay. `meaning` says what "auto" is.
constexpr ocellus_method_option window_option(const char* meaning) {
  return {"window", "auto", 1, 65536, 1, "auto", meaning};
}

}  // namespace ocellus
