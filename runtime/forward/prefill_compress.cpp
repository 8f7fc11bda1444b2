// Compression of a chunk's rows between the layers of a prefill.
#include <algorithm>

#include "runtime/forward/prefill.h"
#include "runtime/policy/row_rule.h"

namespace ocellus {
namespace {

/// Returns the queries of a chunk that a layer has left in one place.
ActivationView all_queries(const LayerPass& pass, int64_t rows) {
  const PrefillScratch& s = pass.scratch;
  const ActivationView& all = s.compress.all_queries;
  return (all.data != nullptr ? all : s.layer.view(pass.config(), pass.layer, rows).query).slice_rows(0, rows);
}

/// Returns the queries that the rule reads. `keeps_queries`: blocks were copied.
ActivationView observed_queries(const LayerPass& pass, bool keeps_queries) {
  const CompressPlan& plan = pass.plan.compress;
  const int64_t rows = plan.facts.rows;
  if (keeps_queries) return pass.scratch.compress.last_queries.slice_rows(0, plan.observed);
  return all_queries(pass, rows).slice_rows(rows - plan.observed, plan.observed);
}

}  // namespace

void keep_observed_queries(const LayerPass& pass, const RowBlock& block, Queue& q) {
  const CompressPlan& plan = pass.plan.compress;
  if (!plan.lists_rows) return;
  if (pass.plan.joins) return pass.scratch.links.join->join_queries(pass, block.first, block.rows.query, q);
  const ActivationView &kept = pass.scratch.compress.last_queries, &query = block.rows.query;
  const int64_t observed_first = plan.facts.rows - plan.observed;
  for (int64_t t = std::max(block.first, observed_first); t < block.first + query.rows; ++t)
    q.copy(kept.slice_rows(t - observed_first, 1).data, query.slice_rows(t - block.first, 1).data,
           query.cols * query.value_bytes());
}

void compress_rows(const LayerPass& pass, Queue& q) {
  const PrefillScratch& s = pass.scratch;
  const CompressPlan& plan = pass.plan.compress;
  LinkJoin* const join = pass.plan.joins ? s.links.join : nullptr;
  const JoinedLayer joined = join != nullptr ? join->join_rows(pass, q) : JoinedLayer();
  if (!plan.active) return;
  const TraceRange range(s.extra.trace, "compress");
  const TextConfig& c = pass.config();
  const bool on_cuda = q.traits().is_cuda();
  if (join != nullptr && on_cuda && plan.lists_rows) join->join_queries(pass, 0, all_queries(pass, pass.plan.rows), q);
  const bool keeps_queries = join != nullptr || (!on_cuda && s.compress.last_queries.data != nullptr);
  const LayerToCompress compressed{.config = c,
                                   .plan = plan,
                                   .scratch = s.compress,
                                   .rows = join != nullptr ? joined.rows : pass.own_rows(),
                                   .queries = observed_queries(pass, keeps_queries),
                                   .past = s.past.runs.device.data,
                                   .past_count = static_cast<int32_t>(pass.plan.live_tiles),
                                   .layer = s.limits.kv.layer(pass.cache_layer()),
                                   .angles = join != nullptr ? joined.angles : s.rows.angles,
                                   .readers = joined.readers};
  compress_layer(compressed, q);
}

}  // namespace ocellus
