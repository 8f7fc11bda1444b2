// The cache methods on every vision family, on tiny random pairs: linking, packing, eviction, rolling contexts, plans.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "platform/clock.h"
#include "runtime/branches/roll/roll.h"
#include "tests/support/exif.h"
#include "tests/support/packed_sessions.h"
#include "tests/support/random.h"
#include "tests/support/tiny_families.h"

namespace ocellus {
namespace {

using test::add_picture;
using test::add_two_pictures;
using test::add_words;
using test::bound_on;
using test::error_of;
using test::family_limits;
using test::linking_limits;
using test::tall_picture;
using test::TestPicture;
using test::wide_picture;

/// Two pictures and a question, read and answered.
struct Talk {
  Talk(const Model& model, const ocellus_limits& limits) : engine(test::make_engine(model, limits)) {
    session = &test::open_session(*engine);
    add_two_pictures(*session);
    logits = test::first_logits(*session);
    ocellus_generate_params params = test::default_params(8);
    params.ignore_end = 1;
    answer = test::answer_of(*session, params);
    REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
    CHECK(answer.stats.generated_tokens == 8);
    CHECK(session->cache().image_count() == 2);
  }
  bool is_finite() const {
    return std::all_of(logits.begin(), logits.end(), [](float value) { return std::isfinite(value); });
  }
  std::unique_ptr<Engine> engine;
  Session* session = nullptr;
  std::vector<float> logits;
  test::Answer answer;
};

ocellus_limits packing_limits(int32_t bits) {
  ocellus_limits limits = family_limits();
  limits.cache.kv_bits = bits;
  limits.cache.compress_at = OCELLUS_COMPRESS_IMAGE_END;  // so that the question reads what is packed
  return limits;
}

ViewPlan plan_of(const Engine& engine, const TestPicture& picture) {
  ViewPlan plan;
  REQUIRE(plan_views(engine.shape().pictures.preprocess, picture.width, picture.height, &plan).ok());
  return plan;
}
int64_t rows_of(const Engine& engine, const TestPicture& picture) { return plan_of(engine, picture).row_count(); }

/// Again and again with a little more time, until it is in.
void add_in_time(Session& session, const TestPicture& picture) {
  int refusals = -1;
  Status status;
  int64_t time_ns = 10'000;
  do {
    session.stop_signal().set_deadline(now_ns() + time_ns);
    status = session.add_frame(picture.frame());
    REQUIRE((status.ok() || status.code() == Code::kDeadline));
    time_ns += time_ns / 5;
    ++refusals;
  } while (!status.ok());
  session.stop_signal().set_deadline(0);
  CHECK(refusals > 0);
}

/// The picture of most rows among many shapes.
TestPicture largest_picture(const Engine& engine) {
  int64_t most = 0;
  Size largest;
  for (const int side : {5, 14, 28, 41, 56, 57, 84, 100, 140}) {
    for (const int other : {5, 14, 28, 41, 56, 57, 84, 100, 140}) {
      ViewPlan plan;
      REQUIRE(plan_views(engine.shape().pictures.preprocess, side, other, &plan).ok());
      if (plan.row_count() <= most) continue;
      most = plan.row_count();
      largest = {side, other};
    }
  }
  CHECK(most <= engine.shape().kv.image_slots);
  return {largest.width, largest.height};
}

/// The engine takes what the plan says, with as many pictures as were planned: picture_for(engine) gives each.
template <class PictureFor>
void check_plan(const Model& model, const ocellus_limits& limits, PictureFor picture_for) {
  ocellus_plan plan;
  REQUIRE_MESSAGE(plan_memory(model, limits, &plan).ok(), last_failure().sentence);
  const std::unique_ptr<Engine> engine = test::make_engine(model, limits);
  ocellus_engine_stats stats;
  engine->describe(&stats);
  CHECK(stats.arena_bytes == plan.total_bytes);
  Session& session = test::open_session(*engine);
  for (int32_t i = 0; i < limits.max_images; ++i) add_picture(session, picture_for(*engine));
  add_words(session, "?");
  REQUIRE_MESSAGE(test::answer_of(session, test::default_params(2)).status.ok(), last_failure().sentence);
  engine->describe(&stats);
  CHECK(stats.session_high_water_bytes <= plan.session_bytes);
  CHECK(stats.scratch_high_water_bytes <= plan.scratch_bytes);
}
void check_plan(const Model& model, const ocellus_limits& limits) { check_plan(model, limits, largest_picture); }

/// Limits that may make a plan or not.
ocellus_limits random_limits(const Model& model, test::Random& random) {
  ocellus_limits limits = family_limits(static_cast<int32_t>(random.integer(1, 3)), 160);
  const auto one_of = [&](auto... values) {
    const std::common_type_t<decltype(values)...> list[] = {values...};
    return list[random.integer(0, std::ssize(list) - 1)];
  };
  if (model.vision().any_size) limits.max_image_rows = static_cast<int32_t>(random.integer(1, 90));
  if (!model.vision().any_size) limits.max_tiles = static_cast<int32_t>(random.integer(0, 6));
  limits.max_image_pixels = random.integer(1, 200) * random.integer(1, 200);
  limits.max_prompt_rows = static_cast<int32_t>(one_of(0, 0, 40, 200));
  limits.max_sessions = static_cast<int32_t>(random.integer(1, 2));
  limits.lean = one_of(0, 0, 1);
  limits.cache.kv_bits = one_of(16, 16, 8, 4, 2, 1);
  limits.cache.keep = one_of(0.2f, 0.5f, 1.0f);
  test::set_text(limits.cache.evict, one_of("none", "none", "snapkv", "david", "h2o", "streaming", "elastic"));
  limits.reuse = one_of(OCELLUS_REUSE_NONE, OCELLUS_REUSE_NONE, OCELLUS_REUSE_MPIC, OCELLUS_REUSE_SPREAD,
                        OCELLUS_REUSE_CARRY, OCELLUS_REUSE_PREFIX);
  limits.reuse_rows = one_of(-1, 0, 5);
  if (limits.reuse != OCELLUS_REUSE_NONE) limits.shared_images = one_of(0, 0, 3);
  return limits;
}

/// A picture within the limits.
TestPicture random_picture(const ocellus_limits& limits, test::Random& random) {
  const int64_t width = random.integer(1, std::min<int64_t>(limits.max_image_pixels, 199));
  return {static_cast<int>(width), static_cast<int>(std::min(random.integer(1, 199), limits.max_image_pixels / width))};
}

}  // namespace

TEST_CASE("the arena of any family is what the plan says, whatever the pictures, their rows and the methods" *
          doctest::test_suite("long")) {
  test::for_each_tiny_family([](const Model& model) {
    test::Random random(20261124);
    int made = 0;
    for (int i = 0; made < 200; ++i) {
      REQUIRE(i < 2000);
      const ocellus_limits limits = random_limits(model, random);
      ocellus_plan plan;
      const Status status = plan_memory(model, limits, &plan);
      if (!status.ok()) {
        REQUIRE_MESSAGE((status.code() == Code::kBadArgument || status.code() == Code::kUnsupported),
                        last_failure().sentence);
        continue;
      }
      CAPTURE(i);
      check_plan(model, limits, [&](const Engine&) { return random_picture(limits, random); });
      ++made;
    }
  });
}

TEST_CASE("the plan of everything at once has rows to spare for those of a GPU, in every family") {
  constexpr int32_t kMoreOnGpu = 60;  // what is staged there in pinned memory, and the scratch of its kernels
  int32_t most = 0;
  test::for_each_tiny_family([&](const Model& model) {
    for (const char* const method : {"david", "h2o", "look-m", "meda"})
      for (const char* const scheme : {"calibquant:tau-low=0", "kivi"})
        for (const ocellus_reuse reuse : {OCELLUS_REUSE_MPIC, OCELLUS_REUSE_CARRY, OCELLUS_REUSE_BLEND}) {
          ocellus_limits limits = linking_limits(reuse, 8);
          limits.device = OCELLUS_DEVICE_CPU;
          limits.max_sessions = 2;
          limits.cache.kv_bits = 2;
          limits.cache.keep = 0.1f;
          test::set_text(limits.cache.evict, method);
          test::set_text(limits.cache.kv_scheme, scheme);
          limits.library = 1;
          limits.library_cache_bytes = 4 << 20;
          ocellus_plan plan;
          const Status status = plan_memory(model, limits, &plan);
          REQUIRE_MESSAGE(status.code() != Code::kInternal, last_failure().sentence);
          if (status.ok()) most = std::max(most, plan.row_count);  // not every pair is allowed
        }
  });
  CHECK(most + kMoreOnGpu <= OCELLUS_PLAN_MAX_ROWS);
}

TEST_CASE("pictures of any family whose rows are all read in place are as if they had never been linked") {
  test::for_each_tiny_family([](const Model& model) {
    for (const bool evicts : {false, true}) {
      CAPTURE(evicts);
      ocellus_limits limits[] = {family_limits(), linking_limits(OCELLUS_REUSE_MPIC, -1)};
      for (ocellus_limits& of : limits) {
        if (!evicts) continue;
        test::set_text(of.cache.evict, "snapkv");
        of.cache.keep = 0.6f;
      }
      const Talk plain(model, limits[0]), linked(model, limits[1]);
      CHECK(error_of(linked.logits, plain.logits) < bound_on(*plain.engine, 1e-3, 2e-2));
      CHECK(linked.session->next_position() == plain.session->next_position());
      if (!plain.engine->queue().on_cuda()) CHECK(linked.answer.text == plain.answer.text);
    }
  });
}

TEST_CASE("pictures of any family are linked alike in one session, beside others, and if sessions share them") {
  test::for_each_tiny_family([](const Model& model) {
    ocellus_limits limits = linking_limits(OCELLUS_REUSE_MPIC, 3);
    const Talk alone(model, limits);
    limits.max_sessions = 2;
    const Talk beside(model, limits);
    CHECK(beside.engine->shape().reuse.staged == model.text().has_windows());
    limits.shared_images = 2;
    const Talk shared(model, limits);
    CHECK(!shared.engine->shape().reuse.staged);
    const double bound = bound_on(*alone.engine, 1e-5, 5e-3);  // runs in another order
    CHECK(error_of(beside.logits, alone.logits) < bound);
    CHECK(error_of(shared.logits, alone.logits) < bound);
    Session& second = test::open_session(*shared.engine);
    add_two_pictures(second);
    CHECK(error_of(test::first_logits(second), alone.logits) < bound);
  });
}

TEST_CASE("a picture of any family that was read alone stands where the prompt has it") {
  test::for_each_tiny_family([](const Model& model) {
    for (const ocellus_reuse reuse : {OCELLUS_REUSE_MPIC, OCELLUS_REUSE_SPREAD, OCELLUS_REUSE_CARRY}) {
      CAPTURE(reuse);
      if (reuse != OCELLUS_REUSE_MPIC && !test::can_spread(model)) continue;
      const Talk plain(model, family_limits()), linked(model, linking_limits(reuse, 3));
      const int64_t positions = plan_of(*linked.engine, wide_picture()).position_count() +
                                plan_of(*linked.engine, tall_picture()).position_count();
      CHECK(linked.is_finite());
      CHECK(error_of(linked.logits, plain.logits) > 1e-4);  // else nothing was linked
      CHECK(error_of(linked.logits, plain.logits) < 1);
      CHECK(linked.session->next_position() == plain.session->next_position());
      CHECK(linked.session->cache().text_slots() == linked.session->next_position() - positions + 2 * 3);
    }
    // At the place where it was read alone it is the same picture, unless line breaks come before it.
    if (model.vision().family->views->marks.line_breaks > 0) return;
    std::vector<float> logits[2];
    for (const bool links : {false, true}) {
      const std::unique_ptr<Engine> engine =
          test::make_engine(model, links ? linking_limits(OCELLUS_REUSE_MPIC, 0) : family_limits());
      Session& session = test::open_session(*engine);
      add_picture(session, wide_picture());
      add_words(session, "?");
      logits[links ? 1 : 0] = test::first_logits(session);
      if (links) CHECK(error_of(logits[1], logits[0]) < bound_on(*engine, 1e-3, 2e-2));
    }
  });
}

TEST_CASE("the first rows of each tile cannot be read in place where the rows of all tiles are one map") {
  test::for_each_tiny_family([](const Model& model) {
    ocellus_plan plan;
    if (!test::can_spread(model)) return;
    const Status status = plan_memory(model, linking_limits(OCELLUS_REUSE_TILES, 1), &plan);
    if (!model.vision().family->views->has_map) {
      CHECK_MESSAGE(status.ok(), last_failure().sentence);
      return;
    }
    CHECK(status.code() == Code::kUnsupported);
    CHECK(std::string(last_failure().sentence).find("one map, so that no tile has first rows") != std::string::npos);
  });
}

TEST_CASE("pictures of any family in 8 bits are close to those in 16, in 2 bits they take less and answer") {
  test::for_each_tiny_family([](const Model& model) {
    if (!test::can_pack(model)) return;
    const Talk plain(model, family_limits()), packed(model, packing_limits(8)), small(model, packing_limits(2));
    const double error = error_of(packed.logits, plain.logits);
    CHECK(error < 5e-2);
    CHECK(error > 1e-6);  // else nothing was packed
    CHECK(error_of(small.logits, plain.logits) > error);
    CHECK(small.is_finite());
    CHECK(small.answer.stats.kv_block_bytes < packed.answer.stats.kv_block_bytes);
    CHECK(packed.answer.stats.kv_block_elements == small.answer.stats.kv_block_elements);
  });
}

TEST_CASE("eviction keeps its share of a prompt with pictures of any family") {
  test::for_each_tiny_family([](const Model& model) {
    for (const std::string_view method : {"snapkv", "david"}) {
      CAPTURE(std::string(method));
      ocellus_limits limits = family_limits();
      test::set_text(limits.cache.evict, method);
      limits.cache.keep = 0.5f;
      const Talk talk(model, limits);
      CHECK(talk.is_finite());
      const KeptPrompt& rows = talk.session->cache().kept().rows(0);
      CHECK(rows.rows - rows.text_rows ==
            rows_of(*talk.engine, wide_picture()) + rows_of(*talk.engine, tall_picture()));
      const test::KeptCounts counts = test::kept_counts(*talk.session, 0);
      for (size_t i = 0; i < counts.text.size(); ++i) CHECK(counts.text[i] + counts.visual[i] == rows.rows / 2);
    }
  });
}

TEST_CASE("a rolling context of any family sees its newest pictures, however many have come") {
  test::for_each_tiny_family([](const Model& model) {
    const std::unique_ptr<Engine> engine = test::make_engine(model, family_limits(2, 160));
    const test::FreeBlocks all(*engine);
    Session& session = test::open_session(*engine);
    REQUIRE_MESSAGE(set_rolling(session, 2, 16).ok(), last_failure().sentence);
    const std::vector<TestPicture> pictures = {{100, 41}, {41, 100}, {28, 28}, {5, 3}};
    for (size_t turn = 0; turn < 8; ++turn) {
      CAPTURE(turn);
      add_picture(session, pictures[turn % pictures.size()]);
      add_words(session, "And now?");
      const test::Answer answer = test::answer_of(session, test::default_params(4));
      REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
      const int32_t expected = std::min(static_cast<int32_t>(turn) + 1, 2);
      CHECK(session.cache().image_count() == expected);
      CHECK(answer.stats.image_tokens == rows_of(*engine, pictures[turn % pictures.size()]));
    }
    session.reset();
    CHECK(test::FreeBlocks(*engine) == all);
  });
}

TEST_CASE("a picture that fails or is stopped leaves the prompt of any family as it was") {
  testing::Bytes broken = testing::rgb_png(wide_picture().pixels, 100, 41);
  broken.resize(broken.size() / 2);
  test::for_each_tiny_family([&](const Model& model) {
    for (const ocellus_reuse reuse : {OCELLUS_REUSE_NONE, OCELLUS_REUSE_MPIC}) {
      CAPTURE(reuse);
      std::vector<float> logits[2];
      for (const bool fails : {false, true}) {
        const std::unique_ptr<Engine> engine = test::make_engine(model, linking_limits(reuse, 3));
        Session& session = test::open_session(*engine);
        add_words(session, "Compare ");
        add_picture(session, wide_picture());
        if (fails) CHECK(session.add_encoded_image(broken.data(), std::ssize(broken)).code() == Code::kBadImage);
        if (fails)
          add_in_time(session, tall_picture());
        else
          add_picture(session, tall_picture());
        if (fails) CHECK(session.add_frame(wide_picture().frame()).code() == Code::kFull);
        add_words(session, "?");
        logits[fails ? 1 : 0] = test::first_logits(session);
      }
      CHECK(logits[0] == logits[1]);
    }
  });
}

TEST_CASE("the plan of every family, bound on tiles and method is what the engine takes") {
  test::for_each_tiny_family([](const Model& model) {
    for (const int32_t tiles : {1, 2, 4, 0}) {
      CAPTURE(tiles);
      ocellus_limits limits = family_limits();
      limits.max_tiles = tiles;
      check_plan(model, limits);
      for (const int32_t bits : {8, 2}) {
        if (!test::can_pack(model)) continue;
        limits = packing_limits(bits);
        limits.max_tiles = tiles;
        limits.lean = bits == 2 ? 1 : 0;
        check_plan(model, limits);
      }
      for (const ocellus_reuse reuse : {OCELLUS_REUSE_MPIC, OCELLUS_REUSE_SPREAD}) {
        if (reuse != OCELLUS_REUSE_MPIC && !test::can_spread(model)) continue;
        limits = linking_limits(reuse, 3);
        limits.max_tiles = tiles;
        check_plan(model, limits);
        limits.library = 1;
        check_plan(model, limits);
      }
    }
  });
}

}  // namespace ocellus
