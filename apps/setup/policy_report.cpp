#include "apps/setup/policy_report.h"

#include <cmath>
#include <sstream>
#include <vector>

#include "apps/base/sizes.h"
#include "apps/setup/branches.h"
#include "apps/setup/method_list.h"

namespace ocellus::app {
namespace {

// Returns the decimal that was written, within float precision: 0.2 and not 0.200000003.
double decimal(float value) { return std::round(static_cast<double>(value) * 1e6) / 1e6; }

// "2", "4/2"
std::string bits_text(int32_t keys, int32_t values) {
  return std::to_string(keys) + (values == 0 || values == keys ? "" : "/" + std::to_string(values));
}

// Returns ", scales=6" for "per-image:scales=6,tau-low=0": the given options that the description has no words for.
std::string other_packing_options(const std::string& scheme) {
  const size_t colon = scheme.find(':');
  std::istringstream given(colon == std::string::npos ? "" : scheme.substr(colon + 1));
  std::string text;
  for (std::string pair; std::getline(given, pair, ',');)
    if (!pair.starts_with("tau-") && !pair.starts_with("residual=")) text += ", " + pair;
  return text;
}

// True if the options of a packing scheme have a tau.
bool is_calibrated(const nlohmann::ordered_json& packing) {
  return packing.contains("tau-low") && (packing.at("tau-low").is_number() || packing.at("tau-high").is_number());
}

// Values get a list of their own only if they differ from keys somewhere.
void add_layer_bits(const ocellus_cache_policy& policy, nlohmann::ordered_json* object) {
  std::vector<int> keys, values;
  for (int32_t i = 0; i < policy.layer_bits_count; ++i) {
    keys.push_back(policy.layer_bits[i]);
    values.push_back(policy.layer_value_bits[i] == 0 ? policy.layer_bits[i] : policy.layer_value_bits[i]);
  }
  (*object)["kv_layer_bits"] = keys;
  if (keys != values) (*object)["kv_layer_value_bits"] = values;
}

}  // namespace

nlohmann::ordered_json policy_json(const ocellus_limits& limits) {
  const ocellus_cache_policy& policy = limits.cache;
  const bool packs = policy.kv_bits < 16;
  const nlohmann::ordered_json packing = method_options_json(OCELLUS_METHOD_KV_SCHEME, policy.kv_scheme);
  nlohmann::ordered_json object = {{"kv_bits", policy.kv_bits}};
  if (policy.kv_value_bits != 0) object["kv_value_bits"] = policy.kv_value_bits;
  if (policy.layer_bits_count > 0) add_layer_bits(policy, &object);
  object["calib"] = packs && is_calibrated(packing)
                        ? nlohmann::ordered_json{packing.at("tau-low"), packing.at("tau-high")}
                        : nlohmann::ordered_json("none");
  object["evict"] = method_name(policy.evict);
  object["keep"] = decimal(policy.keep);
  object["reduce"] = method_name(limits.reduce);
  object["reduce_keep"] = decimal(limits.reduce_keep);
  if (const nlohmann::ordered_json reduction = method_options_json(OCELLUS_METHOD_REDUCE, limits.reduce);
      limits.reduce_keep < 1 && !reduction.empty())
    object["reduce_options"] = reduction;
  if (limits.reduce_ms > 0) object["reduce_ms"] = decimal(limits.reduce_ms);
  object["compress_at"] = kCompressTimes[policy.compress_at];
  object["reuse"] = reuse_text(limits);
  if (packs) {
    object["kv_scheme"] = method_name(policy.kv_scheme);
    object["kv_scheme_options"] = packing;
  }
  if (policy.keep < 1) object["evict_options"] = method_options_json(OCELLUS_METHOD_EVICT, policy.evict);
  return object;
}

std::string describe_policy(const ocellus_limits& limits) {
  const ocellus_cache_policy& policy = limits.cache;
  const nlohmann::ordered_json packing = method_options_json(OCELLUS_METHOD_KV_SCHEME, policy.kv_scheme);
  std::string text = policy.kv_bits == 16 ? "f16" : format_count(policy.kv_bits, "bit");
  if (policy.kv_value_bits != 0) text = "keys of " + text + ", values of " + format_count(policy.kv_value_bits, "bit");
  if (policy.layer_bits_count > 0) {
    text = "bits by layer";
    for (int32_t i = 0; i < policy.layer_bits_count; ++i)
      text += (i == 0 ? " " : ",") + bits_text(policy.layer_bits[i], policy.layer_value_bits[i]);
  }
  if (policy.kv_bits < 16 && packing.contains("residual"))
    text += ", kivi with " + format_count(packing.at("residual").get<int32_t>(), "token") + " in f16";
  if (policy.kv_bits < 16 && is_calibrated(packing))
    text += " calibrated by " + packing.at("tau-low").dump() + ", " + packing.at("tau-high").dump();
  if (policy.kv_bits < 16) text += other_packing_options(policy.kv_scheme);
  if (policy.keep < 1)
    text += ", " + std::string(policy.evict) + " keeps " + plain_number(100.0 * decimal(policy.keep)) + " %";
  if (limits.reduce_keep < 1)
    text += ", " + std::string(limits.reduce) + " reads " + plain_number(100.0 * decimal(limits.reduce_keep)) +
            " % of their rows";
  return text;
}

}  // namespace ocellus::app
