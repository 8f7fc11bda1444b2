// Rolling contexts whose pictures are linked, or evicted with their prompts: what is released with them.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "runtime/branches/roll/roll.h"
#include "tests/support/cache_texts.h"
#include "tests/support/packed_sessions.h"
#include "tests/support/tiled_pictures.h"

namespace ocellus {
namespace {

TEST_CASE("a rolling context releases linked pictures with their holes, and reads the others as before") {
  const test::Pair pair(test::TextRecipe{.kv_heads = 2, .head_dim = 32}, test::VisionRecipe{});
  const test::TestPicture picture(32, 32);
  for (const ocellus_reuse reuse : {OCELLUS_REUSE_MPIC, OCELLUS_REUSE_SPREAD, OCELLUS_REUSE_CARRY, OCELLUS_REUSE_FULL,
                                    OCELLUS_REUSE_TILES, OCELLUS_REUSE_BLEND}) {
    CAPTURE(reuse);
    ocellus_limits limits = test::board_limits(3, 100);
    limits.reuse = reuse;
    limits.reuse_rows = reuse == OCELLUS_REUSE_BLEND ? 50 : 2;
    const std::unique_ptr<Engine> engine = test::make_engine(pair.model, limits);
    const test::FreeBlocks before(*engine);
    Session& session = test::open_session(*engine);
    REQUIRE_MESSAGE(set_rolling(session, 3, 16).ok(), last_failure().sentence);
    const SessionCache& cache = session.cache();
    std::vector<int64_t> expected;  // slots of each picture that are read, the oldest first
    for (uint64_t turn = 0; turn < 12; ++turn) {
      CAPTURE(turn);
      REQUIRE_MESSAGE(session.add_frame(picture.frame()).ok(), last_failure().sentence);
      REQUIRE(session.add_text("What is it?", false).ok());
      const int64_t others =
          std::accumulate(expected.end() - std::min<int64_t>(2, std::ssize(expected)), expected.end(), int64_t{0});
      const test::Answer answer = test::answer_of(session, test::default_params(3));
      REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
      CHECK(cache.image_count() == std::min<int32_t>(static_cast<int32_t>(turn) + 1, 3));
      CHECK(cache.text_slots() <= engine->shape().session.pages * kPageSlots);
      std::vector<KvRun> runs(100);
      const int64_t count = cache.list_live({}, runs.data());
      int64_t live = -cache.text_slots();
      for (int64_t i = 0; i < count; ++i) live += runs[static_cast<size_t>(i)].slots;
      expected.push_back(live - others);
      CHECK(expected.back() > 0);
      CHECK(expected.back() <= 4);
    }
    session.reset();
    CHECK(test::FreeBlocks(*engine) == before);
  }
}

TEST_CASE("a rolling context of evicted prompts releases the oldest as a whole, and keeps its beginning") {
  const test::Pair pair(test::TextRecipe{.kv_heads = 2, .head_dim = 32, .context_length = 160}, test::VisionRecipe{});
  const test::TestPicture picture(32, 32);
  for (const int32_t bits : {16, 4}) {
    CAPTURE(bits);
    ocellus_limits limits = test::board_limits(3, 120);
    test::set_text(limits.cache.evict, "snapkv");
    limits.cache.keep = 0.5f;
    limits.cache.kv_bits = bits;
    const std::unique_ptr<Engine> engine = test::make_engine(pair.model, limits);
    Session& session = test::open_session(*engine);
    REQUIRE_MESSAGE(set_rolling(session, 2, 16).ok(), last_failure().sentence);
    const SessionCache& cache = session.cache();
    const std::vector<TokenId> beginning(20, 1), question(5, 2);
    const auto tell = [&](const std::vector<TokenId>& before, int32_t pictures) {
      REQUIRE(session.add_tokens(before.data(), std::ssize(before)).ok());
      for (int32_t i = 0; i < pictures; ++i) REQUIRE(session.add_frame(picture.frame()).ok());
      REQUIRE(session.add_tokens(question.data(), std::ssize(question)).ok());
      REQUIRE_MESSAGE(test::answer_of(session, test::default_params(3)).status.ok(), last_failure().sentence);
    };
    tell(beginning, 2);
    const KeptPrompt first = cache.kept().rows(0);
    CHECK(cache.text_slots() >= 20);  // which competes with no picture
    CHECK(first.images == 2);
    tell(question, 1);
    REQUIRE(cache.kept().count() == 1);  // the two pictures went together
    CHECK(cache.image_count() == 1);
    CHECK(cache.kept().rows(0).rows == (first.rows - 5) / 2 + 5);  // the text before it was read to make room
    for (int32_t turn = 0; turn < 8; ++turn) {
      tell(question, 1);
      CHECK(cache.image_count() == 2);
      CHECK(cache.kept().count() == 2);
      CHECK(cache.kept().rows(0).position < cache.kept().rows(1).position);
      CHECK(cache.text_rows() <= 120);
    }
    session.reset();
    CHECK(engine->memory().pools.used_bytes() == 0);
  }
}

}  // namespace
}  // namespace ocellus
