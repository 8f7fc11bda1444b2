// Linked images that are packed or evicted with their prompt: staged in f16 until it has been read.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "runtime/engine/memory_plan.h"
#include "tests/support/random.h"
#include "tests/support/shelf.h"
#include "tests/support/small_run.h"
#include "tests/support/tiled_pictures.h"

namespace ocellus {
namespace {

using test::answer_golden;
using test::default_params;
using test::FreeBlocks;
using test::golden;
using test::make_engine;
using test::open_session;

/// The treatment of a prompt's rows.
struct Fate {
  const char* evict;
  float keep;
  int32_t bits;
  const char* scheme;
};

ocellus_limits limits_of(const Fate& fate, int32_t reuse, int32_t rows, int32_t images = 4) {
  ocellus_limits limits =
      test::evicting_limits(images, 200, fate.evict, fate.keep, fate.bits, OCELLUS_COMPRESS_BEFORE_SUFFIX);
  test::set_text(limits.cache.kv_scheme, fate.scheme);
  limits.max_encode_views = 1;  // as linked images are encoded: on a GPU a batch of views has other bits than one
  limits.reuse = reuse;
  limits.reuse_rows = rows;
  return limits;
}

std::vector<float> logits_of(Engine& engine, int id) {
  Session& session = open_session(engine);
  test::add_question(session, golden(id));
  std::vector<float> logits = test::first_logits(session);
  session.close();
  return logits;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  return test::relative_error(a.data(), b);
}

constexpr Fate kFates[] = {{"none", 1, 2, "per-image"},
                           {"none", 1, 4, "kivi"},
                           {"none", 1, 4, "calibquant"},
                           {"snapkv", 0.5f, 16, ""},
                           {"value-window", 0.5f, 2, ""},
                           {"david", 0.3f, 4, "per-image:window=f16"},
                           {"h2o", 0.5f, 16, ""},
                           {"elastic:metric=mean", 0.5f, 16, ""},
                           {"elastic-derope-prefill", 0.4f, 8, ""},
                           {"look-m", 0.4f, 16, ""},
                           {"csp", 0.5f, 2, ""},
                           {"vl-cache", 0.5f, 16, ""},
                           {"meda", 0.5f, 16, ""},
                           {"streaming-llm", 0.5f, 16, ""}};

}  // namespace

TEST_CASE("staged images whose rows are all read in place are packed and evicted as if they were not linked" *
          doctest::test_suite("long")) {
  uint64_t number = 0;
  for (const Fate& fate : kFates) {
    CAPTURE(fate.evict);
    CAPTURE(fate.bits);
    const std::unique_ptr<Engine> plain = make_engine(limits_of(fate, OCELLUS_REUSE_NONE, 0));
    for (const auto& [reuse, rows] : {std::pair{OCELLUS_REUSE_CARRY, -1}, {OCELLUS_REUSE_BLEND, 100}}) {
      if (test::is_slow_run() && number++ % 5 != 0) continue;
      CAPTURE(static_cast<int>(reuse));
      const std::unique_ptr<Engine> engine = make_engine(limits_of(fate, reuse, rows));
      for (const int id : {1, 13}) {
        Session &expected = open_session(*plain), &session = open_session(*engine);
        for (Session* each : {&expected, &session}) test::add_question(*each, golden(id));
        CHECK(test::first_logits(session) == test::first_logits(expected));
        CHECK(session.next_position() == expected.next_position());
        CHECK(session.cache().rows() == expected.cache().rows());
        CHECK(session.cache().text_rows() == expected.cache().text_rows());
        CHECK(session.cache().image_count() == expected.cache().image_count());
        CHECK(session.cache().bytes().resident() == expected.cache().bytes().resident());
        for (Session* each : {&expected, &session}) each->close();
      }
    }
  }
}

TEST_CASE("of linked images as many slots are kept as of images that are read" * doctest::test_suite("long")) {
  uint64_t number = 0;
  for (const Fate& fate : kFates) {
    if (test::is_slow_run() && number++ % 5 != 3) continue;
    CAPTURE(fate.evict);
    CAPTURE(fate.bits);
    const bool is_late = std::string(fate.evict) == "vl-cache" || std::string(fate.evict) == "meda";
    const std::unique_ptr<Engine> plain = make_engine(limits_of(fate, OCELLUS_REUSE_NONE, 0));
    Session& expected = open_session(*plain);
    const auto answer = [](Session& session) {
      ocellus_generate_params params = default_params(6);
      params.ignore_end = 1;
      test::add_question(session, golden(13));
      return test::answer_of(session, params).stats;
    };
    const ocellus_generate_stats read = answer(expected);
    for (const auto& [reuse, rows] : {std::pair{OCELLUS_REUSE_MPIC, 0},
                                      {OCELLUS_REUSE_MPIC, 32},
                                      {OCELLUS_REUSE_SPREAD, 8},
                                      {OCELLUS_REUSE_CARRY, 16},
                                      {OCELLUS_REUSE_BLEND, 15}}) {
      CAPTURE(static_cast<int>(reuse));
      const std::unique_ptr<Engine> engine = make_engine(limits_of(fate, reuse, rows));
      if (!engine->shape().reuse.staged) continue;
      const FreeBlocks all(*engine);
      const int64_t staged = engine->memory().branches.join()->images().pools().blocks.free_count();
      CHECK(staged == 4);
      Session& session = open_session(*engine);
      const ocellus_generate_stats stats = answer(session);
      CHECK(engine->memory().branches.join()->images().pools().blocks.free_count() == staged);
      CHECK(session.cache().rows() == expected.cache().rows());
      CHECK(stats.image_tokens == read.image_tokens);
      CHECK(stats.kv_bytes_full == read.kv_bytes_full);
      if (!is_late) CHECK(session.cache().live_slots() == expected.cache().live_slots());
      session.reset();
      CHECK(FreeBlocks(*engine) == all);
    }
  }
}

TEST_CASE("what is packed after it was linked is near what is not packed") {
  for (const auto& [reuse, rows] : {std::pair{OCELLUS_REUSE_CARRY, 16}, {OCELLUS_REUSE_BLEND, 15}}) {
    CAPTURE(static_cast<int>(reuse));
    const std::unique_ptr<Engine> exact = make_engine(limits_of({"none", 1, 16, ""}, reuse, rows));
    for (const auto& [bits, most] : {std::pair{2, 0.05}, {4, 0.01}, {8, 0.004}}) {
      CAPTURE(bits);
      const std::unique_ptr<Engine> engine = make_engine(limits_of({"none", 1, bits, ""}, reuse, rows));
      CHECK(distance(logits_of(*engine, 13), logits_of(*exact, 13)) < most);
    }
  }
}

TEST_CASE("evicting nearly nothing of linked images is near evicting nothing") {
  for (const int32_t rows : {0, 16}) {
    CAPTURE(rows);
    const std::unique_ptr<Engine> exact = make_engine(limits_of({"none", 1, 16, ""}, OCELLUS_REUSE_CARRY, rows));
    const std::vector<float> expected = logits_of(*exact, 12);
    for (const char* const evict : {"snapkv", "value-window", "h2o-prefill", "csp"}) {
      CAPTURE(evict);
      // Of fewer than a thousand rows one goes.
      const std::unique_ptr<Engine> engine = make_engine(limits_of({evict, 0.999f, 16, ""}, OCELLUS_REUSE_CARRY, rows));
      CHECK(distance(logits_of(*engine, 12), expected) < 0.02);
    }
  }
}

TEST_CASE("entries of an f16 library serve engines that pack or evict linked images, and theirs serve it") {
  test::Shelf shelf;
  const auto make = [](const Fate& fate) {
    ocellus_limits limits = limits_of(fate, OCELLUS_REUSE_CARRY, 8);
    limits.library = 1;
    return make_engine(limits);
  };
  const std::unique_ptr<Engine> exact = make({"none", 1, 16, ""}), packing = make({"none", 1, 2, ""}),
                                evicting = make({"value-window", 0.4f, 2, ""});
  const auto answer = [&](Engine& engine, int32_t hits, int32_t misses) {
    Session& session = test::open_with(engine, shelf, "one");
    const test::Answer said = answer_golden(session, 13, 8);
    test::check_hits(said, hits, misses);
    library_of(session)->outcome();
    library_traffic(engine).finish_writes();
    session.close();
    return said.text;
  };
  const std::string computed = answer(*packing, 0, 4);
  CHECK(answer(*packing, 4, 0) == computed);
  answer(*exact, 4, 0);
  const std::string evicted = answer(*evicting, 4, 0);
  CHECK(answer(*evicting, 4, 0) == evicted);
}

TEST_CASE("staged images of a prompt that is not read are given back, and the conversation goes on") {
  const std::unique_ptr<Engine> engine =
      test::make_bundled_engine(limits_of({"snapkv", 0.5f, 4, ""}, OCELLUS_REUSE_CARRY, 8, 3));
  const auto staged = [&] { return engine->memory().branches.join()->images().pools().blocks.free_count(); };
  Session& session = open_session(*engine);
  REQUIRE(test::add_turn(session, "<image>What is on the left?", {"images/115.png"}).ok());
  REQUIRE(test::answer_of(session, default_params(8)).status.ok());
  const FreeBlocks before(*engine);
  test::cancel_turns(session, [&] {
    CHECK(FreeBlocks(*engine) == before);
    CHECK(staged() == 3);
  });
  std::vector<uint8_t> damaged = test::board_bytes("images/113.png");
  damaged.resize(damaged.size() / 2);
  REQUIRE(session.begin_turn().ok());
  CHECK(session.add_encoded_image(damaged.data(), std::ssize(damaged)).code() == Code::kBadImage);
  CHECK(staged() == 3);
  REQUIRE(test::add_board(session, "images/115.png").ok());
  CHECK(staged() == 2);
  REQUIRE(session.add_text("What is on the left?", false).ok());
  REQUIRE(session.end_turn().ok());
  CHECK(test::answer_of(session, default_params(8)).status.ok());
  CHECK(staged() == 3);
  CHECK(session.cache().image_count() == 2);
}

TEST_CASE("a prompt of nothing but linked images is evicted like others, and goes on") {
  const test::Pair pair(test::ClipRecipe{});  // nothing stands around its pictures
  for (const char* const evict : {"h2o", "value-window", "vl-cache"}) {
    CAPTURE(evict);
    ocellus_limits limits = test::picture_limits(2, 40);
    test::set_text(limits.cache.evict, evict);
    limits.cache.keep = 0.5f;
    limits.max_sessions = 2;
    limits.reuse = OCELLUS_REUSE_MPIC;
    limits.reuse_rows = 0;
    const std::unique_ptr<Engine> engine = test::make_engine(pair.model, limits);
    Session &one = open_session(*engine), &other = open_session(*engine);
    const test::TestPicture picture{40, 40};
    REQUIRE_MESSAGE(one.add_frame(picture.frame()).ok(), last_failure().sentence);
    CHECK(engine->memory().chunk.row_count == 0);
    REQUIRE(other.add_text("more", false).ok());  // now the chunk is the other's
    CHECK(one.cache().rows() == 16);
    CHECK(one.cache().live_slots() == 8);
    REQUIRE_MESSAGE(one.add_text("what is it?", false).ok(), last_failure().sentence);
    for (const float logit : test::first_logits(one)) REQUIRE(std::isfinite(logit));
    one.close();
    other.close();
  }
}

TEST_CASE("random prompts with staged images fill what was planned and give all of it back" *
          doctest::test_suite("long")) {
  constexpr std::array<ocellus_reuse, 4> kReuses = {OCELLUS_REUSE_MPIC, OCELLUS_REUSE_SPREAD, OCELLUS_REUSE_CARRY,
                                                    OCELLUS_REUSE_BLEND};
  const int rounds = test::is_slow_run() ? 3 : 12;
  for (int seed = 0; seed < rounds; ++seed) {
    CAPTURE(seed);
    test::Random random(static_cast<uint64_t>(seed));
    const Fate& fate = kFates[static_cast<size_t>(random.integer(0, static_cast<int64_t>(std::size(kFates)) - 1))];
    CAPTURE(fate.evict);
    ocellus_limits limits = limits_of(fate, kReuses[static_cast<size_t>(random.integer(0, 3))],
                                      static_cast<int32_t>(random.integer(0, 70)), 3);
    limits.max_sessions = 2;
    limits.max_prompt_rows = static_cast<int32_t>(random.integer(0, 1) * 90);
    const std::unique_ptr<Engine> engine = make_engine(limits);
    const FreeBlocks all(*engine);
    Session* sessions[] = {&open_session(*engine), &open_session(*engine)};
    for (int step = 0; step < 24; ++step) {
      Session& session = *sessions[random.integer(0, 1)];
      Status status;
      switch (random.integer(0, 4)) {
        case 0: status = session.add_text("A few words, and then more. ", false); break;
        case 1:
        case 2: status = test::add_board(session, "images/115.png"); break;
        case 3: status = test::answer_of(session, default_params(3)).status; break;
        default: session.reset();
      }
      CHECK_MESSAGE((status.ok() || status.code() == Code::kFull || status.code() == Code::kBadArgument),
                    last_failure().sentence);
    }
    for (Session* session : sessions) session->close();
    CHECK(FreeBlocks(*engine) == all);
    CHECK(engine->memory().branches.join()->images().pools().blocks.free_count() == 3);
  }
}

}  // namespace ocellus
