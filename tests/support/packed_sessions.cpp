#include "tests/support/packed_sessions.h"

namespace ocellus::test {

ocellus_limits packed_limits(int32_t images, int32_t text_tokens, int32_t bits) {
  ocellus_limits limits = known_board_limits(images, text_tokens);
  limits.cache.kv_bits = bits;
  return limits;
}

ocellus_limits evicting_limits(int32_t images, int32_t text_tokens, std::string_view method, float keep, int32_t bits,
                               ocellus_compress_at at) {
  ocellus_limits limits = packed_limits(images, text_tokens, bits);
  test::set_text(limits.cache.evict, method);
  limits.cache.keep = keep;
  limits.cache.compress_at = at;
  return limits;
}

void set_layer_bits(ocellus_cache_policy* policy) {
  add_option(policy->kv_scheme, "scales=6");
  constexpr uint8_t kKeys[] = {2, 1, 1, 1, 1, 1, 2, 4}, kValues[] = {1, 0, 0, 0, 1, 2, 4, 2};
  policy->layer_bits_count = 8;
  std::copy_n(kKeys, 8, policy->layer_bits);
  std::copy_n(kValues, 8, policy->layer_value_bits);
}

KeptCounts kept_counts(Session& session, int32_t eviction) {
  const SessionCache& cache = session.cache();
  const KvShape& shape = session.engine().shape().kv;
  const int64_t matrices = int64_t{shape.layer_count} * shape.kv_heads;
  Queue& queue = session.engine().queue();
  KeptCounts counts;
  counts.text = download<int32_t>(cache.kept().text_counts(eviction), matrices, queue);
  counts.visual.assign(static_cast<size_t>(matrices), 0);
  if (cache.kept().blocks(eviction) > 0)
    counts.visual = download<int32_t>(cache.kept().visual_counts(eviction), matrices, queue);
  return counts;
}

std::vector<float> block_scales(Session& session, const KvRun& run, int32_t layer, int32_t head) {
  const KvShape& shape = session.engine().shape().kv;
  const int32_t dim = shape.head_dim;
  const std::byte* block = packed_rows(run, shape.layer(layer), head, dim).block;
  std::vector<float> scales;
  for (const Half half : download<Half>(block, kKvScaleRows * dim, session.engine().queue()))
    scales.push_back(half_to_float(half));
  return scales;
}

}  // namespace ocellus::test
