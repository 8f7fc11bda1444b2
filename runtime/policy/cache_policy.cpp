#include "runtime/policy/cache_policy.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "runtime/policy/packing_scheme.h"
#include "runtime/policy/row_rule.h"

namespace ocellus {
namespace {

Status check_range(const char* name, double value, double least, double most) {
  if (value >= least && value <= most) return {};  // false for NaN
  return OCELLUS_FAIL(Code::kBadArgument, "%s must be between %g and %g, not %g", name, least, most, value);
}

/// value_bits: 0 as keys.
Status check_pair(int32_t bits, int32_t value_bits) {
  if (value_bits == 0 || has_kv_format(bits, value_bits)) return {};
  return OCELLUS_FAIL(Code::kBadArgument,
                      "there is no cache format of %d-bit keys and %d-bit values: they have the same bits, or two of "
                      "8, 4, 2 and 1 of which one is at most four times the other",
                      bits, value_bits);
}

Status check_layer_bits(const ocellus_cache_policy& p) {
  OCELLUS_TRY(
      check_range("the number of layers with bits of their own", p.layer_bits_count, 0, OCELLUS_MOST_LAYER_BITS));
  for (int32_t layer = 0; layer < p.layer_bits_count; ++layer) {
    if (p.layer_bits[layer] == 16 || !has_kv_format(p.layer_bits[layer]))
      return OCELLUS_FAIL(Code::kBadArgument, "layer %d cannot be packed into %d bits, only into 8, 4, 2 or 1", layer,
                          p.layer_bits[layer]);
    OCELLUS_TRY(check_pair(p.layer_bits[layer], p.layer_value_bits[layer]));
  }
  return {};
}

Status check_bits(const ocellus_cache_policy& p) {
  if (!has_kv_format(p.kv_bits))
    return OCELLUS_FAIL(Code::kBadArgument, "there is no cache format of %d bits, only of 16, 8, 4, 2 and 1",
                        p.kv_bits);
  OCELLUS_TRY(check_pair(p.kv_bits, p.kv_value_bits));
  return check_layer_bits(p);
}

KvFormat format_of(int32_t bits, int32_t value_bits) { return kv_format_of(bits, value_bits == 0 ? bits : value_bits); }

/// Formats by layer, and the one with most bits of all.
void set_formats(const ocellus_cache_policy& p, CachePolicy* policy) {
  policy->format = format_of(p.kv_bits, p.kv_value_bits);
  policy->layer_formats.count = p.layer_bits_count;
  const auto bits_of = [](KvFormat format) { return key_bits(format) + value_bits(format); };
  for (int32_t layer = 0; layer < p.layer_bits_count; ++layer) {
    const KvFormat format = format_of(p.layer_bits[layer], p.layer_value_bits[layer]);
    policy->layer_formats.formats[layer] = format;
    if (layer == 0 || bits_of(format) > bits_of(policy->format)) policy->format = format;
  }
}

Status check_share(const ocellus_cache_policy& p, const RowRule* rule) {
  if (!(p.keep > 0 && p.keep <= 1))
    return OCELLUS_FAIL(Code::kBadArgument, "the fraction to keep must be more than 0 and at most 1, not %g",
                        static_cast<double>(p.keep));
  if (p.keep < 1 && rule == nullptr)
    return OCELLUS_FAIL(Code::kBadArgument, "keeping %g of the cache needs an eviction method",
                        static_cast<double>(p.keep));
  return check_range("the time of compression", p.compress_at, OCELLUS_COMPRESS_PROMPT_END, OCELLUS_COMPRESS_IMAGE_END);
}

/// A method that thins images, which are stored as without eviction until then.
ThinPolicy thinning(const ocellus_method& method, const MethodValues& options, float keep) {
  return {.method = method.name,
          .keep = keep,
          .novel = options.number("tar"),
          .recent = options.number("recent"),
          .pools = options.word("pool") == 0};
}

/// Turns off what a rule does only where all rows of a chunk are listed together.
void drop_facts_of_chunks(RuleFacts* facts) {
  facts->keeps_text = facts->watches_ncar = false;
  facts->answers = {};
}

}  // namespace

int32_t CachePolicy::slots_of_block(int64_t image_slots, int64_t usual) const {
  return static_cast<int32_t>(std::min(packs() && block_slots > 0 ? block_slots : usual, image_slots));
}

int64_t CachePolicy::kept_rows(int64_t rows) const { return std::min(share_of(rows) + facts.clusters, rows); }

int64_t CachePolicy::share_of(int64_t rows) const {
  const double share = std::floor(static_cast<double>(keep) * static_cast<double>(rows));
  return std::clamp<int64_t>(static_cast<int64_t>(share), std::min<int64_t>(1, rows), rows);
}

Survivors CachePolicy::survivors(const ChunkFacts& chunk) const {
  Survivors left;
  const int64_t kept = kept_rows(chunk.rows);
  left.window = lists_rows() ? std::min(rule->window(*this, kept), kept) : 0;
  left.budget = kept - left.window;
  left.centres = kept - share_of(chunk.rows);
  if (facts.keeps_text) left.budget = std::clamp(chunk.text_rows(), left.budget, chunk.rows - left.window);
  if (facts.is_late) left.budget = chunk.rows - left.window;
  // The split of the slots between text and images is known per head, and only after scoring.
  left.text = left.slots();
  if (!packs()) return left;
  if (packs_oldest()) {
    const bool is_open = facts.is_late || facts.keeps_text;  // the number of kept rows is known by layer or by prompt
    left.text = is_open ? std::min<int64_t>(residual + block_slots - 1, left.slots()) : f16_tail(left.slots());
    left.visual = is_open ? left.slots() : left.slots() - left.text;
    return left;
  }
  const int64_t text_rows = packs_text() ? 0 : chunk.text_rows(), packed_rows = chunk.rows - text_rows;
  // A late rule's window is known by layer, and only when all have run.
  const int64_t f16_window = pack_window ? 0 : std::min(facts.is_late ? chunk.rows : left.window, packed_rows);
  left.text = std::min(text_rows + f16_window + first_f16_rows(), left.slots());
  // The visual part of an f16 window is unknown beforehand, unless all of it counts.
  left.visual = std::min(packed_rows, packs_text() ? left.slots() - f16_window : facts.is_late ? chunk.rows : kept);
  return left;
}

int64_t CachePolicy::most_visual(const ChunkFacts& chunk, int64_t chunks) const {
  if (facts.is_late) return packs_text() ? chunk.rows : chunk.visual_rows;
  const int64_t text = packs_text() && facts.keeps_text ? chunk.text_rows() : 0;
  const int64_t kept = share_of(chunk.rows) + std::max<int64_t>(chunks, 1) * facts.clusters;
  return std::min(kept + text, packs_text() ? chunk.rows : chunk.visual_rows);
}

Status resolve_cache_policy(const ocellus_cache_policy& p, CachePolicy* out) {
  OCELLUS_TRY(check_bits(p));
  CachePolicy policy;
  MethodValues packing;
  const ocellus_method *method = nullptr, *scheme = nullptr;
  const MethodTable& methods = *methods_of(OCELLUS_METHOD_EVICT);
  OCELLUS_TRY(parse_method(methods, p.evict, &method, &policy.options));
  const RowRule* const rule = methods.rule_of(method);
  OCELLUS_TRY(check_share(p, rule));
  OCELLUS_TRY(parse_method(packing_methods(), p.kv_scheme, &scheme, &packing));
  set_formats(p, &policy);
  policy.when = static_cast<CompressAt>(p.compress_at);
  const RuleFacts facts = p.keep < 1 ? rule->facts(policy.options) : RuleFacts();
  if (facts.thins_frames) {
    policy.thin = thinning(rule->method(), policy.options, p.keep);
  } else if (p.keep < 1) {
    policy.rule = rule;
    policy.facts = facts;
    policy.keep = p.keep;
    policy.window = static_cast<int32_t>(policy.options.number("window"));
  }
  if (policy.packs()) packing_scheme_at(packing_methods().place_of(*scheme))->apply(packing, &policy);
  if (policy.cuts_images()) drop_facts_of_chunks(&policy.facts);
  *out = policy;
  return {};
}

}  // namespace ocellus
