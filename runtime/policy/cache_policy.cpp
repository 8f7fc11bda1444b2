#include "runtime/policy/cache_policy.h"

#include <algorithm>
#include <cmath>

#include "runtime/policy/eviction_rule.h"

namespace ocellus {
namespace {

constexpr int32_t kMostBlockSlots = 65536;
constexpr int32_t kMostPool = 65;
constexpr float kMostTau = 100.0f;

Status check_range(const char* name, double value, double least, double most) {
  if (value >= least && value <= most) return {};  // false for what is no number
  return OCELLUS_FAIL(Code::kBadArgument, "%s must be between %g and %g, not %g", name, least, most, value);
}

Status check_layer_bits(const ocellus_cache_policy& p) {
  OCELLUS_TRY(
      check_range("the number of layers with bits of their own", p.layer_bits_count, 0, OCELLUS_MOST_LAYER_BITS));
  for (int32_t layer = 0; layer < p.layer_bits_count; ++layer)
    if (p.layer_bits[layer] == 16 || !has_kv_format(p.layer_bits[layer]))
      return OCELLUS_FAIL(Code::kBadArgument, "layer %d cannot be packed into %d bits: 8, 4, 2 and 1 are there", layer,
                          p.layer_bits[layer]);
  return {};
}

int32_t most_layer_bits(const ocellus_cache_policy& p) {
  return *std::max_element(p.layer_bits, p.layer_bits + p.layer_bits_count);
}

Status check_packing(const ocellus_cache_policy& p) {
  if (!has_kv_format(p.kv_bits))
    return OCELLUS_FAIL(Code::kBadArgument, "there is no cache format of %d bits: 16, 8, 4, 2 and 1 are there",
                        p.kv_bits);
  OCELLUS_TRY(check_layer_bits(p));
  if (p.kv_scales != 16 && p.kv_scales != 6)
    return OCELLUS_FAIL(Code::kBadArgument, "offsets and steps have 16 or 6 bits, not %d", p.kv_scales);
  OCELLUS_TRY(check_range("the slots of a cache block", p.block_slots, 0, kMostBlockSlots));
  OCELLUS_TRY(check_range("the range factor of keys", p.key_range, 0.01, 1));
  OCELLUS_TRY(check_range("the range factor of values", p.value_range, 0.01, 1));
  OCELLUS_TRY(check_range("tau 1 of the calibration", p.tau_low, 0, kMostTau));
  return check_range("tau 2 of the calibration", p.tau_high, 0, kMostTau);
}

/// What KIVI has no place for.
Status check_kivi(const ocellus_cache_policy& p) {
  const char* refused = nullptr;
  if (p.layer_bits_count > 0) refused = "has the same bits in all layers";
  if (p.kv_bits == 1) refused = "packs into 8, 4 or 2 bits, not 1";
  if (p.block_slots != 0 && p.block_slots != kKiviGroup) refused = "has groups of 32 rows, not blocks of another size";
  if (p.kv_scales != 16) refused = "has offsets and steps of 16 bits";
  if (p.one_range != 0 || p.key_range != 1 || p.value_range != 1) refused = "takes every group's range as it is";
  if (p.calibrate != 0) refused = "is not calibrated";
  if (p.keep < 1) refused = "keeps all rows: choose it or an eviction method";
  if (p.compress_at == OCELLUS_COMPRESS_IMAGE_END)
    refused = "packs prompts, not images one by one: compress at the prompt's end or before the suffix";
  if (refused == nullptr) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "KIVI %s", refused);
}

Status check_scheme(const ocellus_cache_policy& p) {
  OCELLUS_TRY(check_range("the way of packing", p.kv_scheme, OCELLUS_KV_CALIBQUANT, OCELLUS_KV_KIVI));
  return p.kv_scheme == OCELLUS_KV_KIVI && p.kv_bits < 16 ? check_kivi(p) : Status();
}

/// KIVI's way of packing as the rest of the runtime knows it: a rule that keeps everything, with a window in f16.
void pack_oldest(CachePolicy* policy) {
  policy->scales = KvScaleForm::kByToken;
  policy->block_slots = kKiviGroup;
  policy->evict = EvictMethod::kPackOldest;
  if (policy->window == 0) policy->window = kKiviWindow;
  policy->pack_window = false;
  policy->pack_text = true;
}

Status check_eviction(const ocellus_cache_policy& p) {
  if (!is_evict_method(p.evict)) return OCELLUS_FAIL(Code::kBadArgument, "there is no eviction method %d", p.evict);
  if (!(p.keep > 0 && p.keep <= 1))
    return OCELLUS_FAIL(Code::kBadArgument, "the fraction to keep must be more than 0 and at most 1, not %g",
                        static_cast<double>(p.keep));
  if (p.keep < 1 && p.evict == OCELLUS_EVICT_NONE)
    return OCELLUS_FAIL(Code::kBadArgument, "to keep %g of the cache an eviction method must be chosen",
                        static_cast<double>(p.keep));
  OCELLUS_TRY(check_range("the recent window", p.window, 0, kMostBlockSlots));
  OCELLUS_TRY(check_range("the pooling width", p.pool, 1, kMostPool));
  if (p.pool % 2 == 0) return OCELLUS_FAIL(Code::kBadArgument, "the pooling width must be odd, not %d", p.pool);
  OCELLUS_TRY(check_range("the way of pooling", p.pool_mean, 0, 1));
  OCELLUS_TRY(check_range("rho of DAVID", p.rho, 0, 1000));
  OCELLUS_TRY(check_range("the reading of DAVID's switch", p.ncar, OCELLUS_NCAR_SMALL_DROP, OCELLUS_NCAR_AT_LAYER));
  OCELLUS_TRY(check_range("the threshold of DAVID's switch", p.threshold, -1000, 1000));
  OCELLUS_TRY(check_range("the share of CSP's attention between modalities", p.csp_cross, 0, 1));
  return check_range("the time of compression", p.compress_at, OCELLUS_COMPRESS_PROMPT_END, OCELLUS_COMPRESS_IMAGE_END);
}

/// Rules that go on while a session answers need slots that a new token can take, and all of them.
Status check_answers(const CachePolicy& policy) {
  if (!policy.evicts() || !eviction_rule(policy.evict).answers().required || policy.evicts_answers()) return {};
  if (policy.packs())
    return OCELLUS_FAIL(Code::kBadArgument,
                        "this eviction method goes on while the session answers and so needs 16 bits: choose the one "
                        "that ends with the prompt, or pack nothing");
  return OCELLUS_FAIL(Code::kBadArgument,
                      "this eviction method chooses among all tokens: compress at the prompt's end or before the "
                      "suffix, not at the image's end");
}

}  // namespace

bool CachePolicy::evicts_answers() const {
  return evicts_chunks() && !packs() && eviction_rule(evict).answers().evicts;
}

int64_t CachePolicy::kept_rows(int64_t rows) const {
  if (!evicts()) return rows;
  const double share = std::floor(static_cast<double>(keep) * static_cast<double>(rows));
  return std::clamp<int64_t>(static_cast<int64_t>(share), std::min<int64_t>(1, rows), rows);
}

Survivors CachePolicy::survivors(const ChunkFacts& facts) const {
  Survivors left;
  const int64_t kept = kept_rows(facts.rows);
  left.window = evicts() ? std::min(eviction_rule(evict).window(*this, kept), kept) : 0;
  left.budget = kept - left.window;
  if (keeps_text()) left.budget = std::clamp(facts.text_rows(), left.budget, facts.rows - left.window);
  if (is_late()) left.budget = facts.rows - left.window;
  // Whether text or images fill the slots is known per head, and only then.
  left.text = left.slots();
  if (!packs()) return left;
  const int64_t text_rows = packs_text() ? 0 : facts.text_rows(), packed_rows = facts.rows - text_rows;
  const int64_t f16_window = pack_window ? 0 : std::min(left.window, packed_rows);
  left.text = std::min(text_rows + f16_window, left.slots());
  // Of a window in f16 nobody knows beforehand how much is visual, unless all of it counts.
  left.visual = std::min(packed_rows, packs_text() ? left.slots() - f16_window : kept);
  return left;
}

int64_t CachePolicy::most_visual(const ChunkFacts& facts) const {
  if (is_late()) return facts.visual_rows;
  const int64_t text = packs_text() && keeps_text() ? facts.text_rows() : 0;
  return std::min(kept_rows(facts.rows) + text, packs_text() ? facts.rows : facts.visual_rows);
}

bool CachePolicy::keeps_text() const { return evicts_chunks() && eviction_rule(evict).keeps_text(); }
bool CachePolicy::is_late() const { return evicts() && eviction_rule(evict).is_late(); }

int64_t CachePolicy::visual_quota(int64_t budget) const {
  const double share = rho_alg28 ? 1.0 / (1.0 + rho) : rho / (1.0 + rho);
  return static_cast<int64_t>(std::floor(static_cast<double>(budget) * share));
}

Status resolve_cache_policy(const ocellus_cache_policy& p, CachePolicy* out) {
  OCELLUS_TRY(check_packing(p));
  OCELLUS_TRY(check_eviction(p));
  OCELLUS_TRY(check_scheme(p));
  CachePolicy policy;
  policy.format = kv_format_of(p.layer_bits_count > 0 ? most_layer_bits(p) : p.kv_bits);
  policy.layer_formats.count = p.layer_bits_count;
  for (int32_t layer = 0; layer < p.layer_bits_count; ++layer)
    policy.layer_formats.formats[layer] = kv_format_of(p.layer_bits[layer]);
  policy.scales = p.kv_scales == 6 ? KvScaleForm::k6Bit : KvScaleForm::kF16;
  policy.block_slots = p.block_slots;
  policy.one_range = p.one_range != 0;
  policy.key_range = p.key_range;
  policy.value_range = p.value_range;
  policy.calibration = {.on = policy.packs() && p.calibrate != 0, .tau_low = p.tau_low, .tau_high = p.tau_high};
  policy.evict = p.keep < 1 ? static_cast<EvictMethod>(p.evict) : EvictMethod::kNone;
  policy.keep = policy.evicts() ? p.keep : 1.0f;
  policy.window = p.window;
  policy.pool = p.pool;
  policy.pooling = p.pool_mean != 0 ? ScorePooling::kMean : ScorePooling::kMax;
  policy.rho = p.rho;
  policy.rho_alg28 = p.rho_alg28 != 0;
  policy.ncar = static_cast<NcarSwitch>(p.ncar);
  policy.threshold = p.threshold;
  policy.pack_window = p.pack_window != 0;
  policy.pack_text = p.pack_text != 0;
  policy.csp_cross = p.csp_cross;
  policy.when = static_cast<CompressAt>(p.compress_at);
  if (p.kv_scheme == OCELLUS_KV_KIVI && policy.packs()) pack_oldest(&policy);
  if (policy.is_late() && policy.packs())
    return OCELLUS_FAIL(Code::kBadArgument,
                        "VL-Cache and MEDA choose after the last layer among f16 slots, not %d-bit ones: keep 16 bits",
                        p.kv_bits);
  if (policy.is_late() && policy.evicts_images())
    return OCELLUS_FAIL(Code::kBadArgument,
                        "VL-Cache and MEDA choose among all rows of a prompt, not image by image: compress at the "
                        "prompt's end or before the suffix");
  OCELLUS_TRY(check_answers(policy));
  *out = policy;
  return {};
}

}  // namespace ocellus
