// Sessions whose layers are packed into different bits, and whose scales are small.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/cache_texts.h"
#include "tests/support/packed_sessions.h"
#include "tests/support/pairs.h"

namespace ocellus {
namespace {

using test::Answer;
using test::answer_golden;
using test::check_equal;
using test::evicting_limits;
using test::make_engine;
using test::open_session;
using test::packed_limits;

constexpr int64_t kLayers = 8, kHeads = 4, kDim = 64, kImageSlots = 64;  // the bundled model's
constexpr int64_t kSlotBytes = 4 * kLayers * kHeads * kDim;

}  // namespace

TEST_CASE("bits by layer that are all equal give the answers of equal bits, bit for bit" *
          doctest::test_suite("long")) {
  for (const int32_t bits : {8, 2, 1}) {
    for (const auto& [evict, when] : {std::pair{std::string("none"), OCELLUS_COMPRESS_BEFORE_SUFFIX},
                                      {"david", OCELLUS_COMPRESS_BEFORE_SUFFIX},
                                      {"snapkv", OCELLUS_COMPRESS_IMAGE_END}}) {
      CAPTURE(bits);
      CAPTURE(evict);
      ocellus_limits limits = evicting_limits(4, 200, evict, evict == "none" ? 1.0f : 0.5f, bits, when);
      const Answer expected = answer_golden(open_session(*test::make_bundled_engine(limits)), 12);
      limits.cache.kv_bits = 16;  // the list says it all
      limits.cache.layer_bits_count = kLayers;
      std::fill_n(limits.cache.layer_bits, kLayers, static_cast<uint8_t>(bits));
      const Answer listed = answer_golden(open_session(*test::make_bundled_engine(limits)), 12);
      check_equal(listed, expected);
      CHECK(listed.stats.kv_bytes == expected.stats.kv_bytes);
      CHECK(listed.stats.kv_block_elements == expected.stats.kv_block_elements);
    }
  }
}

TEST_CASE("images by layer and with small scales take the bytes of the formulas, to the byte, and are counted so" *
          doctest::test_suite("long")) {
  for (const int32_t block_slots : {0, 20}) {
    for (const float keep : {1.0f, 0.5f}) {
      CAPTURE(block_slots);
      CAPTURE(keep);
      ocellus_limits limits = evicting_limits(4, 200, keep < 1 ? "value-window" : "none", keep, 2);
      if (block_slots > 0) test::add_option(limits.cache.kv_scheme, "block=" + std::to_string(block_slots));
      test::set_layer_bits(&limits.cache);
      const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
      Session& session = open_session(*engine);
      const Answer answer = answer_golden(session, 12);
      REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
      const ocellus_generate_stats& stats = answer.stats;
      constexpr int64_t kScales = (16 + 3 * kDim) * kLayers * kHeads;
      int64_t codes = 0, elements = 0, blocks = 4 * (block_slots == 0 ? 1 : 4);
      int64_t text = session.cache().text_slots() * kSlotBytes;
      if (keep < 1) {
        const test::KeptCounts counts = test::kept_counts(session, 0);
        blocks = session.cache().kept().blocks(0);
        for (size_t i = 0; i < counts.visual.size(); ++i) {
          const int32_t keys = limits.cache.layer_bits[i / kHeads], values = limits.cache.layer_value_bits[i / kHeads];
          codes += counts.visual[i] * kDim * (keys + (values == 0 ? keys : values)) / 8;
          elements += counts.visual[i] * 2 * kDim;
          text += counts.text[i] * 4 * kDim;
        }
      } else {
        codes = 4 * kImageSlots * 2 * kHeads * kDim * 13 / 8;
        elements = 4 * kImageSlots * 2 * kHeads * kDim * kLayers;
      }
      CHECK(stats.kv_scale_bytes == blocks * kScales);
      CHECK(stats.kv_block_bytes == codes + blocks * kScales);
      CHECK(stats.kv_block_elements == elements);
      CHECK(stats.kv_bytes == codes + blocks * kScales + text);
      CHECK(stats.kv_bytes + stats.kv_waste_bytes == engine->memory().pools.used_bytes());
    }
  }
}

TEST_CASE("the library tells entries apart whose keys or values have other bits") {
  const auto prefix_of = [](int32_t keys, int32_t values) {
    ocellus_limits limits = packed_limits(1, 50, keys);
    limits.cache.kv_value_bits = values;
    limits.reuse = OCELLUS_REUSE_FULL;
    const std::unique_ptr<Engine> engine = make_engine(limits);
    const EntryFacts facts = test::open_session(*engine).conversation().links()->facts_of(1, kImageSlots);
    CHECK(facts.bits == keys);
    return facts.prefix_id;
  };
  CHECK(prefix_of(4, 4) == prefix_of(4, 0));
  CHECK(prefix_of(4, 2) != prefix_of(4, 0));
  CHECK(prefix_of(4, 2) != prefix_of(4, 1));
}

TEST_CASE("with 4-bit keys and 2-bit values an answer's cache is theirs, with kivi, too" *
          doctest::test_suite("long")) {
  for (const char* scheme : {"per-image", "kivi:residual=16"}) {
    CAPTURE(scheme);
    ocellus_limits limits = packed_limits(4, 200, 4);
    limits.cache.kv_value_bits = 2;
    test::set_text(limits.cache.kv_scheme, scheme);
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
    const Answer answer = answer_golden(open_session(*engine), 12);
    REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
    CHECK(answer.stats.kv_block_elements >= 4 * kImageSlots * 2 * kHeads * kDim * kLayers);
    CHECK(answer.stats.kv_block_bytes - answer.stats.kv_scale_bytes == answer.stats.kv_block_elements * 3 / 8);
    CHECK(answer.stats.kv_bytes + answer.stats.kv_waste_bytes == engine->memory().pools.used_bytes());
  }
}

TEST_CASE("with 8 bits in all layers and small scales the answers are those of the plain engine" *
          doctest::test_suite("long")) {
  const std::unique_ptr<Engine> plain = test::make_bundled_engine(test::board_limits(8, 300));
  ocellus_limits limits = packed_limits(8, 300, 8);
  test::add_option(limits.cache.kv_scheme, "scales=6");
  limits.cache.compress_at = OCELLUS_COMPRESS_BEFORE_SUFFIX;
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
  Session &exact = open_session(*plain), &packed = open_session(*engine);
  for (const int id : {0, 1, 3, 6, 12}) {
    CAPTURE(id);
    if (id == 1 && test::takes_pairs(WeightFormat::kQ8_0, 8)) continue;  // nearly a tie, which tiles of bf16 turn
    exact.reset();
    packed.reset();
    CHECK(answer_golden(packed, id).text == answer_golden(exact, id).text);
  }
}

}  // namespace ocellus
