// Cache policies: what is refused and how, how many slots a policy leaves, and what stands in the plan for it.
#include "runtime/policy/cache_policy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/memory_plan.h"
#include "tests/support/loaded_engine.h"

namespace ocellus {
namespace {

using test::board_limits;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kLayers = 8, kHeads = 4, kDim = 64, kImageSlots = 64;  // of the bundled model

ocellus_cache_policy default_policy() { return board_limits(1, 64).cache; }

ocellus_cache_policy evicting(ocellus_evict method, float keep, int32_t bits = 16) {
  ocellus_cache_policy policy = default_policy();
  policy.evict = method;
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
  policy.kv_scheme = OCELLUS_KV_KIVI;
  policy.kv_bits = bits;
  return policy;
}

struct BadField {
  const char* words;  // of the sentence
  void (*spoil)(ocellus_cache_policy&);
};

const BadField kBadFields[] = {
    {"no cache format of 3 bits", [](auto& p) { p.kv_bits = 3; }},
    {"no cache format of 0 bits", [](auto& p) { p.kv_bits = 0; }},
    {"no cache format of 32 bits", [](auto& p) { p.kv_bits = 32; }},
    {"no cache format of -1 bits", [](auto& p) { p.kv_bits = -1; }},
    {"offsets and steps have 16 or 6 bits, not 8", [](auto& p) { p.kv_scales = 8; }},
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
    {"slots of a cache block", [](auto& p) { p.block_slots = -1; }},
    {"slots of a cache block", [](auto& p) { p.block_slots = 65537; }},
    {"range factor of keys must be between 0.01 and 1, not 0", [](auto& p) { p.key_range = 0; }},
    {"range factor of keys", [](auto& p) { p.key_range = 1.5f; }},
    {"range factor of keys", [](auto& p) { p.key_range = kNan; }},
    {"range factor of values", [](auto& p) { p.value_range = -1; }},
    {"range factor of values", [](auto& p) { p.value_range = kNan; }},
    {"tau 1", [](auto& p) { p.tau_low = -0.5f; }},
    {"tau 1", [](auto& p) { p.tau_low = kNan; }},
    {"tau 1", [](auto& p) { p.tau_low = kInfinity; }},
    {"tau 2", [](auto& p) { p.tau_high = -1; }},
    {"tau 2", [](auto& p) { p.tau_high = kNan; }},
    {"tau 2", [](auto& p) { p.tau_high = 1e30f; }},
    {"eviction method", [](auto& p) { p.evict = 99; }},
    {"eviction method", [](auto& p) { p.evict = -1; }},
    {"fraction to keep must be more than 0", [](auto& p) { p.keep = 0; }},
    {"fraction to keep", [](auto& p) { p.keep = 1.5f; }},
    {"fraction to keep", [](auto& p) { p.keep = -0.1f; }},
    {"fraction to keep", [](auto& p) { p.keep = kNan; }},
    {"an eviction method must be chosen", [](auto& p) { p.keep = 0.5f; }},
    {"recent window", [](auto& p) { p.window = -1; }},
    {"recent window", [](auto& p) { p.window = 1 << 20; }},
    {"pooling width", [](auto& p) { p.pool = 0; }},
    {"pooling width must be odd, not 4", [](auto& p) { p.pool = 4; }},
    {"pooling width", [](auto& p) { p.pool = 67; }},
    {"way of pooling", [](auto& p) { p.pool_mean = 2; }},
    {"rho", [](auto& p) { p.rho = -1; }},
    {"rho", [](auto& p) { p.rho = kNan; }},
    {"DAVID's switch", [](auto& p) { p.ncar = 4; }},
    {"threshold of DAVID's switch", [](auto& p) { p.threshold = kNan; }},
    {"attention between modalities", [](auto& p) { p.csp_cross = -0.1f; }},
    {"attention between modalities", [](auto& p) { p.csp_cross = kNan; }},
    {"time of compression", [](auto& p) { p.compress_at = 3; }},
    {"way of packing", [](auto& p) { p.kv_scheme = 2; }},
    {"way of packing", [](auto& p) { p.kv_scheme = -1; }},
    {"KIVI packs into 8, 4 or 2 bits, not 1", [](auto& p) { p = kivi(1); }},
    {"KIVI has the same bits in all layers",
     [](auto& p) {
       p = kivi(2);
       set_layer_bits({2, 4}, &p);
     }},
    {"KIVI has groups of 32 rows",
     [](auto& p) {
       p = kivi(2);
       p.block_slots = 64;
     }},
    {"KIVI has offsets and steps of 16 bits",
     [](auto& p) {
       p = kivi(2);
       p.kv_scales = 6;
     }},
    {"KIVI takes every group's range as it is",
     [](auto& p) {
       p = kivi(2);
       p.value_range = 0.5f;
     }},
    {"KIVI is not calibrated",
     [](auto& p) {
       p = kivi(2);
       p.calibrate = 1;
     }},
    {"KIVI keeps all rows",
     [](auto& p) {
       p = kivi(2);
       p.evict = OCELLUS_EVICT_SNAPKV;
       p.keep = 0.5f;
     }},
    {"KIVI packs prompts, not images one by one",
     [](auto& p) {
       p = kivi(2);
       p.compress_at = OCELLUS_COMPRESS_IMAGE_END;
     }},
};

}  // namespace

TEST_CASE("every part of a policy that is out of range is named, and nothing is lost") {
  const std::unique_ptr<Engine> other = test::make_engine(board_limits(1, 64));
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
  ocellus_cache_policy policy = evicting(OCELLUS_EVICT_DAVID, 1);
  policy.calibrate = 1;
  const CachePolicy off = resolved(policy);
  CHECK_FALSE(off.compresses());
  CHECK_FALSE(off.calibration.on);
  CHECK_FALSE(off.watches_ncar());
  policy.keep = 0.999f;
  policy.kv_bits = 8;
  const CachePolicy on = resolved(policy);
  CHECK(on.packs());
  CHECK(on.evicts_chunks());
  CHECK(on.calibration.on);
  CHECK(on.watches_ncar());
}

TEST_CASE("of n rows floor(keep n) stay, the window among them") {
  for (const float keep : {0.001f, 0.05f, 0.1f, 0.2f, 0.5f, 0.9f, 0.999f}) {
    for (const int32_t window : {0, 1, 7, 1000}) {
      for (const int32_t bits : {16, 4}) {
        ocellus_cache_policy raw = evicting(OCELLUS_EVICT_SNAPKV, keep, bits);
        raw.window = window;
        for (const int32_t pack_window : {0, 1}) {
          raw.pack_window = pack_window;
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

TEST_CASE("KIVI packs whole groups of what is older than its window") {
  ocellus_cache_policy policy = kivi(2);
  for (const int32_t window : {0, 1, 32, 100}) {
    policy.window = window;
    const CachePolicy out = resolved(policy);
    CHECK(out.packs_oldest());
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

TEST_CASE("rho is the ratio of visual to text slots, and its inverse as algorithm 1 has it") {
  ocellus_cache_policy policy = evicting(OCELLUS_EVICT_DAVID, 0.5f);
  CHECK(resolved(policy).visual_quota(30) == 20);
  CHECK(resolved(policy).visual_quota(31) == 20);
  policy.rho_alg28 = 1;
  CHECK(resolved(policy).visual_quota(30) == 10);
  policy.rho = 1;
  CHECK(resolved(policy).visual_quota(30) == 15);
  policy.rho_alg28 = 0;
  CHECK(resolved(policy).visual_quota(30) == 15);
  policy.rho = 0;
  CHECK(resolved(policy).visual_quota(30) == 0);
  policy.rho = 1000;
  CHECK(resolved(policy).visual_quota(30) == 29);
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
    limits.cache.block_slots = 20;
    const int64_t cut = bits == 16 ? image : 4 * (2 * kLayers * kHeads * 20 * kDim * bits / 8 + scales);
    CHECK(plan_for(limits).kv_bytes_per_image == cut);
    limits.cache.block_slots = 1000;
    CHECK(plan_for(limits).kv_bytes_per_image == image);
    // Images that keep a part of their own slots.
    limits.cache = evicting(OCELLUS_EVICT_SNAPKV, 0.2f, bits);
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
  limits.cache.kv_scales = 6;
  const int64_t scales = (16 + 3 * kDim) * kLayers * kHeads;
  CHECK(plan_for(limits).kv_bytes_per_image == codes + scales);
  CHECK(row_bytes(plan_for(limits), "kv image blocks") == aligned_bytes(3 * (codes + scales)));
  limits.cache.block_slots = 32;
  CHECK(plan_for(limits).kv_bytes_per_image == codes + 2 * scales);
  set_layer_bits({2, 1, 1, 1, 1, 1, 2}, &limits.cache);
  ocellus_plan plan;
  CHECK(plan_memory(test::bundled_model(), limits, &plan).code() == Code::kBadArgument);
  CHECK(std::string(last_failure().sentence) == "the model has 8 layers, but bits are given for 7");
  // Where there is nothing to pack, the list is not looked at, and f16 has no scales.
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
      evicting_limits.cache = evicting(OCELLUS_EVICT_SNAPKV, 0.1f, bits);
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
    limits.cache = evicting(OCELLUS_EVICT_DAVID, 0.1f, bits);
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

TEST_CASE("the plan of everything at once has rows to spare") {
  ocellus_limits limits = board_limits(4, 100);
  limits.cache = evicting(OCELLUS_EVICT_DAVID, 0.1f, 2);
  limits.cache.calibrate = 1;
  const int32_t rows = plan_for(limits).row_count;
  MESSAGE(rows << " rows of " << OCELLUS_PLAN_MAX_ROWS);
  CHECK(rows + 4 <= OCELLUS_PLAN_MAX_ROWS);
}

TEST_CASE("a policy changes nothing where neither images nor much text are planned") {
  ocellus_limits limits = board_limits(0, 64);
  const ocellus_plan plain = plan_for(limits);
  limits.cache = evicting(OCELLUS_EVICT_DAVID, 0.1f, 2);
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
