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

constexpr std::array<const char*, 8> kReuseNames = {"none", "mpic",       "spread", "carry",
                                                    "full", "mpic-tiles", "prefix", "cacheblend"};
constexpr std::array<const char*, 3> kWhenNames = {"prompt-end", "before-suffix", "image-end"};

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

// Returns the decimal that was written, within float precision: 0.2 and not 0.200000003.
double decimal(float value) { return std::round(static_cast<double>(value) * 1e6) / 1e6; }

// Formats a value with all of its digits.
std::string exact_number(float value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// "2", "0.25"
std::string short_number(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

// Bits of keys and of values; 0: as keys.
struct BitPair {
  int32_t keys = 0, values = 0;
};

// Parses "2", or "4/2" for keys and values.
std::optional<BitPair> parse_bits(const std::string& text) {
  const auto number_of = [](std::string_view part) {
    return part == "8" || part == "4" || part == "2" || part == "1" ? part[0] - '0' : part == "16" ? 16 : 0;
  };
  const std::string_view all = text;
  const size_t slash = all.find('/');
  BitPair bits = {.keys = number_of(all.substr(0, slash))};
  if (slash != all.npos) bits.values = number_of(all.substr(slash + 1));
  if (bits.keys == 0 || (slash != all.npos && bits.values == 0)) return std::nullopt;
  if (bits.values == bits.keys) bits.values = 0;
  return bits;
}

// "2", "4/2"
std::string bits_text(int32_t keys, int32_t values) {
  return std::to_string(keys) + (values == 0 || values == keys ? "" : "/" + std::to_string(values));
}

void set_kv_bits(CacheOptions* options, const std::string& text) {
  const std::optional<BitPair> bits = parse_bits(text);
  if (!bits) throw CLI::ValidationError("--kv-bits", text + " is not 16, 8, 4, 2 or 1, or keys/values as in 4/2");
  options->bits = bits->keys;
  options->value_bits = bits->values;
}

// Parses "2,1,4/2,4"; the maximum is used where one number is needed.
void set_layer_bits(const std::string& text, ocellus_cache_policy* policy) {
  std::istringstream list(text);
  for (std::string entry; std::getline(list, entry, ',');) {
    const std::optional<BitPair> bits = parse_bits(entry);
    if (!bits || std::max(bits->keys, bits->values) == 16 || policy->layer_bits_count == OCELLUS_MOST_LAYER_BITS) {
      throw Failure(kExitUsage, "--kv-layer-bits " + text + ": write 8, 4, 2 or 1 for each of up to " +
                                    std::to_string(OCELLUS_MOST_LAYER_BITS) +
                                    " layers, as in 2,1,1,4, or 4/2 for its keys and values.");
    }
    policy->layer_bits[policy->layer_bits_count] = static_cast<uint8_t>(bits->keys);
    policy->layer_value_bits[policy->layer_bits_count++] = static_cast<uint8_t>(bits->values);
  }
  for (int32_t i = 0; i < policy->layer_bits_count; ++i)
    policy->kv_bits =
        std::max<int32_t>({i == 0 ? 0 : policy->kv_bits, policy->layer_bits[i], policy->layer_value_bits[i]});
}

// "T1,T2"
TauPair parse_taus(const std::string& text) {
  TauPair taus;
  char* end = nullptr;
  taus.low = std::strtof(text.c_str(), &end);
  const bool has_comma = end != text.c_str() && *end == ',';
  const char* second = has_comma ? end + 1 : end;
  taus.high = has_comma ? std::strtof(second, &end) : 0;
  const auto in_range = [](float tau) { return tau >= 0 && tau <= kMaxTau; };
  if (has_comma && end != second && *end == '\0' && in_range(taus.low) && in_range(taus.high)) return taus;
  throw Failure(kExitUsage, "--calib " + text + ": write none, auto or two numbers from 0 to 100, as in 0,2.");
}

// ",tau-low=0,tau-high=2"
std::string tau_options(const TauPair& taus) {
  return "tau-low=" + exact_number(taus.low) + ",tau-high=" + exact_number(taus.high);
}

// Returns the pair that is known for the model; nullopt, perhaps with a remark, if there is none or it changes nothing.
std::optional<TauPair> known_taus(const CacheOptions& options, const std::string& model_path,
                                  std::vector<std::string>* notes) {
  constexpr TauPair kMadeUp = {0, 2};  // the bundled model's
  const std::string bits = format_count(options.bits, "bit");
  const auto found = [&](const TauPair& taus, const std::string& source) -> std::optional<TauPair> {
    if (taus.low == 0 && taus.high == 0) return std::nullopt;
    notes->push_back("Scores of " + bits + " are calibrated by tau " + short_number(taus.low) + " and " +
                     short_number(taus.high) + " (" + source + "); --calib none turns this off.");
    return taus;
  };
  if (model_path.empty())
    return options.bits == 1 ? found(kMadeUp, "made-up weights: for the cost alone") : std::nullopt;
  const std::optional<TauPair> taus = read_calibration(model_path, {method_name(options.scheme), options.bits});
  if (taus) return found(*taus, calibration_path(model_path));
  // Four bits and more have nothing to calibrate in CalibQuant's code either.
  if (options.bits <= 2 || options.calibration == "auto")
    notes->push_back("No calibration for " + bits +
                     " is known for this model, so none is used; ocellus calibrate finds one.");
  return std::nullopt;
}

// Returns the options that --calib adds to the packing scheme, "tau-low=0,tau-high=2", or an empty text.
std::string calibration_text(const CacheOptions& options, const std::string& model_path,
                             std::vector<std::string>* notes) {
  const bool is_auto = options.calibration.empty() || options.calibration == "auto";
  if (options.calibration == "none" || (is_auto && options.is_kivi())) return "";
  if (!is_auto) {
    const TauPair taus = parse_taus(options.calibration);
    if (!options.packs()) throw Failure(kExitUsage, "--calib calibrates packed caches: add --kv-bits 8, 4, 2 or 1.");
    return tau_options(taus);
  }
  const bool has_own = options.calibration.empty() && options.scheme.find("tau-") != std::string::npos;
  if (!options.packs() || has_own) return "";
  if (!options.layer_bits.empty() || options.value_bits != 0) {
    if (options.calibration == "auto")
      notes->push_back("Calibrations exist only for equal bits of all keys and values, so none is used.");
    return "";
  }
  const std::optional<TauPair> taus = known_taus(options, model_path, notes);
  return taus ? tau_options(*taus) : "";
}

// Copies the text of a cache method to its field.
void set_method(const std::string& flag, const std::string& text, char (&field)[OCELLUS_METHOD_TEXT]) {
  if (text.size() >= sizeof field)
    throw Failure(kExitUsage, flag + ": with the options that other flags add, this has more than " +
                                  std::to_string(sizeof field - 1) + " characters.");
  std::copy(text.begin(), text.end(), field);
  field[text.size()] = '\0';
}

void set_library_cache(CacheOptions* options, const std::string& size) {
  const std::optional<int64_t> bytes = parse_bytes(size);
  if (!bytes) throw Failure(kExitUsage, "--library-cache " + size + ": write a size, as in 64M or 1G.");
  options->library_cache_bytes = *bytes;
}

}  // namespace

void add_packing_flags(CLI::App* command, CacheOptions* options) {
  command
      ->add_option_function<std::string>(
          "--kv-bits", [options](const std::string& text) { set_kv_bits(options, text); },
          "Bits of cached pictures (default: 16). K/V: of keys and of values")
      ->option_text("16|8|4|2|1|K/V")
      ->group("Cache");
  command
      ->add_option("--kv-layer-bits", options->layer_bits,
                   "Bits by layer instead, first to last, each B or K/V. 'ocellus calibrate' finds them")
      ->option_text("B,B,...")
      ->excludes("--kv-bits")
      ->group("Cache");
  command
      ->add_option("--calib", options->calibration,
                   "Calibration of packed scores, tau 1 and 2 (default: auto, those known for the model)")
      ->option_text("none|auto|T1,T2")
      ->group("Cache");
}

void add_method_flags(CLI::App* command, CacheOptions* options, MethodNames shown) {
  const auto add_share = [command](const char* name, float* share, const char* help) {
    command->add_option(name, *share, help)->option_text("FRACTION")->check(number_between(0, 1))->group("Cache");
  };
  const auto add_method = [command](const char* name, std::string* method, ocellus_method_kind kind,
                                    const std::string& names, const char* help) {
    command->add_option(name, *method, help)
        ->option_text(names + "[:KEY=VALUE,...]")
        ->check(method_of(kind))
        ->group("Cache");
  };
  add_method("--evict", &options->evict, OCELLUS_METHOD_EVICT, "none|" + join_method_names(OCELLUS_METHOD_EVICT, shown),
             "Method that evicts cached tokens (default: none). With options as in david:rho=1,window=8; 'ocellus "
             "methods' lists all");
  add_share("--keep", &options->keep, "Fraction of tokens that --evict keeps (default: 1)");
  add_method("--reduce", &options->reduce, OCELLUS_METHOD_REDUCE,
             "none|" + join_method_names(OCELLUS_METHOD_REDUCE, shown),
             "Method that drops tokens before they are read (default: none). They are tokens of pictures; 'ocellus "
             "methods' lists all");
  add_share("--reduce-keep", &options->reduce_keep, "Fraction of a picture's tokens that --reduce keeps (default: 1)");
  command
      ->add_option("--reduce-ms", options->reduce_ms,
                   "Target time for reading a prompt (default: none). Fewer tokens are kept, a sixteenth at least, "
                   "where the prompts before it took longer")
      ->option_text("MS")
      ->check(number_between(0, 1e6))
      ->group("Cache");
  add_method(
      "--kv-scheme", &options->scheme, OCELLUS_METHOD_KV_SCHEME,
      join_method_names(OCELLUS_METHOD_KV_SCHEME, MethodNames::kAll),
      "Quantization scheme (default: per-image). per-image: a range per picture and channel, calibquant: one for "
      "all pictures of a prompt, kivi: packs text as well; with options as in per-image:scales=6");
}

void add_reuse_flags(CLI::App* command, CacheOptions* options, const std::string& standard) {
  command
      ->add_option("--compress-at", options->compress_at,
                   "When pictures are compressed (default: " + standard +
                       "). before-suffix: before the text after which the model answers, so that one-word answers come "
                       "from the compressed cache")
      ->option_text("prompt-end|before-suffix|image-end")
      ->check(CLI::IsMember(list_of(kWhenNames)))
      ->group("Cache");
  command
      ->add_option("--reuse", options->reuse,
                   "Reuse of encoded pictures (default: none). Of a picture's tokens K are recomputed "
                   "in place, the others reused; mpic: the first ones (of each tile), spread: spread over the picture, "
                   "carry: these, and their change is applied to the others; cacheblend: the R percent that change "
                   "most; full: all are reused; prefix: all, but only after the same text and pictures")
      ->option_text("none|mpic:K|mpic-tiles:K|spread:K|carry:K|cacheblend:R|full|prefix")
      ->group("Reuse");
  command
      ->add_option("--shared-images", options->shared_images,
                   "Reused pictures that all sessions share, each once on the device (default: 0, each session has its "
                   "own). With carry each session has copies as well")
      ->option_text("N")
      ->check(number_between(0, 65536))
      ->group("Reuse");
}

void add_library_flags(CLI::App* command, CacheOptions* options, LibraryPlace place) {
  options->notes_new_library = place == LibraryPlace::kFlag;
  if (place == LibraryPlace::kFlag)
    command
        ->add_option("--library", options->library_path,
                     "Image library, a folder of pictures' caches. Later runs find them; implies --reuse carry:16, or "
                     "spread:16 for packed caches")
        ->option_text("DIR")
        ->group("Reuse");
  command->add_option("--owner", options->owner, "Owner of the pictures in the library")
      ->option_text("NAME")
      ->required(place == LibraryPlace::kArgument)
      ->group("Reuse");
  command
      ->add_option_function<std::string>(
          "--library-cache", [options](const std::string& size) { set_library_cache(options, size); },
          "Memory for the latest library entries (default: 0)")
      ->option_text("SIZE")
      ->group("Reuse");
}

ocellus_cache_policy cache_policy(const CacheOptions& options, const std::string& model_path,
                                  std::vector<std::string>* notes) {
  ocellus_limits defaults;
  ocellus_limits_init(&defaults);
  ocellus_cache_policy policy = defaults.cache;
  policy.kv_bits = options.bits;
  policy.kv_value_bits = options.value_bits;
  set_layer_bits(options.layer_bits, &policy);
  set_method("--evict", options.evict, policy.evict);
  policy.keep = options.keep;
  if (!(options.keep > 0)) throw Failure(kExitUsage, "--keep 0 would keep nothing: give a fraction of more than 0.");
  if (options.keep < 1 && options.evict == "none") {
    throw Failure(kExitUsage, "--keep below 1 needs a method: add --evict david or --evict snapkv.");
  }
  if (options.keep == 1 && options.evict != "none") {
    notes->push_back("--evict " + options.evict + " drops nothing without --keep; --keep 0.2 keeps a fifth.");
  }
  if (options.is_kivi() && !options.packs())
    throw Failure(kExitUsage, "--kv-scheme kivi packs nothing in 16 bits: add --kv-bits 8, 4, 2 or 1.");
  if (options.scheme.find(':') != std::string::npos && !options.packs())
    notes->push_back("--kv-scheme " + options.scheme + " packs nothing in 16 bits; --kv-bits 2 packs pictures.");
  if (options.compress_at) policy.compress_at = index_of(kWhenNames, *options.compress_at);
  const std::string calibration = calibration_text(options, model_path, notes);
  const bool has_options = options.scheme != method_name(options.scheme);
  const std::string joint = calibration.empty() ? "" : has_options ? "," : ":";
  set_method("--kv-scheme", options.scheme + joint + calibration, policy.kv_scheme);
  return policy;
}

namespace {

bool takes_rows(int32_t reuse) {
  return reuse != OCELLUS_REUSE_NONE && reuse != OCELLUS_REUSE_FULL && reuse != OCELLUS_REUSE_PREFIX;
}

/// Parses "full", "mpic:16", "spread:all".
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

}  // namespace

bool can_share_images(const CacheOptions& options) {
  const bool per_prompt = options.keep < 1 || (options.packs() && method_name(options.scheme) != "per-image") ||
                          (options.packs() && options.reuse.starts_with("cacheblend"));
  if (per_prompt) return false;
  if (options.reuse.empty()) return !options.library_path.empty() && options.packs();  // spread:16
  return options.reuse != "none" && !options.reuse.starts_with("carry");
}

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
    throw Failure(kExitUsage, "--library does nothing with --reuse none: give carry:K, as in carry:16.");
  if (text == "none" && options.shared_images.value_or(0) > 0)
    throw Failure(kExitUsage, "--shared-images shares reused pictures: add --reuse, as in --reuse mpic:32.");
  if (text == "none") return;
  limits->shared_images = options.shared_images.value_or(0);
  limits->library = has_library ? 1 : 0;
  limits->library_cache_bytes = options.library_cache_bytes;
  if (!parse_reuse(text, limits))
    throw Failure(kExitUsage, "--reuse " + text +
                                  ": write none, full, prefix, cacheblend:PERCENT, mpic:K, mpic-tiles:K, spread:K or "
                                  "carry:K, as in carry:16.");
}

namespace {

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

void set_reduction(const CacheOptions& options, ocellus_limits* limits, std::vector<std::string>* notes) {
  set_method("--reduce", options.reduce, limits->reduce);
  limits->reduce_keep = options.reduce_keep;
  limits->reduce_ms = options.reduce_ms;
  if (options.reduce_keep == 1 && options.reduce_ms == 0 && options.reduce != "none")
    notes->push_back("--reduce " + options.reduce +
                     " drops nothing without --reduce-keep; --reduce-keep 0.5 keeps half.");
}

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
  object["compress_at"] = kWhenNames[static_cast<size_t>(policy.compress_at)];
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
    text += ", " + std::string(policy.evict) + " keeps " + short_number(100.0 * decimal(policy.keep)) + " %";
  if (limits.reduce_keep < 1)
    text += ", " + std::string(limits.reduce) + " reads " + short_number(100.0 * decimal(limits.reduce_keep)) +
            " % of their rows";
  return text;
}

}  // namespace ocellus::app
