#include "apps/setup/cache_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string_view>

#include "apps/base/failure.h"
#include "apps/base/number_validator.h"
#include "apps/base/sizes.h"
#include "apps/setup/calibration_file.h"

namespace ocellus::app {
namespace {

constexpr double kMostTau = 100;

constexpr char kGroup[] = "Cache (what stays of pictures, and in how many bits)";
// By number; "" where no method has it.
constexpr std::array<const char*, 18> kEvictNames = {"none",
                                                     "snapkv",
                                                     "david",
                                                     "h2o-prefill",
                                                     "david-h2o",
                                                     "sink-recent",
                                                     "elastic-prefill",
                                                     "value-window",
                                                     "look-m",
                                                     "h2o",
                                                     "streaming-llm",
                                                     "elastic",
                                                     "look-m-all-text",
                                                     "elastic-repo",
                                                     "elastic-derope-prefill",
                                                     "csp",
                                                     "vl-cache",
                                                     "meda"};
constexpr std::array<const char*, 2> kSchemeNames = {"calibquant", "kivi"};
constexpr std::array<const char*, 8> kReuseNames = {"none", "mpic",       "spread", "carry",
                                                    "full", "mpic-tiles", "prefix", "cacheblend"};
constexpr std::array<const char*, 3> kWhenNames = {"prompt-end", "before-suffix", "image-end"};
constexpr std::array<const char*, 4> kNcarNames = {"small-drop", "large-drop", "low", "layer"};

template <size_t kCount>
int32_t index_of(const std::array<const char*, kCount>& names, const std::string& name) {
  return static_cast<int32_t>(std::find(names.begin(), names.end(), name) - names.begin());
}
template <size_t kCount>
std::vector<std::string> list_of(const std::array<const char*, kCount>& names) {
  std::vector<std::string> list;
  std::copy_if(names.begin(), names.end(), std::back_inserter(list), [](const char* name) { return *name != '\0'; });
  return list;
}

// "none|snapkv|david"
template <size_t kCount>
std::string joined_names(const std::array<const char*, kCount>& names) {
  std::string text;
  for (const std::string& name : list_of(names)) text += (text.empty() ? "" : "|") + name;
  return text;
}

// What was written, as far as a float tells: 0.2 and not 0.200000003.
double decimal(float value) { return std::round(static_cast<double>(value) * 1e6) / 1e6; }

// "2", "0.25"
std::string short_number(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

// "2,1,1,4"; the greatest of them stands for all where one number is asked for
void set_layer_bits(const std::string& text, ocellus_cache_policy* policy) {
  std::istringstream list(text);
  for (std::string entry; std::getline(list, entry, ',');) {
    const bool known = entry == "8" || entry == "4" || entry == "2" || entry == "1";
    if (!known || policy->layer_bits_count == OCELLUS_MOST_LAYER_BITS) {
      throw Failure(kExitUsage, "--kv-layer-bits " + text + ": write 8, 4, 2 or 1 for each of up to " +
                                    std::to_string(OCELLUS_MOST_LAYER_BITS) + " layers, as in 2,1,1,4.");
    }
    policy->layer_bits[policy->layer_bits_count++] = static_cast<uint8_t>(entry[0] - '0');
  }
  const std::vector<int32_t> bits(policy->layer_bits, policy->layer_bits + policy->layer_bits_count);
  if (!bits.empty()) policy->kv_bits = *std::max_element(bits.begin(), bits.end());
}

// "T1,T2"
TauPair parse_taus(const std::string& text) {
  TauPair taus;
  char* end = nullptr;
  taus.low = std::strtof(text.c_str(), &end);
  const bool has_comma = end != text.c_str() && *end == ',';
  const char* second = has_comma ? end + 1 : end;
  taus.high = has_comma ? std::strtof(second, &end) : 0;
  const auto in_range = [](float tau) { return tau >= 0 && tau <= kMostTau; };
  if (has_comma && end != second && *end == '\0' && in_range(taus.low) && in_range(taus.high)) return taus;
  throw Failure(kExitUsage, "--calib " + text + ": write none, auto or two numbers from 0 to 100, as in 0,2.");
}

void set_calibration(const CacheOptions& options, const std::string& model_path, ocellus_cache_policy* policy,
                     std::vector<std::string>* notes) {
  if (options.calibration == "none") return;
  if (options.is_kivi() && options.calibration == "auto") return;
  if (options.calibration != "auto") {
    const TauPair taus = parse_taus(options.calibration);
    if (!options.packs()) throw Failure(kExitUsage, "--calib calibrates packed caches: add --kv-bits 8, 4, 2 or 1.");
    policy->calibrate = 1;
    policy->tau_low = taus.low;
    policy->tau_high = taus.high;
    return;
  }
  if (!options.packs()) return;
  if (!options.layer_bits.empty()) {
    notes->push_back("Calibrations are known for equal bits in all layers only, so none is used.");
    return;
  }
  const std::optional<TauPair> taus = read_calibration(model_path, options.bits);
  if (!taus) {
    notes->push_back("No calibration for " + format_count(options.bits, "bit") +
                     " is known for this model, so none is used; ocellus calibrate finds one.");
    return;
  }
  policy->calibrate = taus->low != 0 || taus->high != 0 ? 1 : 0;
  policy->tau_low = taus->low;
  policy->tau_high = taus->high;
}

void add_packing_options(CLI::App* command, CacheOptions* options) {
  command->add_option("--kv-bits", options->bits, "Bits of a cached visual key or value (default: 16)")
      ->option_text("16|8|4|2|1")
      ->check(one_of_numbers({16, 8, 4, 2, 1}))
      ->group(kGroup);
  command->add_option("--kv-layer-bits", options->layer_bits, "Bits by layer instead, first to last (ours)")
      ->option_text("B,B,...")
      ->excludes("--kv-bits")
      ->group(kGroup);
  command->add_option("--calib", options->calibration, "Calibration of packed scores; auto: ocellus calibrate's")
      ->option_text("none|auto|T1,T2")
      ->group(kGroup);
}

void set_library_cache(CacheOptions* options, const std::string& size) {
  const std::optional<int64_t> bytes = parse_bytes(size);
  if (!bytes) throw Failure(kExitUsage, "--library-cache " + size + ": write a size, as in 64M or 1G.");
  options->library_cache_bytes = *bytes;
}

void add_eviction_options(CLI::App* command, CacheOptions* options) {
  command->add_option("--evict", options->evict, "Rule that drops cached tokens (default: none)")
      ->option_text(joined_names(kEvictNames))
      ->check(CLI::IsMember(list_of(kEvictNames)))
      ->group(kGroup);
  command->add_option("--keep", options->keep, "Fraction of the cached tokens that stays (default: 1)")
      ->option_text("FRACTION")
      ->check(number_between(0, 1))
      ->group(kGroup);
  command->add_option("--compress-at", options->compress_at, "When pictures are compressed (default: prompt-end)")
      ->option_text("prompt-end|before-suffix|image-end")
      ->check(CLI::IsMember(list_of(kWhenNames)))
      ->group(kGroup);
  command
      ->add_option("--reuse", options->reuse,
                   "Pictures are read alone, and K of their tokens again in place: the first (of each tile), or "
                   "spread over the picture, or these, carrying their change over to the others; cacheblend: R percent "
                   "of all, those that have changed most; full: none; or, with "
                   "prefix, as they are, and found again behind the same text and pictures only")
      ->option_text("none|mpic:K|mpic-tiles:K|spread:K|carry:K|cacheblend:R|full|prefix")
      ->group(kGroup);
}

void add_library_options(CLI::App* command, CacheOptions* options, bool is_own) {
  if (!is_own)
    command
        ->add_option("--library", options->library_path,
                     "Folder of pictures' caches, for later runs (carry:16, or spread:16 of packed caches)")
        ->option_text("DIR")
        ->group(kGroup);
  command->add_option("--owner", options->owner, "Whose pictures in the library these are")
      ->option_text("NAME")
      ->required(is_own)
      ->group(kGroup);
  command
      ->add_option_function<std::string>(
          "--library-cache", [options](const std::string& size) { set_library_cache(options, size); },
          "Memory for pictures that the library holds, too (default: 0)")
      ->option_text("SIZE")
      ->group(kGroup);
}

void add_detail_options(CLI::App* command, CacheOptions* options) {
  const std::string details = "Cache, in detail";
  command->add_option("--kv-scheme", options->scheme, "Way of packing; kivi: text, too (default: calibquant)")
      ->option_text(joined_names(kSchemeNames))
      ->check(CLI::IsMember(list_of(kSchemeNames)))
      ->group(details);
  command->add_option("--kv-residual", options->residual, "Newest tokens of a prompt that kivi leaves (default: 128)")
      ->option_text("N")
      ->check(number_between(1, 65536))
      ->group(details);
  command->add_option("--kv-block", options->block_slots, "Slots that share a range (default: what a picture leaves)")
      ->option_text("N")
      ->check(number_between(0, 65536))
      ->group(details);
  command->add_option("--kv-scales", options->scales, "Bits of the ends of a range; 6: ours (default: 16)")
      ->option_text("16|6")
      ->check(one_of_numbers({16, 6}))
      ->group(details);
  command
      ->add_flag("--kv-one-range", options->one_range, "One range for all pictures of a prompt, as CalibQuant's paper")
      ->group(details);
  command->add_flag("--kv-pack-text", options->pack_text, "Text that competes with pictures is packed, too (ours)")
      ->group(details);
  command
      ->add_flag("--kv-shrunk-ranges", options->shrunk_ranges, "Ranges times 0.5 and 0.3 at 1 bit, as its public code")
      ->group(details);
  command->add_option("--evict-window", options->window, "Recent tokens that stay (default: half, at most 16)")
      ->option_text("N")
      ->check(number_between(0, 65536))
      ->group(details);
  command->add_flag("--evict-window-f16", options->window_f16, "Visual tokens among them are not packed")
      ->group(details);
  command->add_option("--evict-pool", options->pool, "Neighbouring scores pooled, odd (default: 5)")
      ->option_text("N")
      ->check(number_between(1, 65))
      ->group(details);
  command->add_flag("--evict-pool-mean", options->pool_mean, "Pool to the mean, not the greatest")->group(details);
  command->add_option("--david-rho", options->rho, "Visual tokens per text token (default: 2)")
      ->option_text("X")
      ->check(number_between(0, 1000))
      ->group(details);
  command->add_flag("--david-rho-alg28", options->rho_alg28, "Shares as line 28 of DAVID's algorithm has them")
      ->group(details);
  command->add_option("--david-switch", options->ncar, "What ends the decoupled stage (default: small-drop)")
      ->option_text("small-drop|large-drop|low|layer")
      ->check(CLI::IsMember(list_of(kNcarNames)))
      ->group(details);
  command->add_option("--david-threshold", options->ncar_threshold, "Its threshold, or the layer (default: 0.3)")
      ->option_text("X")
      ->check(number_between(-1000, 1000))
      ->group(details);
  command->add_option("--csp-cross", options->csp_cross, "Share chosen by attention between modalities (default: 0.5)")
      ->option_text("X")
      ->check(number_between(0, 1))
      ->group(details);
}

}  // namespace

void add_cache_options(CLI::App* command, CacheOptions* options, CacheFlags flags) {
  if (flags != CacheFlags::kOwnPacking) add_packing_options(command, options);
  add_eviction_options(command, options);
  add_library_options(command, options, flags == CacheFlags::kOwnLibrary);
  add_detail_options(command, options);
}

ocellus_cache_policy cache_policy(const CacheOptions& options, const std::string& model_path,
                                  std::vector<std::string>* notes) {
  ocellus_limits defaults;
  ocellus_limits_init(&defaults);
  ocellus_cache_policy policy = defaults.cache;
  policy.kv_bits = options.bits;
  set_layer_bits(options.layer_bits, &policy);
  policy.kv_scales = options.scales;
  policy.evict = index_of(kEvictNames, options.evict);
  policy.keep = options.keep;
  if (!(options.keep > 0)) throw Failure(kExitUsage, "--keep 0 would keep nothing: give a fraction of more than 0.");
  if (options.keep < 1 && options.evict == "none") {
    throw Failure(kExitUsage, "--keep below 1 needs a rule that chooses: add --evict david or --evict snapkv.");
  }
  if (options.keep == 1 && options.evict != "none") {
    notes->push_back("--evict " + options.evict + " drops nothing without --keep; --keep 0.2 keeps a fifth.");
  }
  if (options.is_kivi() && !options.packs())
    throw Failure(kExitUsage, "--kv-scheme kivi packs nothing in 16 bits: add --kv-bits 8, 4 or 2.");
  if (options.residual > 0 && !options.is_kivi()) throw Failure(kExitUsage, "--kv-residual is for --kv-scheme kivi.");
  if (options.pool % 2 == 0) throw Failure(kExitUsage, "--evict-pool takes an odd number.");
  if (options.compress_at) policy.compress_at = index_of(kWhenNames, *options.compress_at);
  policy.block_slots = options.block_slots;
  policy.one_range = options.one_range ? 1 : 0;
  if (options.shrunk_ranges && options.bits == 1) {
    policy.key_range = 0.5f;
    policy.value_range = 0.3f;
  }
  policy.window = options.is_kivi() ? options.residual : options.window;
  policy.pool = options.pool;
  policy.pool_mean = options.pool_mean ? 1 : 0;
  policy.rho = options.rho;
  policy.rho_alg28 = options.rho_alg28 ? 1 : 0;
  policy.ncar = index_of(kNcarNames, options.ncar);
  policy.threshold = options.ncar_threshold;
  policy.pack_window = options.window_f16 ? 0 : 1;
  policy.pack_text = options.pack_text ? 1 : 0;
  policy.csp_cross = options.csp_cross;
  policy.kv_scheme = index_of(kSchemeNames, options.scheme);
  set_calibration(options, model_path, &policy, notes);
  return policy;
}

namespace {

bool takes_rows(int32_t reuse) {
  return reuse != OCELLUS_REUSE_NONE && reuse != OCELLUS_REUSE_FULL && reuse != OCELLUS_REUSE_PREFIX;
}

/// "full", "mpic:16", "spread:all"
bool parse_reuse(std::string_view text, ocellus_limits* limits) {
  const size_t colon = text.find(':');
  const auto* const name = std::find(kReuseNames.begin() + 1, kReuseNames.end(), text.substr(0, colon));
  if (name == kReuseNames.end()) return false;
  limits->reuse = static_cast<int32_t>(name - kReuseNames.begin());
  limits->reuse_rows = 0;
  if (!takes_rows(limits->reuse)) return colon == text.npos;
  if (colon == text.npos) return false;
  const std::string_view rows = text.substr(colon + 1);
  if (rows == "all") return limits->reuse_rows = -1, true;
  const auto [stop, error] = std::from_chars(rows.data(), rows.data() + rows.size(), limits->reuse_rows);
  const int32_t most = limits->reuse == OCELLUS_REUSE_BLEND ? 100 : INT32_MAX;
  return error == std::errc() && stop == rows.data() + rows.size() && limits->reuse_rows >= 0 &&
         limits->reuse_rows <= most;
}

std::string reuse_text(const ocellus_limits& limits) {
  const std::string name = kReuseNames[static_cast<size_t>(limits.reuse)];
  if (!takes_rows(limits.reuse)) return name;
  return name + ":" + (limits.reuse_rows < 0 ? "all" : std::to_string(limits.reuse_rows));
}

}  // namespace

void set_reuse(const CacheOptions& options, ocellus_limits* limits) {
  const bool has_library = !options.library_path.empty();
  if (has_library && options.owner.empty())
    throw Failure(kExitUsage, "--library needs an --owner, whose pictures these are.");
  if (!has_library && !options.owner.empty()) throw Failure(kExitUsage, "--owner goes with a --library.");
  if (!has_library && options.library_cache_bytes > 0)
    throw Failure(kExitUsage, "--library-cache goes with a --library.");
  const bool packs = limits->cache.kv_bits < 16 || limits->cache.layer_bits_count > 0;
  const std::string best = packs ? "spread:16" : "carry:16";
  const std::string text = !options.reuse.empty() ? options.reuse : has_library ? best : "none";
  if (text == "none" && has_library)
    throw Failure(kExitUsage, "--library with --reuse none would be of no use: say carry:K, as in carry:16.");
  if (text == "none") return;
  limits->library = has_library ? 1 : 0;
  limits->library_cache_bytes = options.library_cache_bytes;
  if (!parse_reuse(text, limits))
    throw Failure(kExitUsage,
                  "--reuse " + text +
                      ": write none, full, prefix, cacheblend:PERCENT, mpic:K, spread:K or carry:K, as in carry:16.");
}

nlohmann::ordered_json policy_json(const ocellus_limits& limits) {
  const ocellus_cache_policy& policy = limits.cache;
  const bool packs = policy.kv_bits < 16, evicts = policy.keep < 1;
  nlohmann::ordered_json object = {{"kv_bits", policy.kv_bits}};
  if (policy.layer_bits_count > 0)
    object["kv_layer_bits"] = std::vector<int>(policy.layer_bits, policy.layer_bits + policy.layer_bits_count);
  object["calib"] = policy.calibrate != 0 ? nlohmann::ordered_json{decimal(policy.tau_low), decimal(policy.tau_high)}
                                          : nlohmann::ordered_json("none");
  object["evict"] = kEvictNames[static_cast<size_t>(policy.evict)];
  object["keep"] = decimal(policy.keep);
  object["compress_at"] = kWhenNames[static_cast<size_t>(policy.compress_at)];
  object["reuse"] = reuse_text(limits);
  const bool is_kivi = packs && policy.kv_scheme == OCELLUS_KV_KIVI;
  if (packs) object["kv_scheme"] = kSchemeNames[static_cast<size_t>(policy.kv_scheme)];
  if (is_kivi) object["kv_residual"] = policy.window > 0 ? policy.window : 128;
  if (packs && !is_kivi) {
    object["kv_block"] = policy.block_slots;
    object["kv_scales"] = policy.kv_scales;
    object["kv_one_range"] = policy.one_range != 0;
    object["kv_ranges"] = {decimal(policy.key_range), decimal(policy.value_range)};
  }
  if (evicts) {
    object["evict_window"] = policy.window;
    object["evict_pool"] = policy.pool;
    object["evict_pool_mean"] = policy.pool_mean != 0;
    if (packs) object["kv_pack_text"] = policy.pack_text != 0;
    if (packs) object["evict_window_f16"] = policy.pack_window == 0;
  }
  if (evicts && policy.evict == OCELLUS_EVICT_DAVID) {
    object["david_rho"] = decimal(policy.rho);
    object["david_rho_alg28"] = policy.rho_alg28 != 0;
    object["david_switch"] = kNcarNames[static_cast<size_t>(policy.ncar)];
    object["david_threshold"] = decimal(policy.threshold);
  }
  if (evicts && policy.evict == OCELLUS_EVICT_CSP) object["csp_cross"] = decimal(policy.csp_cross);
  return object;
}

std::string describe_policy(const ocellus_cache_policy& policy) {
  std::string text = policy.kv_bits == 16 ? "f16" : format_count(policy.kv_bits, "bit");
  if (policy.layer_bits_count > 0) {
    text = "bits by layer";
    for (int32_t i = 0; i < policy.layer_bits_count; ++i)
      text += (i == 0 ? " " : ",") + std::to_string(policy.layer_bits[i]);
  }
  if (policy.kv_bits < 16 && policy.kv_scheme == OCELLUS_KV_KIVI)
    text += ", kivi with " + format_count(policy.window > 0 ? policy.window : 128, "token") + " in f16";
  if (policy.calibrate != 0) {
    text += " calibrated by " + short_number(policy.tau_low) + ", " + short_number(policy.tau_high);
  }
  if (policy.keep < 1) {
    text += std::string(", ") + kEvictNames[static_cast<size_t>(policy.evict)] + " keeps " +
            short_number(100.0 * decimal(policy.keep)) + " %";
  }
  return text;
}

}  // namespace ocellus::app
