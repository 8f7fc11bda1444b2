// RowRule: the one place where ways to store a chunk's rows differ. compress.cpp passes a rule the data of a layer
// (keys and values in full precision, queries of the last rows, the modality of every row), and stores the rows that it
// keeps. All sizes are known beforehand: the number of queries it reads, the maximum of surviving slots, its scratch.
// So plans stay exact. Branches have the rules.
#pragma once

#include <algorithm>

#include "runtime/policy/compress.h"
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

class RowRule {
 public:
  const ocellus_method& method() const { return method_; }
  virtual RuleFacts facts(const MethodValues&) const { return {}; }

  /// Number of last rows among the `kept` rows. At least one, if any are kept.
  virtual int64_t window(const CachePolicy&, int64_t kept) const { return kept; }
  /// Number of the chunk's last rows whose queries are read, if the window has `window` rows. Maximum without images.
  virtual int64_t observed_rows(int64_t /*window*/, const ChunkFacts&) const { return 0; }
  /// Bytes of scratch.rule, for chunks of up to `rows` rows with queries of up to `observed` rows.
  virtual int64_t scratch_bytes(const TextConfig&, int64_t /*observed*/, int64_t /*rows*/, const DeviceTraits&) const {
    return 0;
  }
  /// Takes the scratch of a rule that is late.
  virtual Status lay_out_late(const TextConfig&, const CompressLimits&, CompressScratch*, RowSink&) const { return {}; }

  /// Fills scratch.kept_text and kept_visual, and the counts that the plan names: per head the kept rows, including
  /// those of the window, plan.survivors.slots() in all. Nothing in rules that list no rows.
  virtual void choose(const LayerToCompress&, Queue&) const {}
  /// Chooses and stores the rows of a layer; looks at them first: see RuleFacts.
  virtual void compress(const LayerToCompress& layer, Queue& queue) const;
  /// Ends the pass that looks. False if the queue has failed.
  virtual bool end_looks(const TextConfig&, const CompressScratch&, CompressPlan*, Queue& queue) const {
    return queue.ok();
  }

 protected:
  explicit constexpr RowRule(const ocellus_method& method) : method_(method) {}
  ~RowRule() = default;

  /// Only looks at a layer.
  virtual void observe(const LayerToCompress&, Queue&) const {}
  /// Called when a layer's rows are stored.
  virtual void note_stored(const LayerToCompress&, Queue&) const {}

 private:
  ocellus_method method_;
};

/// Selects the best rows by the scores in the scratch.
SelectSlotsArgs selection(const LayerToCompress& layer, SelectStage stage);

/// Gathers and packs the rows of a layer that the scratch lists.
void store_rows(const LayerToCompress& layer, Queue& queue);

}  // namespace ocellus
