// EvictionRule: the one place where methods that drop cache entries differ. compress.cpp gives a rule what it may look
// at in a layer (keys and values in full precision, queries of the last rows, the modality of every row), and stores
// what it leaves. Everything is known beforehand: how many rows' queries it reads, how many slots survive, how much
// scratch it takes. So plans stay exact, and a new method is a class here and a name in eviction_rule().
#pragma once

#include "runtime/compress.h"

namespace ocellus {

/// One layer of a chunk, after its attention.
struct LayerToCompress {
  const TextConfig& config;
  const CompressPlan& plan;
  const CompressScratch& scratch;
  KvLayerRows rows;             // keys and values of the whole chunk; a rule that merges writes here
  ActivationView queries;       // [observed rows, H * E], rotated: the chunk's last
  const KvRun* past = nullptr;  // what attention reads of the cache before the chunk
  int32_t past_count = 0;
  int32_t layer = 0;
  DeviceView<const float> angles = {};  // [T, rotated], of the rows' positions
};

class EvictionRule {
 public:
  /// Of `kept` rows those that stay because they are the last. At least one, where any stay.
  virtual int64_t window(const CachePolicy& policy, int64_t kept) const = 0;
  /// The chunk's last rows whose queries are read, where `window` of `rows` rows are the window.
  virtual int64_t observed_rows(int64_t window, int64_t rows) const = 0;
  /// Whether all text stays, be it more than the share to keep (and images get what it leaves).
  virtual bool keeps_text() const { return false; }
  /// Bytes of scratch.rule, for chunks of up to `rows` rows of which the queries of up to `observed` are read.
  virtual int64_t scratch_bytes(const TextConfig& config, int64_t observed, int64_t rows,
                                const DeviceTraits& device) const = 0;
  /// Fills scratch.kept_text and kept_visual, and the counts that the plan names: per head the rows that stay, those
  /// of the window among them, plan.survivors.slots() in all.
  virtual void choose(const LayerToCompress& layer, Queue& queue) const = 0;

 protected:
  ~EvictionRule() = default;
};

/// The rule of a method other than EvictMethod::kNone.
const EvictionRule& eviction_rule(EvictMethod method);

/// Whether a number names a method, kNone among them.
bool is_evict_method(int32_t number);

}  // namespace ocellus
