// Rows and positions of a prompt are two counts: a made-up family's pictures of 16 rows take 4 positions. Slots go by
// rows, the model's context by positions, and a row sees those before it.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "runtime/branches/roll/roll.h"
#include "runtime/engine/memory_plan.h"
#include "tests/support/sharing_family.h"

namespace ocellus {
namespace {

using test::bound_on;
using test::kSharingPositions;
using test::kSharingRows;
using test::picture_limits;
using test::SharingPair;
using test::TestPicture;

const TestPicture& shown() {
  static const TestPicture made(70, 50);
  return made;
}

/// Each token is a byte.
void add_text(Session& session, const std::string& text) {
  REQUIRE_MESSAGE(session.add_text(text, false).ok(), last_failure().sentence);
}
void add_picture(Session& session) {
  REQUIRE_MESSAGE(session.add_frame(shown().frame()).ok(), last_failure().sentence);
}
/// "Look: ", the picture, "So?"
void add_prompt(Session& session) {
  add_text(session, "Look: ");
  add_picture(session);
  add_text(session, "So?");
}
const std::string kPrompt("Look: \0So?", 10);

ocellus_limits reusing_limits(ocellus_reuse reuse, int32_t rows) {
  ocellus_limits limits = picture_limits(2, 64);
  limits.reuse = reuse;
  limits.reuse_rows = rows;
  return limits;
}

void check_near(const std::vector<float>& got, const std::vector<double>& expected, Engine& engine) {
  CHECK(test::relative_error(got.data(), expected.data(), static_cast<int64_t>(expected.size())) <
        bound_on(engine, 3e-4, 1e-2));
}

}  // namespace

TEST_CASE("rows of a picture share its positions, and the text after it goes on where those end") {
  SharingPair pair;
  const std::unique_ptr<Engine> engine = test::make_engine(pair.model(), picture_limits(2, 64));
  Session& session = test::open_session(*engine);
  add_prompt(session);
  const PromptChunk& chunk = engine->memory().chunk;
  CHECK(chunk.row_count == 6 + kSharingRows + 3);
  CHECK(chunk.tokens() == chunk.row_count);
  CHECK(chunk.position_count == 6 + kSharingPositions + 3);
  {
    const ArenaScope scope(engine->arena());
    PrefillScratch scratch;
    REQUIRE(engine->take_scratch(&scratch).ok());
    plan_look(chunk, 100, session.cache(), scratch, engine->queue());
    const int32_t* const positions = scratch.rows.positions.host_row(0);
    for (int i = 0; i < 6; ++i) CHECK(positions[i] == 100 + i);
    for (int i = 0; i < 16; ++i) CHECK(positions[6 + i] == 106 + i / 4);
    for (int i = 0; i < 3; ++i) CHECK(positions[22 + i] == 110 + i);
  }
  const std::vector<float> logits = test::first_logits(session);
  check_near(logits, pair.expected(kPrompt, *engine, shown()), *engine);
  CHECK(session.next_position() == 13);
  CHECK(session.cache().rows() == 25);
  CHECK(session.cache().text_slots() == 9);
  const test::Answer answer = test::answer_of(session, test::default_params(4));
  CHECK(answer.stats.image_count == 1);
  CHECK(session.next_position() == 13 + std::max(answer.stats.generated_tokens - 1, 0));
}

TEST_CASE("rows of a picture stand at its time, and at the positions of their line and column") {
  SharingPair pair("qwen3vl");
  const std::unique_ptr<Engine> engine = test::make_engine(pair.model(), picture_limits(2, 64));
  Session& session = test::open_session(*engine);
  add_prompt(session);
  const PromptChunk& chunk = engine->memory().chunk;
  CHECK(chunk.position_count == 6 + kSharingPositions + 3);
  {
    const ArenaScope scope(engine->arena());
    PrefillScratch scratch;
    REQUIRE(engine->take_scratch(&scratch).ok());
    plan_look(chunk, 100, session.cache(), scratch, engine->queue());
    const auto stands_at = [&](int64_t row, int32_t time, int32_t line, int32_t col) {
      const int32_t* const at = scratch.rows.positions.host_row(row);
      return at[0] == time && at[1] == line && at[2] == col;
    };
    for (int i = 0; i < 6; ++i) CHECK(stands_at(i, 100 + i, 100 + i, 100 + i));
    for (int i = 0; i < 16; ++i) CHECK(stands_at(6 + i, 106, 106 + i / 4, 106 + i % 4));
    for (int i = 0; i < 3; ++i) CHECK(stands_at(22 + i, 110 + i, 110 + i, 110 + i));
  }
  const std::vector<float> logits = test::first_logits(session);
  check_near(logits, pair.expected(kPrompt, *engine, shown()), *engine);
  CHECK(session.next_position() == 13);
  const test::Answer answer = test::answer_of(session, test::default_params(4));
  CHECK(answer.stats.image_count == 1);
}

TEST_CASE("a prompt of many pictures counts as many tokens as rows, and fits a context by its positions") {
  constexpr int kContext = 24;
  SharingPair pair(kContext);
  const ocellus_limits limits = picture_limits(6, 64);
  ocellus_plan plan;
  REQUIRE(plan_memory(pair.model(), limits, &plan).ok());
  CHECK(plan.positions_per_image == kSharingPositions);
  const std::unique_ptr<Engine> engine = test::make_engine(pair.model(), limits);
  Session& session = test::open_session(*engine);
  for (int i = 0; i < 5; ++i) add_picture(session);  // 80 rows at 20 positions
  add_text(session, "ab");
  CHECK(session.add_frame(shown().frame()).code() == Code::kFull);
  CHECK(std::string(last_failure().sentence).find("would reach position 26") != std::string::npos);
  CHECK(session.add_text("cde", false).code() == Code::kFull);
  CHECK(std::string(last_failure().sentence).find("would reach position 25") != std::string::npos);
  add_text(session, "c");
  test::Answer answer = test::answer_of(session, test::default_params(0));
  REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
  CHECK(answer.stats.image_tokens == 5 * kSharingRows);
  CHECK(answer.stats.prompt_tokens == 5 * kSharingRows + 3);
  CHECK(session.next_position() == 23);
  CHECK(session.cache().rows() == 83);
  ocellus_generate_params more = test::default_params(10);
  more.ignore_end = 1;
  answer = test::answer_of(session, more);
  CHECK(answer.stats.stop == OCELLUS_STOP_FULL);
  CHECK(session.next_position() == kContext);
}

TEST_CASE("a failed picture leaves rows and positions as they were") {
  SharingPair pair;
  const std::unique_ptr<Engine> engine = test::make_engine(pair.model(), picture_limits(1, 64));
  Session& session = test::open_session(*engine);
  add_text(session, "Look: ");
  add_picture(session);
  CHECK(session.add_frame(shown().frame()).code() == Code::kFull);
  add_text(session, "So?");
  CHECK(engine->memory().chunk.position_count == 13);
  check_near(test::first_logits(session), pair.expected(kPrompt, *engine, shown()), *engine);
}

namespace {

void check_links(const char* architecture) {
  CAPTURE(architecture);
  SharingPair pair(architecture);
  for (const auto& [reuse, rows] : {std::pair{OCELLUS_REUSE_MPIC, -1}, {OCELLUS_REUSE_BLEND, 100}}) {
    CAPTURE(reuse);
    const std::unique_ptr<Engine> engine = test::make_engine(pair.model(), reusing_limits(reuse, rows));
    Session& session = test::open_session(*engine);
    add_prompt(session);
    check_near(test::first_logits(session), pair.expected(kPrompt, *engine, shown()), *engine);
    CHECK(session.next_position() == 13);
    CHECK(session.cache().rows() == 25);
  }
  // At the place where it was read alone all of a picture is what it would be there.
  for (const auto& [reuse, rows] : {std::pair{OCELLUS_REUSE_MPIC, 0},
                                    {OCELLUS_REUSE_MPIC, 3},
                                    {OCELLUS_REUSE_CARRY, 5},
                                    {OCELLUS_REUSE_BLEND, 30}}) {
    CAPTURE(reuse);
    CAPTURE(rows);
    const std::unique_ptr<Engine> engine = test::make_engine(pair.model(), reusing_limits(reuse, rows));
    Session& session = test::open_session(*engine);
    add_picture(session);
    add_text(session, "So?");
    check_near(test::first_logits(session), pair.expected(std::string("\0So?", 4), *engine, shown()), *engine);
    CHECK(session.next_position() == 7);
    CHECK(session.cache().rows() == 19);
    // Elsewhere it stands in a place of the same size.
    add_text(session, " Once more: ");
    add_picture(session);
    add_text(session, "?");
    REQUIRE_MESSAGE(test::answer_of(session, test::default_params(1)).status.ok(), last_failure().sentence);
    CHECK(session.next_position() == 7 + 12 + 4 + 1);
    CHECK(session.cache().rows() == 19 + 12 + 16 + 1);
  }
}

}  // namespace

TEST_CASE("linked pictures that share positions stand where read ones do") {
  for (const char* architecture : {"llama", "qwen3vl"}) check_links(architecture);
}

TEST_CASE("a rolling context of pictures that share positions goes on within a context of few positions") {
  constexpr int kContext = 40;
  SharingPair pair(kContext);
  const std::unique_ptr<Engine> engine = test::make_engine(pair.model(), picture_limits(4, 64));
  Session& session = test::open_session(*engine);
  REQUIRE(set_rolling(session, 4, 0).ok());
  for (int i = 0; i < 20; ++i) {
    CAPTURE(i);
    add_picture(session);
    add_text(session, "So?");
    REQUIRE_MESSAGE(test::answer_of(session, test::default_params(0)).status.ok(), last_failure().sentence);
    CHECK(session.next_position() == 7 * (i + 1));
    CHECK(session.room().for_positions({}) >= 0);
  }
  CHECK(session.cache().image_count() == 4);  // 64 rows at 16 positions
}

}  // namespace ocellus
