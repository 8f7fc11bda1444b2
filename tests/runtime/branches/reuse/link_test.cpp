// Images that are read alone and linked into prompts (MPIC). What their rows give is in tiling_test.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "runtime/engine/memory_plan.h"
#include "tests/support/cache_texts.h"
#include "tests/support/packed_sessions.h"

namespace ocellus {
namespace {

using test::Answer;
using test::answer_golden;
using test::board_limits;
using test::default_params;
using test::FreeBlocks;
using test::golden;
using test::make_engine;
using test::open_session;

constexpr int64_t kImageSlots = 64, kSlotBytes = 4 * 8 * 4 * 64;  // the bundled model's

ocellus_limits linking_limits(int32_t images, int32_t text_tokens, int32_t rows, int32_t bits = 16) {
  ocellus_limits limits = test::packed_limits(images, text_tokens, bits);
  limits.reuse = OCELLUS_REUSE_MPIC;
  limits.reuse_rows = rows;
  return limits;
}

}  // namespace

TEST_CASE("images whose rows are all read in place give the logits of images that are not linked, bit for bit" *
          doctest::test_suite("long")) {
  const auto make = [](ocellus_limits limits) {
    limits.max_encode_views = 1;  // as linked images are encoded: on a GPU a batch of views has other bits than one
    return make_engine(limits);
  };
  const std::unique_ptr<Engine> plain_engine = make(board_limits(4, 200));
  const std::unique_ptr<Engine> engine = make(linking_limits(4, 200, -1));
  ocellus_limits above_all = linking_limits(4, 200, 1000);
  above_all.reuse = OCELLUS_REUSE_CARRY;
  const std::unique_ptr<Engine> more_engine = make(above_all);
  ocellus_limits all_changed = linking_limits(4, 200, 100);
  all_changed.reuse = OCELLUS_REUSE_BLEND;
  const std::unique_ptr<Engine> blending_engine = make(all_changed);
  for (const int id : {0, 1, 12, 13}) {
    CAPTURE(id);
    Session &plain = open_session(*plain_engine), &session = open_session(*engine), &more = open_session(*more_engine),
            &blending = open_session(*blending_engine);
    for (Session* each : {&plain, &session, &more, &blending}) test::add_question(*each, golden(id));
    const std::vector<float> expected = test::first_logits(plain);
    CHECK(test::first_logits(session) == expected);
    CHECK(test::first_logits(more) == expected);
    CHECK(test::first_logits(blending) == expected);
    CHECK(session.next_position() == plain.next_position());
    CHECK(session.cache().rows() == plain.cache().rows());
    for (Session* each : {&plain, &session, &more, &blending}) each->close();
  }
}

TEST_CASE("linked images take the bytes of their slots, and rows in place those of text" *
          doctest::test_suite("long")) {
  for (const auto& [rows, bits] : {std::pair{0, 16}, {16, 16}, {0, 2}, {10, 4}, {64, 8}}) {
    CAPTURE(rows);
    CAPTURE(bits);
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(linking_limits(4, 200, rows, bits));
    Session& session = open_session(*engine);
    for (const int id : {1, 12}) {
      session.reset();
      const ocellus_generate_stats stats = answer_golden(session, id).stats;
      const int64_t images = std::ssize(golden(id).images), linked = images * (kImageSlots - rows);
      CHECK(session.cache().image_count() == images);
      CHECK(session.cache().rows() == session.next_position());
      const int64_t text = session.next_position() - linked;
      CHECK(session.cache().text_slots() == text);
      CHECK(stats.kv_bytes == text * kSlotBytes + linked * kSlotBytes * bits / 16 + stats.kv_scale_bytes);
      CHECK(stats.kv_bytes + stats.kv_waste_bytes == engine->memory().pools.used_bytes());
      CHECK(stats.image_tokens == images * kImageSlots);
    }
  }
}

TEST_CASE("of all images of a prompt together the planned percentage of rows is read in place" *
          doctest::test_suite("long")) {
  for (const int percent : {0, 1, 15, 50}) {
    CAPTURE(percent);
    ocellus_limits limits = linking_limits(4, 200, percent);
    limits.reuse = OCELLUS_REUSE_BLEND;
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
    const FreeBlocks all(*engine);
    Session& session = open_session(*engine);
    const ocellus_generate_stats stats = answer_golden(session, 13).stats;
    const int64_t rows = 4 * kImageSlots * percent / 100;
    const int64_t text = session.next_position() - 4 * kImageSlots + rows;
    CHECK(session.cache().text_slots() == text);
    CHECK(session.cache().rows() == session.next_position());
    CHECK(stats.kv_bytes == session.next_position() * kSlotBytes);
    CHECK(stats.image_tokens == 4 * kImageSlots);
    session.reset();
    CHECK(FreeBlocks(*engine) == all);
    answer_golden(session, 12, 4);  // two turns would need more images than are planned
    CHECK(session.begin_turn().ok());
    CHECK(test::add_board(session, "images/115.png").code() == Code::kFull);
  }
}

TEST_CASE("an image is linked alike in every prompt and at every place") {
  const std::unique_ptr<Engine> engine = make_engine(linking_limits(4, 300, 4, 2));
  const auto block_of = [&](Session& session, int32_t ordinal) {
    const KvRun run = session.cache().image_block(ordinal, 0);
    return test::download<uint8_t>(run.data, engine->shape().kv.block_bytes(), engine->queue());
  };
  Session& session = open_session(*engine);
  REQUIRE(test::add_turn(session, "<image>What is on the left?", {"images/115.png"}).ok());
  REQUIRE(test::answer_of(session, default_params(4)).status.ok());
  const std::vector<uint8_t> first = block_of(session, 0);
  const std::vector<std::string> images = {"images/113.png", "images/115.png", "images/115.png"};
  REQUIRE(test::add_turn(session, "One: <image> Two: <image> Three: <image>Which are alike?", images).ok());
  REQUIRE(test::answer_of(session, default_params(4)).status.ok());
  CHECK(session.cache().image_count() == 4);
  CHECK(block_of(session, 1) != first);
  CHECK(block_of(session, 2) == first);
  CHECK(block_of(session, 3) == first);
}

TEST_CASE("planned images can be linked in whatever prompts they come, and text until nothing fits" *
          doctest::test_suite("long")) {
  for (const auto& [rows, chunk_rows] : {std::pair{0, 0}, {16, 0}, {16, 1}, {-1, 0}}) {
    CAPTURE(rows);
    CAPTURE(chunk_rows);
    ocellus_limits limits = linking_limits(4, 200, rows);
    limits.max_prompt_rows = chunk_rows;
    const std::unique_ptr<Engine> engine = make_engine(limits);
    const FreeBlocks all(*engine);
    Session& session = open_session(*engine);
    answer_golden(session, 13, 4);
    CHECK(session.cache().image_count() == 4);
    session.reset();
    CHECK(FreeBlocks(*engine) == all);
    ocellus_generate_params params = default_params(1 << 20);
    params.ignore_end = 1;
    for (int i = 0; i < 4; ++i) answer_golden(session, i == 3 ? 3 : 1, 4);
    CHECK(session.begin_turn().ok());
    CHECK(test::add_board(session, "images/115.png").code() == Code::kFull);
    CHECK(test::answer_of(session, params).stats.stop == OCELLUS_STOP_FULL);
    session.close();
    CHECK(FreeBlocks(*engine) == all);
  }
}

TEST_CASE("linked images of a prompt that is not read are given back, and the conversation goes on") {
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(linking_limits(3, 200, 8));
  Session& session = open_session(*engine);
  REQUIRE(test::add_turn(session, "<image>What is on the left?", {"images/115.png"}).ok());
  const std::string expected = test::answer_of(session, default_params(8)).text;
  const FreeBlocks before(*engine);
  test::cancel_turns(session, [&] { CHECK(FreeBlocks(*engine) == before); });
  std::vector<uint8_t> damaged = test::board_bytes("images/113.png");
  damaged.resize(damaged.size() / 2);
  REQUIRE(session.begin_turn().ok());
  CHECK(session.add_encoded_image(damaged.data(), std::ssize(damaged)).code() == Code::kBadImage);
  REQUIRE(session.add_text("What is on the left?", false).ok());
  REQUIRE(session.end_turn().ok());
  CHECK(test::answer_of(session, default_params(8)).text == expected);
  CHECK(session.cache().image_count() == 1);
}

TEST_CASE("pictures of a session that links none are read as without reuse, bit for bit" *
          doctest::test_suite("long")) {
  struct Setting {
    ocellus_reuse reuse;
    int32_t bits;
    const char* evict;
  };
  for (const Setting& setting : {Setting{OCELLUS_REUSE_MPIC, 16, ""},
                                 {OCELLUS_REUSE_SPREAD, 2, ""},
                                 {OCELLUS_REUSE_CARRY, 16, ""},
                                 {OCELLUS_REUSE_CARRY, 2, ""},
                                 {OCELLUS_REUSE_BLEND, 16, ""},
                                 {OCELLUS_REUSE_MPIC, 4, "snapkv"}}) {
    CAPTURE(setting.reuse);
    CAPTURE(setting.bits);
    ocellus_limits limits = linking_limits(4, 300, 8, setting.bits);
    limits.reuse = setting.reuse;
    limits.max_encode_views = 1;  // as linked images are encoded
    test::set_text(limits.cache.evict, setting.evict);
    if (setting.evict[0] != 0) limits.cache.keep = 0.5f;
    ocellus_limits plain_limits = limits;
    plain_limits.reuse = OCELLUS_REUSE_NONE;
    plain_limits.reuse_rows = 0;
    const std::unique_ptr<Engine> engine = make_engine(limits), plain_engine = make_engine(plain_limits);
    const FreeBlocks all(*engine);
    Session &session = open_session(*engine), &plain = open_session(*plain_engine);
    session.conversation().links()->set_linking(false);
    for (const int id : {0, 12}) {
      CAPTURE(id);
      const Answer expected = answer_golden(plain, id), answer = answer_golden(session, id);
      CHECK(answer.text == expected.text);
      CHECK(answer.stats.logits_hash == expected.stats.logits_hash);
      CHECK(answer.stats.kv_bytes == expected.stats.kv_bytes);
      plain.reset();
      session.reset();
    }
    CHECK(FreeBlocks(*engine) == all);
    // A prompt that is dropped gives its blocks back; afterwards linked pictures stand beside the others.
    REQUIRE(session.begin_turn().ok());
    REQUIRE(test::add_board(session, "images/115.png").ok());
    session.reset();
    CHECK(FreeBlocks(*engine) == all);
    if (setting.evict[0] != 0) continue;
    REQUIRE(test::add_turn(session, "<image>What is on the left?", {"images/115.png"}).ok());
    REQUIRE(test::answer_of(session, default_params(4)).status.ok());
    session.conversation().links()->set_linking(true);
    REQUIRE(test::add_turn(session, "<image>What is on the left?", {"images/113.png"}).ok());
    REQUIRE(test::answer_of(session, default_params(4)).status.ok());
    CHECK(session.cache().image_count() == 2);
    session.reset();
    CHECK(FreeBlocks(*engine) == all);
  }
}

TEST_CASE("sessions with linked images are decoded together as they are alone") {
  ocellus_limits limits = linking_limits(1, 150, 8, 8);
  limits.max_sessions = 3;
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
  const std::array ids = {0, 1, 5};
  const std::vector<Session*> sessions = {&open_session(*engine), &open_session(*engine), &open_session(*engine)};
  std::vector<Answer> alone;
  for (const int id : ids) {
    sessions[0]->reset();
    alone.push_back(answer_golden(*sessions[0], id, 24));
  }
  sessions[0]->reset();
  for (size_t i = 0; i < 3; ++i) test::add_question(*sessions[i], golden(ids[i]));
  const std::vector<Answer> together = test::batch_answers(sessions, default_params(24));
  for (size_t i = 0; i < 3; ++i) CHECK(together[i].text == alone[i].text);
}

TEST_CASE("what linked images do not go with is refused in one sentence") {
  const auto refused = [](const ocellus_limits& limits, const char* words) {
    ocellus_plan plan;
    const Status status = plan_memory(test::bundled_model(), limits, &plan);
    CHECK(!status.ok());
    CHECK_MESSAGE(std::string(last_failure().sentence).find(words) != std::string::npos, last_failure().sentence);
  };
  ocellus_limits limits = linking_limits(1, 100, 8);
  test::set_text(limits.cache.evict, "snapkv");
  limits.cache.keep = 0.5f;
  limits.cache.compress_at = OCELLUS_COMPRESS_IMAGE_END;
  refused(limits, "so none of it is evicted when it ends");
  limits.cache.compress_at = OCELLUS_COMPRESS_PROMPT_END;
  limits.reuse = OCELLUS_REUSE_FULL;
  refused(limits, "snapkv (evict) ranks rows by their attention, and with full reuse only the last token sees images");
  limits.reuse = OCELLUS_REUSE_PREFIX;
  refused(limits, "prefix caching (reuse) reads an image after all slots before it");
  limits = linking_limits(1, 100, 8, 2);
  limits.reuse = OCELLUS_REUSE_PREFIX;
  for (const char* const scheme : {"kivi", "calibquant"}) {
    test::set_text(limits.cache.kv_scheme, scheme);
    refused(limits, "prefix caching (reuse) reads an image after all slots before it");
  }
  limits = linking_limits(1, 100, 8);
  limits.shared_images = 1;
  test::set_text(limits.cache.evict, "snapkv");
  limits.cache.keep = 0.5f;
  refused(limits, "stored with it, so that sessions cannot share them");
  limits = linking_limits(1, 100, -2);
  refused(limits, "rows of a linked image");
  limits = linking_limits(1, 100, 0);
  limits.reuse = 9;
  refused(limits, "way to reuse images");
  limits = linking_limits(1, 100, 101);
  limits.reuse = OCELLUS_REUSE_BLEND;
  refused(limits, "percentage");
}

}  // namespace ocellus
