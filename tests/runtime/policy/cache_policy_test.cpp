// Cache policies: what is refused and how, how many slots a policy leaves, and what stands in the plan for it.
#include "runtime/policy/cache_policy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/engine/memory_plan.h"
#include "tests/support/cache_texts.h"
#include "tests/support/loaded_engine.h"

namespace ocellus {
namespace {

using test::board_limits;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kLayers = 8, kHeads = 4, kDim = 64, kImageSlots = 64;  // the bundled model's

ocellus_cache_policy default_policy() { return board_limits(1, 64).cache; }

ocellus_cache_policy evicting(std::string_view method, float keep, int32_t bits = 16) {
  ocellus_cache_policy policy = default_policy();
  test::set_text(policy.evict, method);
  policy.keep = keep;
  policy.kv_bits = bits;
  return policy;
}

CachePolicy resolved(const ocellus_cache_policy& policy) {
  CachePolicy out;
  REQUIRE_MESSAGE(resolve_cache_policy(policy, &out).ok(), last_failure().sentence);
  return out;
}

ocellus_plan plan_for(const ocellus_limits& limits) {
  ocellus_plan plan;
  REQUIRE_MESSAGE(plan_memory(test::bundled_model(), limits, &plan).ok(), last_failure().sentence);
  return plan;
}

int64_t row_bytes(const ocellus_plan& plan, const std::string& name) {
  for (int i = 0; i < plan.row_count; ++i)
    if (plan.rows[i].name == name) return plan.rows[i].bytes;
  return -1;
}

void set_layer_bits(std::initializer_list<int> bits, ocellus_cache_policy* policy) {
  policy->layer_bits_count = 0;
  for (const int each : bits) policy->layer_bits[policy->layer_bits_count++] = static_cast<uint8_t>(each);
}

ocellus_cache_policy kivi(int32_t bits) {
  ocellus_cache_policy policy = default_policy();
  test::set_text(policy.kv_scheme, "kivi");
  policy.kv_bits = bits;
  return policy;
}

struct BadField {
  const char* words;  // words in the sentence
  void (*spoil)(ocellus_cache_policy&);
};

const BadField kBadFields[] = {
    {"no cache format of 3 bits", [](auto& p) { p.kv_bits = 3; }},
    {"no cache format of 0 bits", [](auto& p) { p.kv_bits = 0; }},
    {"no cache format of 32 bits", [](auto& p) { p.kv_bits = 32; }},
    {"no cache format of -1 bits", [](auto& p) { p.kv_bits = -1; }},
    {"number of layers with bits of their own", [](auto& p) { p.layer_bits_count = -1; }},
    {"number of layers with bits of their own", [](auto& p) { p.layer_bits_count = OCELLUS_MOST_LAYER_BITS + 1; }},
    {"layer 1 cannot be packed into 16 bits",
     [](auto& p) {
       set_layer_bits({2, 16}, &p);
     }},
    {"layer 0 cannot be packed into 3 bits",
     [](auto& p) {
       set_layer_bits({3, 2}, &p);
     }},
    {"no cache format of 16-bit keys and 4-bit values: they have the same bits, or two of 8, 4, 2 and 1 of which",
     [](auto& p) { p.kv_value_bits = 4; }},
    {"there is no packing scheme 'zip'; there are per-image, calibquant, kivi",
     [](auto& p) { test::set_text(p.kv_scheme, "zip"); }},
    {"there is no packing scheme ''", [](auto& p) { test::set_text(p.kv_scheme, ":scales=6"); }},
    {"per-image: options are missing after the colon", [](auto& p) { test::set_text(p.kv_scheme, "per-image:"); }},
    {"per-image has no option 'rho'; it has block, scales, key-range",
     [](auto& p) { test::set_text(p.kv_scheme, "per-image:rho=1"); }},
    {"calibquant has no option 'scales'; it has key-range, value-range, tau-low, tau-high, window, values",
     [](auto& p) { test::set_text(p.kv_scheme, "calibquant:scales=6"); }},
    {"calibquant (kv_scheme) has one range for all images of a prompt, so it does not pack them one by one "
     "(compress_at): choose per-image",
     [](auto& p) {
       p.kv_bits = 2;
       p.compress_at = OCELLUS_COMPRESS_IMAGE_END;
       test::set_text(p.kv_scheme, "calibquant");
     }},
    {"calibquant: tau-high takes off, or a number from 0 to 100, not '101'",
     [](auto& p) { test::set_text(p.kv_scheme, "calibquant:tau-high=101"); }},
    {"per-image: scales takes 16|6, not '8'", [](auto& p) { test::set_text(p.kv_scheme, "per-image:scales=8"); }},
    {"per-image: block takes auto, or a whole number from 1 to 65536, not '-1'",
     [](auto& p) { test::set_text(p.kv_scheme, "per-image:block=-1"); }},
    {"per-image: block takes", [](auto& p) { test::set_text(p.kv_scheme, "per-image:block=65537"); }},
    {"per-image: block takes", [](auto& p) { test::set_text(p.kv_scheme, "per-image:block=1.5"); }},
    {"per-image: key-range takes a number from 0.01 to 1, not '0'",
     [](auto& p) { test::set_text(p.kv_scheme, "per-image:key-range=0"); }},
    {"per-image: key-range takes", [](auto& p) { test::set_text(p.kv_scheme, "per-image:key-range=1.5"); }},
    {"per-image: key-range takes", [](auto& p) { test::set_text(p.kv_scheme, "per-image:key-range=nan"); }},
    {"per-image: value-range takes", [](auto& p) { test::set_text(p.kv_scheme, "per-image:value-range=-1"); }},
    {"per-image: tau-low takes off, or a number from 0 to 100, not '-0.5'",
     [](auto& p) { test::set_text(p.kv_scheme, "per-image:tau-low=-0.5"); }},
    {"per-image: tau-low takes", [](auto& p) { test::set_text(p.kv_scheme, "per-image:tau-low=inf"); }},
    {"per-image: tau-high takes", [](auto& p) { test::set_text(p.kv_scheme, "per-image:tau-high=1e30"); }},
    {"per-image: tau-high takes", [](auto& p) { test::set_text(p.kv_scheme, "per-image:tau-high="); }},
    {"per-image: tau-low is given twice",
     [](auto& p) { test::set_text(p.kv_scheme, "per-image:tau-low=1,tau-low=1"); }},
    {"per-image: scales needs a value, as in scales=16; it takes 16|6",
     [](auto& p) { test::set_text(p.kv_scheme, "per-image:block=8,scales"); }},
    {"kivi has no option 'scales'; it has residual", [](auto& p) { test::set_text(p.kv_scheme, "kivi:scales=6"); }},
    {"kivi: residual takes a whole number from 1 to 65536, not '0'",
     [](auto& p) { test::set_text(p.kv_scheme, "kivi:residual=0"); }},
    {"there is no eviction method 'lru'; there are none, snapkv, david, ",
     [](auto& p) { test::set_text(p.evict, "lru"); }},
    {"there is no eviction method 'David'", [](auto& p) { test::set_text(p.evict, "David"); }},
    {"there is no eviction method ' david'", [](auto& p) { test::set_text(p.evict, " david"); }},
    {"options are for an eviction method", [](auto& p) { test::set_text(p.evict, "none:window=1"); }},
    {"david: options are missing after the colon", [](auto& p) { test::set_text(p.evict, "david:"); }},
    {"david has no option 'cross'; it has window, pool, pool-by, rho, shares, switch, threshold",
     [](auto& p) { test::set_text(p.evict, "david:cross=1"); }},
    {"david: there is a comma without an option", [](auto& p) { test::set_text(p.evict, "david:,"); }},
    {"snapkv: there is a comma without an option", [](auto& p) { test::set_text(p.evict, "snapkv:window=8,"); }},
    {"snapkv: there is a comma without an option", [](auto& p) { test::set_text(p.evict, "snapkv:,window=8"); }},
    {"the name of the eviction method is missing before the colon", [](auto& p) { test::set_text(p.evict, ":"); }},
    {"snapkv has no option 'rho'; it has window, pool, pool-by",
     [](auto& p) { test::set_text(p.evict, "snapkv:rho=1"); }},
    {"snapkv: window takes auto, or a whole number from 1 to 65536, not '-1'",
     [](auto& p) { test::set_text(p.evict, "snapkv:window=-1"); }},
    {"snapkv: window takes", [](auto& p) { test::set_text(p.evict, "snapkv:window=1048576"); }},
    {"snapkv: pool takes an odd number from 1 to 65, not '4'",
     [](auto& p) { test::set_text(p.evict, "snapkv:pool=4"); }},
    {"snapkv: pool takes", [](auto& p) { test::set_text(p.evict, "snapkv:pool=67"); }},
    {"snapkv: pool takes", [](auto& p) { test::set_text(p.evict, "snapkv:pool=5x"); }},
    {"snapkv: pool-by takes max|mean, not 'least'", [](auto& p) { test::set_text(p.evict, "snapkv:pool-by=least"); }},
    {"david: rho takes a number from 0 to 1000, not '-1'", [](auto& p) { test::set_text(p.evict, "david:rho=-1"); }},
    {"david: rho takes", [](auto& p) { test::set_text(p.evict, "david:rho=nan"); }},
    {"david: rho needs a value, as in rho=2; it takes a number from 0 to 1000",
     [](auto& p) { test::set_text(p.evict, "david:rho"); }},
    {"david: switch takes small-drop|large-drop|low, or a whole number from 0 to 128, not 'soon'",
     [](auto& p) { test::set_text(p.evict, "david:switch=soon"); }},
    {"david: threshold takes", [](auto& p) { test::set_text(p.evict, "david:threshold=nan"); }},
    {"csp: cross takes a number from 0 to 1, not '-0.1'", [](auto& p) { test::set_text(p.evict, "csp:cross=-0.1"); }},
    {"text of the eviction method has more than 255 bytes",
     [](auto& p) { std::fill(std::begin(p.evict), std::end(p.evict), 'a'); }},
    {"text of the packing scheme has more than 255 bytes",
     [](auto& p) { std::fill(std::begin(p.kv_scheme), std::end(p.kv_scheme), 'a'); }},
    {"fraction to keep must be more than 0", [](auto& p) { p.keep = 0; }},
    {"fraction to keep", [](auto& p) { p.keep = 1.5f; }},
    {"fraction to keep", [](auto& p) { p.keep = -0.1f; }},
    {"fraction to keep", [](auto& p) { p.keep = kNan; }},
    {"needs an eviction method", [](auto& p) { p.keep = 0.5f; }},
    {"time of compression", [](auto& p) { p.compress_at = 3; }},
    {"h2o (evict) drops single tokens of answers, and kivi packs them in blocks of 32",
     [](auto& p) {
       p = kivi(2);
       test::set_text(p.evict, "h2o");
       p.keep = 0.5f;
     }},
    {"kivi (kv_scheme) packs prompts, not images one by one",
     [](auto& p) {
       p = kivi(2);
       p.compress_at = OCELLUS_COMPRESS_IMAGE_END;
     }},
};

}  // namespace

TEST_CASE("every part of a policy that is out of range is named, and nothing is lost") {
  const std::unique_ptr<Engine> other = test::make_bundled_engine(board_limits(1, 64));
  for (const BadField& bad : kBadFields) {
    ocellus_limits limits = board_limits(1, 64);
    bad.spoil(limits.cache);
    CAPTURE(bad.words);
    const auto check = [&](Status status) {
      CHECK(status.code() == Code::kBadArgument);
      const std::string sentence = last_failure().sentence;
      CHECK_MESSAGE(sentence.find(bad.words) != std::string::npos, sentence);
    };
    ocellus_plan plan = {};
    plan.total_bytes = 7;
    check(plan_memory(test::bundled_model(), limits, &plan));
    CHECK(plan.total_bytes == 7);
    ocellus_engine_config config;
    ocellus_engine_config_init(&config);
    config.limits = limits;
    std::unique_ptr<Engine> engine;
    check(Engine::create(test::bundled_model(), config, &engine));
    CHECK(engine == nullptr);
  }
  Session& session = test::open_session(*other);
  REQUIRE(test::add_turn(session, "<image>What is on the left?", {"images/115.png"}).ok());
  CHECK(test::answer_of(session).text == " A large cyan star.");
}

TEST_CASE("a policy that asks for everything as it is turns all of it off") {
  ocellus_cache_policy policy = evicting("david", 1);
  test::set_text(policy.kv_scheme, "per-image:tau-high=1");
  const CachePolicy off = resolved(policy);
  CHECK_FALSE(off.compresses());
  CHECK_FALSE(off.calibration.on);
  CHECK_FALSE(off.facts.watches_ncar);
  policy.keep = 0.999f;
  policy.kv_bits = 8;
  const CachePolicy on = resolved(policy);
  CHECK(on.packs());
  CHECK(on.lists_chunks());
  CHECK(on.calibration.on);
  CHECK(on.facts.watches_ncar);
}

TEST_CASE("of n rows floor(keep n) stay, the window among them") {
  for (const float keep : {0.001f, 0.05f, 0.1f, 0.2f, 0.5f, 0.9f, 0.999f}) {
    for (const int32_t window : {0, 1, 7, 1000}) {
      for (const int32_t bits : {16, 4}) {
        ocellus_cache_policy raw = evicting("snapkv", keep, bits);
        if (window > 0) test::add_option(raw.evict, "window=" + std::to_string(window));
        for (const int32_t pack_window : {0, 1}) {
          test::set_text(raw.kv_scheme, pack_window == 1 ? "per-image" : "per-image:window=f16");
          const CachePolicy policy = resolved(raw);
          for (const int64_t rows : {1, 3, 64, 80, 313, 2048}) {
            for (const int64_t visual : {int64_t{1}, rows / 2, rows}) {
              if (visual < 1) continue;
              const Survivors left = policy.survivors({rows, visual});
              const auto share =
                  static_cast<int64_t>(std::floor(static_cast<double>(keep) * static_cast<double>(rows)));
              CHECK(left.slots() == std::max<int64_t>(1, share));
              CHECK(left.window >= 1);
              CHECK(left.budget >= 0);
              if (window > 0) CHECK(left.window == std::min<int64_t>(window, left.slots()));
              if (window == 0) CHECK(left.window <= 16);
              if (bits == 16) CHECK(left.text == left.slots());
              if (bits == 16) CHECK(left.visual == 0);
              // Whatever the heads choose has a place.
              if (bits != 16) CHECK(left.visual == std::min(visual, left.slots()));
              const int64_t in_window = pack_window == 1 ? 0 : std::min(left.window, visual);
              if (bits != 16) CHECK(left.text == std::min(rows - visual + in_window, left.slots()));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("kivi packs whole groups of what is older than its window") {
  ocellus_cache_policy policy = kivi(2);
  for (const int32_t window : {0, 1, 32, 100}) {
    test::set_text(policy.kv_scheme, window == 0 ? "kivi" : "kivi:residual=" + std::to_string(window));
    const CachePolicy out = resolved(policy);
    CHECK(out.packs_oldest());
    CHECK_FALSE(out.drops_rows());
    CHECK(out.scales == KvScaleForm::kByToken);
    for (const int64_t rows : {1, 31, 32, 33, 64, 100, 128, 160, 161, 1000}) {
      const Survivors left = out.survivors({.rows = rows, .visual_rows = rows / 2});
      const int64_t f16 = window == 0 ? 128 : window;
      CHECK(left.slots() == rows);
      CHECK(left.visual == (rows > f16 ? (rows - f16) / 32 * 32 : 0));
      CHECK(left.text == rows - left.visual);
    }
  }
  policy.kv_bits = 16;
  CHECK_FALSE(resolved(policy).packs_oldest());
}

TEST_CASE("what a text leaves out is as the method has it, and words and numbers are told apart") {
  const auto options_of = [](const std::string& text) { return resolved(evicting(text, 0.5f)).options; };
  const MethodValues plain = options_of("david");
  CHECK(plain.number("rho") == 2.0f);
  CHECK(plain.number("threshold") == 0.3f);
  CHECK(plain.number("pool") == 5.0f);
  CHECK(plain.word("switch") == 0);
  CHECK(plain.word("window") == 0);
  CHECK_FALSE(plain.has("cross"));
  CHECK(plain.number("cross", 7) == 7.0f);
  const MethodValues told = options_of("david:switch=3,rho=0.5,pool-by=mean");
  CHECK_FALSE(told.is_word("switch"));
  CHECK(told.number("switch") == 3.0f);
  CHECK(told.number("rho") == 0.5f);
  CHECK(told.word("pool-by") == 1);
  CHECK(told.number("threshold") == 0.3f);
}

TEST_CASE("a scheme's text becomes the policy, and nothing at all is the standard one") {
  ocellus_cache_policy policy = default_policy();
  policy.kv_bits = 2;
  test::set_text(policy.kv_scheme, "per-image:block=32,scales=6,key-range=0.5,text=packed,window=f16");
  test::set_text(policy.evict, "");
  const CachePolicy told = resolved(policy);
  CHECK(told.block_slots == 32);
  CHECK(told.scales == KvScaleForm::k6Bit);
  CHECK_FALSE(told.one_range);
  CHECK(told.key_range == 0.5f);
  CHECK(told.value_range == 1.0f);
  CHECK(told.pack_text);
  CHECK_FALSE(told.pack_window);
  CHECK_FALSE(told.calibration.on);
  CHECK_FALSE(told.drops_rows());
  test::set_text(policy.kv_scheme, "");
  const CachePolicy plain = resolved(policy);
  CHECK(plain.block_slots == 0);
  CHECK(plain.scales == KvScaleForm::kF16);
  CHECK(plain.pack_window);
  CHECK_FALSE(plain.one_range);
  test::set_text(policy.kv_scheme, "calibquant:value-range=0.3,tau-high=2,window=f16,values=global");
  const CachePolicy published = resolved(policy);
  CHECK(published.one_range);
  CHECK(published.block_slots == 0);
  CHECK(published.scales == KvScaleForm::kF16);
  CHECK(published.value_range == 0.3f);
  CHECK(published.global_values);
  CHECK(published.calibration.on);
  CHECK(published.calibration.tau_low == 0);
  CHECK(published.calibration.tau_high == 2);
  CHECK_FALSE(published.pack_text);
  CHECK_FALSE(published.pack_window);
}

TEST_CASE("every method lists itself with standard values that it takes, and has a name of its own") {
  std::set<std::string> names;
  const struct {
    ocellus_method_kind kind;
    int32_t methods, recommended;
  } kinds[] = {{OCELLUS_METHOD_EVICT, 20, 4}, {OCELLUS_METHOD_KV_SCHEME, 3, 0}, {OCELLUS_METHOD_REDUCE, 9, 1}};
  for (const auto& [kind, methods, shown] : kinds) {
    int32_t count = 0, recommended = 0;
    for (; const ocellus_method* method = ocellus_method_get(kind, count); ++count) {
      CAPTURE(method->name);
      CHECK(names.insert(method->name).second);
      CHECK(std::string(method->paper) != "");
      CHECK(std::string(method->meaning).back() == '.');
      recommended += method->recommended;
      std::string text = method->name;
      std::set<std::string> keys;
      for (int32_t i = 0; i < method->option_count; ++i) {
        const ocellus_method_option& option = method->options[i];
        CHECK(keys.insert(option.key).second);
        CHECK(std::string(option.meaning).back() == '.');
        text += (i == 0 ? ":" : ",") + std::string(option.key) + "=" + option.standard;
      }
      CHECK_MESSAGE(ocellus_method_check(kind, text.c_str()) == OCELLUS_OK, last_failure().sentence);
      CHECK(text.size() < OCELLUS_METHOD_TEXT);
    }
    CHECK(count == methods);
    CHECK(recommended == shown);
    CHECK(ocellus_method_get(kind, -1) == nullptr);
    CHECK(ocellus_method_get(kind, count) == nullptr);
  }
  CHECK(ocellus_method_get(3, 0) == nullptr);
  CHECK(ocellus_method_check(3, "david") == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_method_check(OCELLUS_METHOD_EVICT, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_method_check(OCELLUS_METHOD_EVICT, std::string(5000, 'a').c_str()) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_method_check(OCELLUS_METHOD_EVICT, "david:switch=low") == OCELLUS_OK);
}

TEST_CASE("the plan has an image's bytes as the formulas have them") {
  for (const int32_t bits : {16, 8, 4, 2, 1}) {
    CAPTURE(bits);
    ocellus_limits limits = board_limits(3, 100);
    limits.cache.kv_bits = bits;
    const int64_t scales = bits == 16 ? 0 : 8 * kDim * kLayers * kHeads;
    const int64_t image = 2 * kLayers * kHeads * kImageSlots * kDim * bits / 8 + scales;
    const ocellus_plan plan = plan_for(limits);
    CHECK(plan.kv_bytes_per_image == image);
    CHECK(plan.kv_bytes_per_token == 4 * kLayers * kHeads * kDim);
    CHECK(row_bytes(plan, "kv image blocks") == aligned_bytes(3 * image));
    // Blocks of fewer slots: more scales, and what the last block has too much.
    test::set_text(limits.cache.kv_scheme, "per-image:block=20");
    const int64_t cut = bits == 16 ? image : 4 * (2 * kLayers * kHeads * 20 * kDim * bits / 8 + scales);
    CHECK(plan_for(limits).kv_bytes_per_image == cut);
    test::set_text(limits.cache.kv_scheme, "per-image:block=1000");
    CHECK(plan_for(limits).kv_bytes_per_image == image);
    // Images that keep a part of their own slots.
    limits.cache = evicting("snapkv", 0.2f, bits);
    limits.cache.compress_at = OCELLUS_COMPRESS_IMAGE_END;
    CHECK(plan_for(limits).kv_bytes_per_image == 2 * kLayers * kHeads * 12 * kDim * bits / 8 + scales);
    // Images that share a budget with the text have no bytes of their own.
    limits.cache.compress_at = OCELLUS_COMPRESS_PROMPT_END;
    CHECK(plan_for(limits).kv_bytes_per_image == 0);
  }
}

TEST_CASE("the plan has an image's bytes by layer and with small scales as the formulas have them") {
  ocellus_limits limits = board_limits(3, 100);
  set_layer_bits({2, 1, 1, 1, 1, 1, 2, 4}, &limits.cache);
  const int64_t codes = 2 * kHeads * kImageSlots * kDim * (2 + 5 + 2 + 4) / 8;
  CHECK(plan_for(limits).kv_bytes_per_image == codes + 8 * kDim * kLayers * kHeads);
  test::add_option(limits.cache.kv_scheme, "scales=6");
  const int64_t scales = (16 + 3 * kDim) * kLayers * kHeads;
  CHECK(plan_for(limits).kv_bytes_per_image == codes + scales);
  CHECK(row_bytes(plan_for(limits), "kv image blocks") == aligned_bytes(3 * (codes + scales)));
  test::add_option(limits.cache.kv_scheme, "block=32");
  CHECK(plan_for(limits).kv_bytes_per_image == codes + 2 * scales);
  limits.cache.layer_value_bits[0] = 4;  // instead of 2
  CHECK(plan_for(limits).kv_bytes_per_image == codes + 2 * scales + kHeads * kImageSlots * kDim * 2 / 8);
  set_layer_bits({2, 1, 1, 1, 1, 1, 2}, &limits.cache);
  ocellus_plan plan;
  CHECK(plan_memory(test::bundled_model(), limits, &plan).code() == Code::kBadArgument);
  CHECK(std::string(last_failure().sentence) == "the model has 8 layers, but bits are given for 7");
  // With nothing to pack, the list is ignored, and f16 has no scales.
  limits.max_images = 0;
  CHECK(plan_memory(test::bundled_model(), limits, &plan).ok());
}

TEST_CASE("the fewer bits and slots, the smaller the plan and the more images in a budget") {
  ocellus_limits limits = board_limits(8, 200);
  limits.budget_bytes = plan_for(limits).total_bytes;
  int64_t last_total = INT64_MAX;
  int32_t last_images = 0;
  for (const int32_t bits : {16, 8, 4, 2, 1}) {
    CAPTURE(bits);
    limits.cache.kv_bits = bits;
    const ocellus_plan plan = plan_for(limits);
    CHECK(plan.fits == 1);
    CHECK(row_bytes(plan, "kv image blocks") < last_total);
    CHECK(plan.images_in_budget >= std::max(8, last_images));
    last_total = row_bytes(plan, "kv image blocks");
    last_images = plan.images_in_budget;
    for (const ocellus_compress_at at : {OCELLUS_COMPRESS_PROMPT_END, OCELLUS_COMPRESS_IMAGE_END}) {
      ocellus_limits evicting_limits = limits;
      evicting_limits.cache = evicting("snapkv", 0.1f, bits);
      evicting_limits.cache.compress_at = at;
      const ocellus_plan evicted = plan_for(evicting_limits);
      const auto kv = [](const ocellus_plan& p) {
        return row_bytes(p, "kv image blocks") + row_bytes(p, "kv text pages");
      };
      CHECK(kv(evicted) <= kv(plan) + 8 * 16 * 4 * kLayers * kHeads * kDim);  // a page for every image's prompt
    }
  }
}

TEST_CASE("a budget that holds no image says so and makes no engine") {
  for (const int32_t bits : {16, 1}) {
    ocellus_limits limits = board_limits(1, 32);
    limits.cache = evicting("david", 0.1f, bits);
    limits.budget_bytes = plan_for(limits).total_bytes;
    CHECK(plan_for(limits).images_in_budget == 1);
    limits.budget_bytes -= 1;
    const ocellus_plan plan = plan_for(limits);
    CHECK(plan.fits == 0);
    CHECK(plan.images_in_budget == 0);
    CHECK(plan.shortfall_bytes == 1);
    ocellus_engine_config config;
    ocellus_engine_config_init(&config);
    config.limits = limits;
    std::unique_ptr<Engine> engine;
    CHECK(Engine::create(test::bundled_model(), config, &engine).code() == Code::kOverBudget);
  }
}

TEST_CASE("a policy changes nothing where neither images nor much text are planned") {
  ocellus_limits limits = board_limits(0, 64);
  const ocellus_plan plain = plan_for(limits);
  limits.cache = evicting("david", 0.1f, 2);
  CHECK(row_bytes(plan_for(limits), "kv text pages") == row_bytes(plain, "kv text pages"));
  const std::unique_ptr<Engine> engine = test::make_engine(limits);
  Session& session = test::open_session(*engine);
  REQUIRE(session.begin_turn().ok());
  REQUIRE(session.add_text("What color is the background?", false).ok());
  REQUIRE(session.end_turn().ok());
  CHECK(test::answer_of(session).status.ok());
  CHECK(session.ncar() == nullptr);
}

}  // namespace ocellus
