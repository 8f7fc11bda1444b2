#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string_view>

#include "apps/base/failure.h"
#include "apps/base/sizes.h"
#include "apps/base/value_flags.h"
#include "apps/setup/branches.h"
#include "apps/setup/calibration_file.h"
#include "apps/setup/method_list.h"

namespace ocellus::app {
namespace {

// Formats a value with all of its digits.
std::string exact_number(float value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

bool is_kivi(const PackOptions& options) { return method_name(options.scheme) == "kivi"; }

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

void set_kv_bits(PackOptions* options, const std::string& text) {
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
std::optional<TauPair> known_taus(const PackOptions& options, const std::string& model_path,
                                  std::vector<std::string>* notes) {
  constexpr TauPair kMadeUp = {0, 2};  // the bundled model's
  const std::string bits = format_count(options.bits, "bit");
  const auto found = [&](const TauPair& taus, const std::string& source) -> std::optional<TauPair> {
    if (taus.low == 0 && taus.high == 0) return std::nullopt;
    notes->push_back("Scores of " + bits + " are calibrated by tau " + plain_number(taus.low) + " and " +
                     plain_number(taus.high) + " (" + source + "); --calib none turns this off.");
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
std::string calibration_text(const PackOptions& options, const std::string& model_path,
                             std::vector<std::string>* notes) {
  const bool is_auto = options.calibration.empty() || options.calibration == "auto";
  if (options.calibration == "none" || (is_auto && is_kivi(options))) return "";
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

}  // namespace

void add_bits_flags(CLI::App* command, PackOptions* options) {
  add_parsed(
      command, "Cache", "--kv-bits", "16|8|4|2|1|K/V",
      [options](const std::string& text) { set_kv_bits(options, text); },
      "Bits of cached pictures (default: 16). K/V: of keys and of values");
  add_value(command, "Cache", "--kv-layer-bits", "B,B,...", &options->layer_bits,
            "Bits by layer instead, first to last, each B or K/V. 'ocellus calibrate' finds them")
      ->excludes("--kv-bits");
  add_value(command, "Cache", "--calib", "none|auto|T1,T2", &options->calibration,
            "Calibration of packed scores, tau 1 and 2 (default: auto, those known for the model)");
}

void add_scheme_flag(CLI::App* command, PackOptions* options) {
  add_method_flag(
      command, "--kv-scheme", OCELLUS_METHOD_KV_SCHEME, &options->scheme,
      "Quantization scheme (default: per-image). per-image: a range per picture and channel, calibquant: one for "
      "all pictures of a prompt, kivi: packs text as well; with options as in per-image:scales=6");
}

void set_packing(const PackOptions& options, const std::string& model_path, ocellus_limits* limits,
                 std::vector<std::string>* notes) {
  ocellus_cache_policy& policy = limits->cache;
  policy.kv_bits = options.bits;
  policy.kv_value_bits = options.value_bits;
  set_layer_bits(options.layer_bits, &policy);
  if (is_kivi(options) && !options.packs())
    throw Failure(kExitUsage, "--kv-scheme kivi packs nothing in 16 bits: add --kv-bits 8, 4, 2 or 1.");
  const bool has_options = options.scheme != method_name(options.scheme);
  if (has_options && !options.packs())
    notes->push_back("--kv-scheme " + options.scheme + " packs nothing in 16 bits; --kv-bits 2 packs pictures.");
  const std::string calibration = calibration_text(options, model_path, notes);
  const std::string joint = calibration.empty() ? "" : has_options ? "," : ":";
  set_method("--kv-scheme", options.scheme + joint + calibration, policy.kv_scheme);
}

}  // namespace ocellus::app
