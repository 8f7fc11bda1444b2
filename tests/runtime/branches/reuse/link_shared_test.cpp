// Images that several sessions link: held once, read by all of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/branches/roll/roll.h"
#include "runtime/engine/memory_plan.h"
#include "tests/support/packed_sessions.h"
#include "tests/support/small_run.h"

namespace ocellus {
namespace {

using test::add_turn;
using test::Answer;
using test::answer_golden;
using test::default_params;
using test::make_engine;
using test::open_session;

ocellus_limits sharing_limits(int32_t sessions, int32_t images, int32_t shared, int32_t reuse = OCELLUS_REUSE_MPIC,
                              int32_t rows = 16, int32_t bits = 16) {
  ocellus_limits limits = test::packed_limits(images, 200, bits);
  limits.max_sessions = sessions;
  limits.reuse = reuse;
  limits.reuse_rows = rows;
  limits.shared_images = shared;
  return limits;
}

/// The first `count` pictures of the test boards.
std::vector<std::string> boards(size_t count) {
  std::vector<std::string> images;
  for (const auto& file : std::filesystem::directory_iterator(test::kShapeboardDir + "images"))
    images.push_back("images/" + file.path().filename().string());
  std::sort(images.begin(), images.end());
  REQUIRE(images.size() >= count);
  images.resize(count);
  return images;
}

ocellus_engine_stats stats_of(const Engine& engine) {
  ocellus_engine_stats stats = {};
  engine.describe(&stats);
  return stats;
}

int64_t planned_bytes(const ocellus_plan& plan, const char* name) {
  for (int32_t i = 0; i < plan.row_count; ++i)
    if (std::strcmp(plan.rows[i].name, name) == 0) return plan.rows[i].bytes;
  return 0;
}

ocellus_plan plan_of(const ocellus_limits& limits) {
  ocellus_plan plan;
  REQUIRE_MESSAGE(plan_memory(test::any_model(), limits, &plan).ok(), last_failure().sentence);
  return plan;
}

Status add_all(Session& session, const std::vector<std::string>& images) {
  std::string prompt;
  for (size_t i = 0; i < images.size(); ++i) prompt += "<image>";
  return add_turn(session, prompt + "What is on the left?", images);
}

Answer ask(Session& session, const std::vector<std::string>& images, int32_t tokens = 6) {
  REQUIRE_MESSAGE(add_all(session, images).ok(), last_failure().sentence);
  return test::answer_of(session, default_params(tokens));
}

/// Checks the image that the session would link next.
void check_found(Session& session, const std::string& image, bool is_found) {
  CAPTURE(image);
  session.reset();
  CHECK(ask(session, {image}, 1).stats.shared_image_hits == (is_found ? 1 : 0));
  session.reset();
}

}  // namespace

TEST_CASE("sixteen sessions that link the same ten pictures hold them once, by the plan and on the device") {
  const ocellus_limits limits = sharing_limits(16, 10, 10, OCELLUS_REUSE_MPIC, 4);
  ocellus_limits apart = limits;
  apart.shared_images = 0;
  const ocellus_plan plan = plan_of(limits), copies = plan_of(apart);
  const int64_t image = plan.kv_bytes_per_image;
  CHECK(planned_bytes(plan, "kv shared images") == 10 * image);
  CHECK(planned_bytes(copies, "kv image blocks") == 160 * image);
  CHECK(plan.kv_bytes_shared == 10 * image);
  CHECK(copies.kv_bytes_shared == 0);
  CHECK(copies.kv_bytes_per_session - plan.kv_bytes_per_session == 10 * image);
  CHECK(copies.total_bytes - plan.total_bytes > 149 * image);

  const std::unique_ptr<Engine> engine = make_engine(limits);
  CHECK(stats_of(*engine).arena_bytes == plan.total_bytes);
  const std::vector<std::string> images = boards(10);
  std::vector<Session*> sessions;
  const BlockPool& blocks = engine->memory().pools.blocks;
  for (int32_t i = 0; i < 16; ++i) {
    sessions.push_back(&open_session(*engine));
    const Answer answer = ask(*sessions.back(), images, 1);
    CHECK(answer.stats.shared_image_hits == (i == 0 ? 0 : 10));
    CHECK(answer.stats.kv_shared_bytes == 10 * image * (64 - 4) / 64);  // of 64 rows 4 stand among the text
    CHECK(blocks.taken_count() * blocks.block_bytes() == 10 * image);
  }
  const ocellus_engine_stats stats = stats_of(*engine);
  CHECK(stats.shared_images_held == 10);
  CHECK(stats.shared_images_used == 10);
  CHECK(stats.shared_image_links == 160);
  CHECK(stats.shared_image_hits == 150);
  CHECK(stats.shared_bytes_used == 10 * image);
  CHECK(stats.shared_bytes_saved == 150 * image);
  for (Session* session : sessions) session->reset();
  CHECK(stats_of(*engine).shared_images_held == 10);
  CHECK(stats_of(*engine).shared_images_used == 0);
  CHECK(stats_of(*engine).shared_image_links == 0);
}

TEST_CASE("a session answers alike whether its pictures are its own, computed to be shared or shared already") {
  struct Setting {
    int32_t reuse, rows, bits;
  };
  int32_t number = 0;
  for (const auto& [reuse, rows, bits] : {Setting{OCELLUS_REUSE_MPIC, 16, 16},
                                          {OCELLUS_REUSE_MPIC, -1, 16},
                                          {OCELLUS_REUSE_MPIC, 5, 2},
                                          {OCELLUS_REUSE_SPREAD, 8, 4},
                                          {OCELLUS_REUSE_FULL, 0, 16},
                                          {OCELLUS_REUSE_TILES, 3, 16},
                                          {OCELLUS_REUSE_PREFIX, 0, 8},
                                          {OCELLUS_REUSE_BLEND, 15, 16}}) {
    if (number++ % 3 > 0 && test::is_slow_run()) continue;
    CAPTURE(reuse);
    CAPTURE(bits);
    const std::unique_ptr<Engine> apart = make_engine(sharing_limits(1, 4, 0, reuse, rows, bits));
    const Answer own = answer_golden(open_session(*apart), 13, 24);
    CHECK(own.stats.kv_shared_bytes == 0);
    const std::unique_ptr<Engine> engine = make_engine(sharing_limits(3, 4, 4, reuse, rows, bits));
    Session &first = open_session(*engine), &second = open_session(*engine), &third = open_session(*engine);
    const Answer computed = answer_golden(first, 13, 24);
    test::check_equal(computed, own);
    CHECK(computed.stats.kv_bytes == own.stats.kv_bytes);
    const Answer shared = answer_golden(second, 13, 24);
    CHECK(shared.stats.shared_image_hits == 4);
    CHECK(shared.stats.encode_ms == 0);
    test::check_equal(shared, own);
    // Others may end, and the pictures stay where they are.
    first.reset();
    second.reset();
    const Answer again = answer_golden(third, 13, 24);
    CHECK(again.stats.shared_image_hits == 4);
    test::check_equal(again, shared);
  }
}

TEST_CASE("pictures of another place in another prompt are shared, except by prefix caching") {
  for (const int32_t reuse : {OCELLUS_REUSE_MPIC, OCELLUS_REUSE_PREFIX}) {
    CAPTURE(reuse);
    const std::unique_ptr<Engine> engine = make_engine(sharing_limits(2, 3, 6, reuse));
    const std::unique_ptr<Engine> apart = make_engine(sharing_limits(1, 3, 0, reuse));
    Session &first = open_session(*engine), &second = open_session(*engine);
    const std::vector<std::string> images = boards(3), other = {images[0], images[2], images[1]};
    (void)ask(first, images);
    const Answer answer = ask(second, other);
    CHECK(answer.stats.shared_image_hits == (reuse == OCELLUS_REUSE_PREFIX ? 1 : 3));
    test::check_equal(answer, ask(open_session(*apart), other));
  }
}

TEST_CASE("sessions that carry a prompt's change to pictures copy the shared ones, which stay as they are") {
  const ocellus_limits limits = sharing_limits(2, 4, 5, OCELLUS_REUSE_CARRY);
  const ocellus_plan plan = plan_of(limits);
  CHECK(planned_bytes(plan, "kv image blocks") == (2 * 4 + 5) * plan.kv_bytes_per_image);
  CHECK(plan.kv_bytes_shared == 5 * plan.kv_bytes_per_image);
  const std::unique_ptr<Engine> apart = make_engine(sharing_limits(1, 4, 0, OCELLUS_REUSE_CARRY));
  const Answer own = answer_golden(open_session(*apart), 13, 24);
  const std::unique_ptr<Engine> engine = make_engine(limits);
  CHECK(stats_of(*engine).arena_bytes == plan.total_bytes);
  Session &first = open_session(*engine), &second = open_session(*engine);
  test::check_equal(answer_golden(first, 13, 24), own);
  for (int32_t i = 0; i < 2; ++i) {
    second.reset();
    const Answer copied = answer_golden(second, 13, 24);
    CHECK(copied.stats.shared_image_hits == 4);
    CHECK(copied.stats.kv_shared_bytes == 0);
    test::check_equal(copied, own);
  }
  const BlockPool& blocks = engine->memory().pools.blocks;
  CHECK(blocks.taken_count() == 4 + 4 + 4);
  second.reset();
  CHECK(blocks.taken_count() == 4 + 4);
  CHECK(stats_of(*engine).shared_images_held == 4);
  CHECK(stats_of(*engine).shared_image_links == 0);
  // As many copies as planned always fit, and pictures that others have seen go for new ones.
  for (const std::string& image : boards(6)) {
    second.reset();
    CHECK(ask(second, {image, image, image, image}, 1).stats.shared_image_hits >= 3);
  }
  CHECK(stats_of(*engine).shared_images_held == 5);
}

TEST_CASE("what one session does leaves the others' shared pictures as they are") {
  const std::vector<std::string> images = boards(4);
  const std::unique_ptr<Engine> alone = make_engine(sharing_limits(1, 2, 2));
  Session& undisturbed = open_session(*alone);
  const Answer begun = ask(undisturbed, {images[0], images[1]}, 3);
  const Answer expected = test::answer_of(undisturbed, default_params(12));

  const std::unique_ptr<Engine> engine = make_engine(sharing_limits(3, 2, 3));
  Session &first = open_session(*engine), &second = open_session(*engine), &third = open_session(*engine);
  (void)ask(second, {images[1], images[0]}, 2);
  test::check_equal(ask(first, {images[0], images[1]}, 3), begun);
  second.reset();
  (void)ask(third, {images[2]}, 2);
  third.reset();
  (void)ask(second, {images[3]}, 2);  // in the place that the third one left
  CHECK(second.cache().place_of(0) == 2);
  // A prompt that fails in the middle.
  CHECK(add_all(third, {images[0], images[2]}).code() == Code::kFull);
  CHECK(std::strstr(last_failure().sentence, "(shared_images)") != nullptr);
  third.reset();
  CHECK(stats_of(*engine).shared_image_links == 3);
  test::check_equal(test::answer_of(first, default_params(12)), expected);
}

TEST_CASE("a prompt for which no shared image is left is refused as a whole, and goes once another session ends") {
  const std::vector<std::string> images = boards(4);
  const std::unique_ptr<Engine> engine = make_engine(sharing_limits(2, 3, 3));
  Session &first = open_session(*engine), &second = open_session(*engine);
  (void)ask(first, {images[0], images[1]});
  const std::vector<uint8_t> bytes[] = {test::board_bytes(images[1]), test::board_bytes(images[2]),
                                        test::board_bytes(images[3])};
  ocellus_part parts[3] = {};
  for (int32_t i = 0; i < 3; ++i) {
    const auto at = static_cast<size_t>(i);
    parts[i] = {OCELLUS_PART_IMAGE, 0, bytes[at].data(), std::ssize(bytes[at]), nullptr, nullptr};
  }
  int32_t failed = 0;
  REQUIRE(second.begin_turn().ok());
  CHECK(second.add_parts(parts, 3, &failed).code() == Code::kFull);
  CHECK(failed == 2);
  CHECK(stats_of(*engine).shared_image_links == 2);
  first.reset();
  REQUIRE_MESSAGE(second.add_parts(parts, 3, &failed).ok(), last_failure().sentence);
  REQUIRE(second.end_turn().ok());
  CHECK(test::answer_of(second, default_params(2)).status.ok());
  CHECK(stats_of(*engine).shared_image_links == 3);
}

TEST_CASE("of pictures that no session links the one that was linked longest ago goes first") {
  const std::vector<std::string> images = boards(4);
  const std::unique_ptr<Engine> engine = make_engine(sharing_limits(1, 1, 3));
  Session& session = open_session(*engine);
  for (int32_t i = 0; i < 3; ++i) check_found(session, images[static_cast<size_t>(i)], false);
  check_found(session, images[0], true);
  check_found(session, images[3], false);
  check_found(session, images[0], true);
  check_found(session, images[2], true);
  check_found(session, images[1], false);
  check_found(session, images[3], false);  // the oldest one when picture 1 came
}

TEST_CASE("a rolling context ends its use of the picture that it releases, which others still link") {
  const std::vector<std::string> images = boards(3);
  const std::unique_ptr<Engine> engine = make_engine(sharing_limits(2, 2, 3));
  Session &rolling = open_session(*engine), &other = open_session(*engine);
  REQUIRE(set_rolling(rolling, 2, 16).ok());
  (void)ask(other, {images[0]}, 2);
  for (const std::string& image : images) (void)ask(rolling, {image}, 2);
  CHECK(rolling.cache().image_count() == 2);
  CHECK(engine->memory().pools.shared.users(0) == 1);
  CHECK(stats_of(*engine).shared_image_links == 3);
  CHECK(test::answer_of(other, default_params(2)).status.ok());
  rolling.reset();
  CHECK(stats_of(*engine).shared_image_links == 1);
}

TEST_CASE("a picture twice in a prompt takes one place, and leaves it with the session") {
  const std::vector<std::string> images = boards(1);
  const std::unique_ptr<Engine> engine = make_engine(sharing_limits(1, 3, 1));
  Session& session = open_session(*engine);
  CHECK(ask(session, {images[0], images[0], images[0]}).stats.shared_image_hits == 2);
  CHECK(stats_of(*engine).shared_image_links == 3);
  session.reset();
  CHECK(stats_of(*engine).shared_image_links == 0);
}

TEST_CASE("sessions of other owners share no pictures") {
  const std::vector<std::string> images = boards(1);
  const std::unique_ptr<Engine> engine = make_engine(sharing_limits(3, 1, 3));
  Session &ann = open_session(*engine), &bob = open_session(*engine), &nobody = open_session(*engine);
  REQUIRE(ann.set_store(nullptr, "ann").ok());
  REQUIRE(bob.set_store(nullptr, "bob").ok());
  CHECK(bob.set_store(nullptr, "../bob").code() == Code::kBadArgument);
  check_found(ann, images[0], false);
  check_found(bob, images[0], false);
  check_found(nobody, images[0], false);
  check_found(ann, images[0], true);
  REQUIRE(nobody.set_store(nullptr, "ann").ok());
  check_found(nobody, images[0], true);
}

TEST_CASE("shared images are planned with reuse that leaves their slots alone") {
  const auto code = [](const ocellus_limits& limits) {
    ocellus_plan plan;
    return plan_memory(test::any_model(), limits, &plan).code();
  };
  CHECK(code(sharing_limits(2, 2, 2)) == Code::kOk);
  CHECK(code(sharing_limits(2, 2, -1)) == Code::kBadArgument);
  CHECK(code(sharing_limits(2, 2, 2, OCELLUS_REUSE_NONE)) == Code::kBadArgument);
  CHECK(code(sharing_limits(2, 0, 2)) == Code::kBadArgument);
  ocellus_limits evicting = sharing_limits(2, 2, 2);
  test::set_text(evicting.cache.evict, "snapkv");
  evicting.cache.keep = 0.5f;
  CHECK(code(evicting) == Code::kBadArgument);
  CHECK(std::strstr(last_failure().sentence, "cannot share") != nullptr);
}

}  // namespace ocellus
