// Compression of a chunk's rows between the layers of a prefill.
#include <algorithm>

#include "runtime/forward/prefill.h"
#include "runtime/policy/eviction_rule.h"

namespace ocellus {
namespace {

/// Returns the queries that the rule reads, wherever a layer has left them.
ActivationView observed_queries(const TextConfig& c, const CompressPlan& plan, const PrefillScratch& s) {
  const CompressScratch& kept = s.compress;
  const int64_t rows = plan.facts.rows;
  if (kept.last_queries.data != nullptr) return kept.last_queries.slice_rows(0, plan.observed);
  const ActivationView all = kept.all_queries.data != nullptr ? kept.all_queries : s.layer.view(c, rows).query;
  return all.slice_rows(rows - plan.observed, plan.observed);
}

}  // namespace

void keep_observed_queries(const LayerPass& pass, const RowBlock& block, Queue& q) {
  const CompressPlan& plan = pass.plan.compress;
  if (!plan.lists_rows) return;
  const ActivationView &kept = pass.scratch.compress.last_queries, &query = block.rows.query;
  const int64_t observed_first = plan.facts.rows - plan.observed;
  for (int64_t t = std::max(block.first, observed_first); t < block.first + query.rows; ++t)
    q.copy(kept.slice_rows(t - observed_first, 1).data, query.slice_rows(t - block.first, 1).data,
           query.cols * query.value_bytes());
}

void compress_rows(const LayerPass& pass, Queue& q) {
  const PrefillScratch& s = pass.scratch;
  const CompressPlan& plan = pass.plan.compress;
  if (!plan.active) return;
  const TraceRange range(s.trace, "compress");
  const TextConfig& c = pass.config();
  const LayerToCompress compressed{.config = c,
                                   .plan = plan,
                                   .scratch = s.compress,
                                   .rows = pass.own_rows(),
                                   .queries = observed_queries(c, plan, s),
                                   .past = s.past.device.data,
                                   .past_count = static_cast<int32_t>(pass.plan.past_tiles),
                                   .layer = s.kv.layer(pass.layer),
                                   .angles = s.angles};
  compress_layer(compressed, q);
  if (plan.is_late && pass.layer + 1 == c.layer_count) compress_all_layers(compressed, q);
}

}  // namespace ocellus
