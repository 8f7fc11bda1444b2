#include "runtime/policy/packing_scheme.h"

#include <algorithm>
#include <iterator>

namespace ocellus {
namespace {

constexpr double kMaxTau = 100;

constexpr ocellus_method_option kKeyRange = {
    "key-range", nullptr, 0.01, 1, 0, "1", "Factor of keys' ranges about zero; 0.5 at 1 bit in CalibQuant's code."};
constexpr ocellus_method_option kValueRange = {
    "value-range", nullptr, 0.01, 1, 0, "1", "Factor of values' ranges about zero; 0.3 at 1 bit in CalibQuant's code."};
constexpr ocellus_method_option kTauLow = {
    "tau-low", "off", 0, kMaxTau, 0, "off", "Tau 1 of CalibQuant's calibration of scores (section 4.2)."};
constexpr ocellus_method_option kTauHigh = {
    "tau-high", "off", 0, kMaxTau, 0, "off", "Tau 2; if both are off, nothing is calibrated."};
constexpr ocellus_method_option kWindowStorage = {
    "window", "packed|f16", 1, 0, 0, "packed", "Storage of visual slots in the recent window."};

constexpr ocellus_method_option kPerImageOptions[] = {
    {"block", "auto", 1, 65536, 1, "auto",
     "Slots that share an offset and a step per channel; auto: all that an image keeps, 16 or more."},
    {"scales", "16|6", 1, 0, 0, "16", "Bits of an offset or a step; 6: between two f16 ends of their row."},
    kKeyRange,
    kValueRange,
    kTauLow,
    kTauHigh,
    {"text", "f16|packed", 1, 0, 0, "f16", "Storage of text that competes with images."},
    kWindowStorage};

constexpr ocellus_method_option kCalibQuantOptions[] = {
    kKeyRange,
    kValueRange,
    kTauLow,
    kTauHigh,
    kWindowStorage,
    {"values", "channel|global", 1, 0, 0, "channel",
     "Range of values: of a channel, or of all channels of a key/value head, the baseline of table 4."}};

/// The options that per-image and calibquant have in common.
void apply_channel_options(const MethodValues& options, CachePolicy* out) {
  out->key_range = options.number("key-range");
  out->value_range = options.number("value-range");
  out->calibration = {.on = !options.is_word("tau-low") || !options.is_word("tau-high"),
                      .tau_low = options.number("tau-low"),
                      .tau_high = options.number("tau-high")};
  out->pack_window = options.word("window") == 0;
}

void apply_per_image(const MethodValues& options, CachePolicy* out) {
  apply_channel_options(options, out);
  out->block_slots = static_cast<int32_t>(options.number("block"));
  out->scales = options.word("scales") == 1 ? KvScaleForm::k6Bit : KvScaleForm::kF16;
  out->pack_text = options.word("text") == 1;
}

void apply_calibquant(const MethodValues& options, CachePolicy* out) {
  apply_channel_options(options, out);
  out->one_range = true;
  out->global_values = options.word("values") == 1;
}

constexpr PackingScheme kSchemes[] = {
    {describe_method("per-image", "ours, after CalibQuant",
                     "Visual slots in blocks; keys and values have an offset and a step per channel and image.",
                     kPerImageOptions),
     apply_per_image},
    {describe_method(
         "calibquant", "CalibQuant, Han, Zhang et al. 2025",
         "As published: an offset and a step per channel for all images of a prompt, however long; a later prompt has "
         "its own. Every image keeps a copy of them.",
         kCalibQuantOptions),
     apply_calibquant},
    {kKiviMethod, apply_kivi}};

constexpr ocellus_method kMethods[] = {kSchemes[0].method, kSchemes[1].method, kSchemes[2].method};
static_assert(std::size(kMethods) == std::size(kSchemes));
constexpr MethodTable kTable = {.kind = OCELLUS_METHOD_KV_SCHEME, .what = "packing scheme", .methods = kMethods};

}  // namespace

const PackingScheme* packing_scheme_at(int32_t index) {
  return index >= 0 && index < std::ssize(kSchemes) ? &kSchemes[index] : nullptr;
}

const MethodTable& packing_methods() { return kTable; }

}  // namespace ocellus
