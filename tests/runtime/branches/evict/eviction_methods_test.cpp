// Properties of single eviction methods beyond the share that is kept.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/branches/evict/rules.h"
#include "runtime/engine/memory_plan.h"
#include "tests/support/cache_texts.h"
#include "tests/support/packed_sessions.h"

namespace ocellus {
namespace {

using test::evicting_limits;
using test::kept_counts;
using test::KeptCounts;
using test::make_engine;
using test::open_session;

constexpr int64_t kImageSlots = 64;  // the bundled model's
constexpr std::string_view kMethods[] = {
    "look-m-all-text", "elastic-repo", "elastic-derope-prefill", "csp", "keydiff-prefill", "vl-cache", "meda"};

/// A question of the golden set with the rows before its suffix, read.
struct Read {
  std::unique_ptr<Engine> engine;
  Session* session = nullptr;
  ocellus_generate_stats stats = {};
  std::string text;
  int64_t images = 0;
};
Read read_golden(int id, const ocellus_limits& limits) {
  Read read;
  read.engine = make_engine(limits);
  read.session = &open_session(*read.engine);
  const test::Answer answer = test::answer_golden(*read.session, id);
  REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
  read.stats = answer.stats;
  read.text = answer.text;
  read.images = std::ssize(test::golden(id).images);
  return read;
}

bool all_are(const std::vector<int32_t>& counts, int64_t wanted) {
  return std::all_of(counts.begin(), counts.end(), [&](int32_t count) { return count == wanted; });
}

}  // namespace

TEST_CASE("look-m-all-text keeps all text, and gives pictures what it leaves of the share" *
          doctest::test_suite("long")) {
  for (const float keep : {0.9f, 0.5f, 0.2f, 0.05f}) {
    for (const int32_t bits : {16, 4}) {
      CAPTURE(keep);
      CAPTURE(bits);
      const Read read = read_golden(13, evicting_limits(4, 200, "look-m-all-text", keep, bits));
      const KeptPrompt& rows = read.session->cache().kept().rows(0);
      const int64_t share = static_cast<int64_t>(keep * static_cast<float>(rows.rows));
      const int64_t visual = rows.rows - rows.text_rows;
      CHECK(visual == read.images * kImageSlots);
      const KeptCounts counts = kept_counts(*read.session, 0);
      // The prompt's end is text: the window is, too, as long as it is shorter than the question.
      const int64_t kept = std::max<int64_t>(share, rows.text_rows);
      const bool window_is_text = share / 2 < 5;
      for (size_t i = 0; i < counts.text.size(); ++i) {
        const int64_t slots = counts.text[i] + counts.visual[i];
        CHECK(slots >= kept);
        if (window_is_text) CHECK(slots == kept);
        if (bits == 4) CHECK(counts.text[i] == rows.text_rows);
      }
      CHECK(read.stats.kv_bytes + read.stats.kv_waste_bytes == read.engine->memory().pools.used_bytes());
    }
  }
}

TEST_CASE("look-m keeps to its share where look-m-all-text does not") {
  const Read strict = read_golden(13, evicting_limits(4, 200, "look-m", 0.05f));
  const KeptPrompt& rows = strict.session->cache().kept().rows(0);
  const auto share = static_cast<int64_t>(0.05f * static_cast<float>(rows.rows));
  CHECK(share < rows.text_rows);
  CHECK(all_are(kept_counts(*strict.session, 0).text, share));
}

TEST_CASE("the ranking and the merging of Elastic Cache change what is read, and not how much" *
          doctest::test_suite("long")) {
  std::vector<uint64_t> hashes;
  for (const std::string_view method :
       {"elastic-prefill", "elastic-repo", "elastic-derope-prefill", "elastic-prefill:merge=none",
        "elastic-prefill:ranking=head", "elastic-prefill:metric=mean", "elastic-prefill:metric=moving-average",
        "elastic-prefill:ranking=shared", "elastic-prefill:merge=clusters",
        "elastic-prefill:merge=clusters,ranking=shared"}) {
    CAPTURE(method);
    ocellus_limits limits = evicting_limits(4, 200, method, 0.3f);
    limits.cache.compress_at = OCELLUS_COMPRESS_BEFORE_SUFFIX;
    const Read read = read_golden(13, limits);
    const KeptPrompt& rows = read.session->cache().kept().rows(0);
    const int64_t centres = method.find("clusters") != std::string_view::npos ? 10 : 0;
    CHECK(all_are(kept_counts(*read.session, 0).text,
                  static_cast<int64_t>(0.3f * static_cast<float>(rows.rows)) + centres));
    CHECK(read.stats.kv_bytes + read.stats.kv_waste_bytes == read.engine->memory().pools.used_bytes());
    hashes.push_back(read.stats.logits_hash);
  }
  std::sort(hashes.begin(), hashes.end());
  CHECK(std::unique(hashes.begin(), hashes.end()) == hashes.end());
}

TEST_CASE("random eviction keeps its share, the same tokens for the same seed and others for another") {
  std::vector<uint64_t> hashes;
  for (const std::string_view method : {"random", "random:seed=0", "random:seed=1", "snapkv"}) {
    const Read read = read_golden(13, evicting_limits(4, 200, method, 0.3f));
    const KeptPrompt& rows = read.session->cache().kept().rows(0);
    CHECK(all_are(kept_counts(*read.session, 0).text, static_cast<int64_t>(0.3f * static_cast<float>(rows.rows))));
    hashes.push_back(read.stats.logits_hash);
  }
  CHECK(hashes[0] == hashes[1]);
  CHECK(hashes[0] != hashes[2]);
  CHECK(hashes[0] != hashes[3]);
}

TEST_CASE("CSP keeps its share, and the share of attention between modalities decides which" *
          doctest::test_suite("long")) {
  std::vector<uint64_t> hashes;
  for (const float cross : {0.0f, 0.5f, 1.0f}) {
    ocellus_limits limits = evicting_limits(4, 200, "csp", 0.25f);
    limits.cache.compress_at = OCELLUS_COMPRESS_BEFORE_SUFFIX;
    test::add_option(limits.cache.evict, "cross=" + std::to_string(cross));
    const Read read = read_golden(13, limits);
    const KeptPrompt& rows = read.session->cache().kept().rows(0);
    CHECK(all_are(kept_counts(*read.session, 0).text, rows.rows / 4));
    hashes.push_back(read.stats.logits_hash);
  }
  std::sort(hashes.begin(), hashes.end());
  CHECK(std::unique(hashes.begin(), hashes.end()) == hashes.end());
}

TEST_CASE("every way of eviction works where images are cut down one by one, but the late ones refuse") {
  for (const std::string_view method : {"look-m-all-text", "elastic-repo", "elastic-derope-prefill", "csp", "random",
                                        "elastic-prefill:merge=clusters,ranking=shared"}) {
    const Read read = read_golden(13, evicting_limits(4, 200, method, 0.5f, 16, OCELLUS_COMPRESS_IMAGE_END));
    const int64_t centres = method.find("clusters") != std::string_view::npos ? 10 : 0;
    const int64_t slots = read.images * (kImageSlots / 2 + centres) + read.session->cache().text_slots();
    CHECK(read.stats.kv_bytes == slots * read.engine->shape().kv.slot_bytes());
  }
  for (const std::string_view method : {"vl-cache", "meda"}) {
    ocellus_plan plan;
    const ocellus_limits by_image = evicting_limits(4, 200, method, 0.5f, 16, OCELLUS_COMPRESS_IMAGE_END);
    CHECK(plan_memory(test::bundled_model(), by_image, &plan).code() == Code::kBadArgument);
    CHECK(std::string(last_failure().sentence).find("image by image") != std::string::npos);
  }
}

TEST_CASE("layers of the late methods keep different numbers of slots, and pages behind the most are given back" *
          doctest::test_suite("long")) {
  for (const std::string_view method : {"vl-cache", "meda"}) {
    CAPTURE(method);
    const Read read = read_golden(13, evicting_limits(4, 200, method, 0.3f));
    Engine& engine = *read.engine;
    const KvShape& shape = engine.shape().kv;
    const KeptPrompt& rows = read.session->cache().kept().rows(0);
    const KeptCounts counts = kept_counts(*read.session, 0);
    int32_t most = 0, least = rows.rows;
    int64_t all = 0;
    for (int32_t layer = 0; layer < shape.layer_count; ++layer) {
      const int32_t* of_layer = counts.text.data() + int64_t{layer} * shape.kv_heads;
      CHECK(std::all_of(of_layer, of_layer + shape.kv_heads, [&](int32_t count) { return count == *of_layer; }));
      most = std::max(most, *of_layer);
      least = std::min(least, *of_layer);
      all += *of_layer;
    }
    CHECK(least < most);
    CHECK(rows.text == most);
    CHECK(most < rows.rows);
    // VL-Cache's shares add up; MEDA's window holds all text.
    if (method == "vl-cache") {
      CHECK(all <= static_cast<int64_t>(0.3f * static_cast<float>(rows.rows * shape.layer_count)));
      CHECK(all > static_cast<int64_t>(0.28f * static_cast<float>(rows.rows * shape.layer_count)));
    } else {
      CHECK(least >= rows.text_rows);
    }
    const int64_t said = read.session->cache().text_slots();
    const int64_t pages = blocks_of(most, kPageSlots) + blocks_of(said, kPageSlots);
    CHECK(engine.memory().pools.used_bytes() == pages * shape.page_bytes());
    CHECK(read.stats.kv_bytes == all * shape.slot_bytes() / shape.layer_count + said * shape.slot_bytes());
    CHECK(read.stats.kv_bytes + read.stats.kv_waste_bytes == engine.memory().pools.used_bytes());
    read.session->reset();
    CHECK(engine.memory().pools.used_bytes() == 0);
    const test::Answer again = test::answer_golden(*read.session, 13);
    CHECK(again.stats.logits_hash == read.stats.logits_hash);
  }
}

TEST_CASE("the late methods answer with the first token of exact attention, however many rows are read at once" *
          doctest::test_suite("long")) {
  for (const std::string_view method : {"vl-cache", "meda"}) {
    for (const int32_t prompt_rows : {0, 100}) {
      ocellus_limits limits = evicting_limits(4, 200, method, 0.5f);
      limits.max_prompt_rows = prompt_rows;
      const std::unique_ptr<Engine> engine = make_engine(limits);
      Session& session = open_session(*engine);
      test::add_question(session, test::golden(13));
      const std::vector<float> logits = test::first_logits(session);
      CHECK(session.cache().kept().count() == 1);
      const std::unique_ptr<Engine> exact = make_engine(test::board_limits(4, 200));
      Session& whole = open_session(*exact);
      test::add_question(whole, test::golden(13));
      const std::vector<float> expected = test::first_logits(whole);
      // A GPU multiplies other numbers of rows in another order.
      const double difference = test::relative_error(logits.data(), expected);
      CHECK(difference <= (cuda_device_count() > 0 ? 1e-2 : 0.0));
    }
  }
}

TEST_CASE("every method chooses among all rows of a prompt, however many are read at once" *
          doctest::test_suite("long")) {
  for (const std::string_view method : kMethods) {
    CAPTURE(method);
    uint64_t first_hash = 0;
    for (const int32_t prompt_rows : {0, 200, 100, 1}) {
      CAPTURE(prompt_rows);
      ocellus_limits limits = evicting_limits(4, 200, method, 0.3f, 16, OCELLUS_COMPRESS_BEFORE_SUFFIX);
      limits.max_prompt_rows = prompt_rows;
      const std::unique_ptr<Engine> engine = make_engine(limits);
      Session& session = open_session(*engine);
      const test::Answer answer = test::answer_golden(session, 13);
      CHECK(session.cache().kept().count() == 1);
      CHECK(answer.stats.kv_bytes > 0);
      if (cuda_device_count() > 0) continue;  // its rounding depends on the number of rows
      if (prompt_rows == 0) first_hash = answer.stats.logits_hash;
      CHECK(answer.stats.logits_hash == first_hash);
    }
  }
}

TEST_CASE("VL-Cache looks from the rows behind the last image, MEDA from all, and a layer's slots are its share") {
  const ChunkFacts facts{.rows = 500, .visual_rows = 400, .image_end = 470};
  const RowRule& vl_cache = vl_cache_rule();
  const RowRule& meda = meda_rule();
  CHECK(vl_cache.observed_rows(1, facts) == 30);
  CHECK(vl_cache.observed_rows(1, {.rows = 500, .visual_rows = 400, .image_end = 500}) == 1);
  CHECK(vl_cache.observed_rows(1, {.rows = 500, .visual_rows = 0}) == 500);
  CHECK(meda.observed_rows(1, facts) == 500);
  CachePolicy policy;
  for (const double share : {0.001, 0.01, 0.2, 0.7, 1.0}) {
    CAPTURE(share);
    const auto kept = std::max<int64_t>(1, static_cast<int64_t>(share * 500));
    const Survivors strict = survivors_of_layer(vl_cache, policy, facts, share);
    CHECK(strict.slots() == kept);
    CHECK(strict.window == std::max<int64_t>(1, kept / 10));
    // Half are the best, and the other half grows until it holds as many rows as there is text.
    const Survivors wide = survivors_of_layer(meda, policy, facts, share);
    CHECK(wide.window == std::max<int64_t>(std::max<int64_t>(1, kept / 2), 100));
    CHECK(wide.budget == std::min<int64_t>(kept - std::max<int64_t>(1, kept / 2), 500 - wide.window));
  }
  policy.window = 7;
  CHECK(survivors_of_layer(meda, policy, facts, 0.2).window == 7);
  CHECK(survivors_of_layer(vl_cache, policy, facts, 0.2).window == 7);
}

TEST_CASE("without pictures all text stays where it comes first or fills the window, and VL-Cache shares it out") {
  for (const std::string_view method : {"look-m-all-text", "meda", "vl-cache"}) {
    const std::unique_ptr<Engine> engine = make_engine(evicting_limits(0, 400, method, 0.25f));
    Session& session = open_session(*engine);
    std::vector<TokenId> tokens(300);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(280 + i * 37 % 200);
    REQUIRE(session.add_tokens(tokens.data(), std::ssize(tokens)).ok());
    REQUIRE(test::answer_of(session, test::default_params(4)).status.ok());
    REQUIRE(session.cache().kept().count() == 1);
    const std::vector<int32_t> counts = kept_counts(session, 0).text;
    CHECK(all_are(counts, 300) == (method != "vl-cache"));
    const int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    const auto share = static_cast<int64_t>(75 * counts.size());
    if (method == "vl-cache") CHECK((sum <= share && sum > share * 9 / 10));
  }
}

TEST_CASE("a lean engine keeps what another one keeps, and answers alike" * doctest::test_suite("long")) {
  for (const std::string_view method : kMethods) {
    CAPTURE(method);
    ocellus_limits limits = evicting_limits(4, 200, method, 0.4f, 16, OCELLUS_COMPRESS_BEFORE_SUFFIX);
    const Read usual = read_golden(13, limits);
    limits.lean = 1;
    const Read lean = read_golden(13, limits);
    if (lean.session->engine().queue().on_cuda()) {  // other blocks of rows round differently there
      CHECK(std::abs(lean.stats.kv_bytes - usual.stats.kv_bytes) <= usual.stats.kv_bytes / 50);
      continue;
    }
    CHECK(lean.text == usual.text);
    CHECK(kept_counts(*lean.session, 0).text == kept_counts(*usual.session, 0).text);
    CHECK(lean.stats.kv_bytes == usual.stats.kv_bytes);
  }
}

TEST_CASE("a long prompt takes exactly the scratch that is planned for its method" * doctest::test_suite("long")) {
  for (const std::string_view method : kMethods) {
    CAPTURE(method);
    ocellus_limits limits = evicting_limits(0, 900, method, 0.2f);
    ocellus_plan plan;
    REQUIRE(plan_memory(test::bundled_model(), limits, &plan).ok());
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
    Session& session = open_session(*engine);
    const std::vector<TokenId> tokens(850, 297);
    REQUIRE(session.add_tokens(tokens.data(), std::ssize(tokens)).ok());
    REQUIRE(test::answer_of(session, test::default_params(20)).status.ok());
    ocellus_engine_stats stats;
    engine->describe(&stats);
    CHECK(stats.arena_bytes == plan.total_bytes);
    CHECK(stats.scratch_high_water_bytes == plan.scratch_bytes);
    CHECK(stats.session_high_water_bytes <= plan.session_bytes);
  }
}

TEST_CASE("a plan that does not fit gives advice that does, whatever the method") {
  for (const std::string_view method : kMethods) {
    CAPTURE(method);
    ocellus_limits limits = evicting_limits(4, 300, method, 0.5f);
    ocellus_plan plan;
    REQUIRE(plan_memory(test::bundled_model(), limits, &plan).ok());
    limits.budget_bytes = plan.total_bytes - 100000;
    REQUIRE(plan_memory(test::bundled_model(), limits, &plan).ok());
    CHECK(plan.fits == 0);
    CHECK(plan.advice_count > 0);
  }
}

TEST_CASE("VL-Cache and MEDA keep the same rows packed as in 16 bits, and are planned with packed pictures" *
          doctest::test_suite("long")) {
  for (const std::string_view method : {"vl-cache", "meda"}) {
    CAPTURE(method);
    ocellus_limits limits = evicting_limits(4, 200, method, 0.3f);
    ocellus_plan plain_plan, packed_plan;
    REQUIRE(plan_memory(test::bundled_model(), limits, &plain_plan).ok());
    const Read plain = read_golden(13, limits);
    limits.cache.kv_bits = 2;
    REQUIRE(plan_memory(test::bundled_model(), limits, &packed_plan).ok());
    CHECK(packed_plan.kv_bytes_per_session < plain_plan.kv_bytes_per_session * 2 / 3);  // much of it is text
    const Read packed = read_golden(13, limits);
    CHECK(packed.stats.kv_bytes < plain.stats.kv_bytes);
    const KeptCounts all = kept_counts(*plain.session, 0), split = kept_counts(*packed.session, 0);
    REQUIRE(all.text.size() == split.text.size());
    int32_t visual = 0;
    for (size_t i = 0; i < all.text.size(); ++i) {
      CHECK(all.text[i] == split.text[i] + split.visual[i]);
      visual += split.visual[i];
    }
    CHECK(visual > 0);
    if (!packed.session->engine().queue().on_cuda())  // the first token comes from exact attention
      CHECK(packed.text.substr(0, 1) == plain.text.substr(0, 1));
    // Blocks that hold nothing in any layer were given back.
    const SessionCache& cache = packed.session->cache();
    const int64_t taken = packed.session->engine().memory().pools.blocks.taken_count();
    CHECK(taken == cache.kept().blocks(0));
    CHECK(cache.kept().rows(0).visual == *std::max_element(split.visual.begin(), split.visual.end()));
  }
}

}  // namespace ocellus
