// LFM2-VL: how it cuts pictures, and the methods beside its convolutions: what works with them, what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "runtime/engine/memory_plan.h"
#include "tests/support/cache_texts.h"
#include "tests/support/random.h"
#include "tests/support/rendered_views.h"
#include "tests/support/tiny_families.h"

namespace ocellus {
namespace {

/// The published model's pictures.
PreprocessConfig published(int32_t tiles = 0) {
  Model model;
  REQUIRE(model.open_shape("LFM2.5-VL-450M", "F16").ok());
  ocellus_limits limits = test::family_limits();
  limits.max_tiles = tiles;
  return preprocess_config(model.vision(), limits);
}

std::unique_ptr<Model> tiny() { return test::open_tiny_family("lfm2-vl"); }

void check_refused(const Model& model, const ocellus_limits& limits, const char* says) {
  ocellus_plan plan;
  CHECK(plan_memory(model, limits, &plan).code() == Code::kUnsupported);
  CHECK_MESSAGE(std::string(last_failure().sentence).find(says) != std::string::npos, last_failure().sentence);
}

struct Talk {
  Talk(const Model& model, const ocellus_limits& limits) : engine(test::make_engine(model, limits)) {
    session = &test::open_session(*engine);
    test::add_two_pictures(*session);
    logits = test::first_logits(*session);
    ocellus_generate_params params = test::default_params(8);
    params.ignore_end = 1;
    answer = test::answer_of(*session, params);
    REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
    CHECK(std::all_of(logits.begin(), logits.end(), [](float value) { return std::isfinite(value); }));
  }
  std::unique_ptr<Engine> engine;
  Session* session = nullptr;
  std::vector<float> logits;
  test::Answer answer;
};

}  // namespace

TEST_CASE("pictures of LFM2-VL have the views and rows that the published processor gives them") {
  const struct {
    Size picture, tiles, overview;
    int64_t rows;
  } cases[] = {
      {{336, 336}, {0, 0}, {320, 320}, 100},    {{448, 448}, {0, 0}, {448, 448}, 196},
      {{640, 480}, {0, 0}, {576, 416}, 234},    {{300, 200}, {0, 0}, {320, 224}, 70},
      {{100, 40}, {0, 0}, {416, 192}, 78},      {{256, 384}, {0, 0}, {256, 384}, 96},
      {{1280, 720}, {2, 1}, {672, 384}, 764},   {{1920, 1080}, {4, 2}, {672, 384}, 2300},
      {{3840, 2160}, {4, 2}, {672, 384}, 2300}, {{1080, 1920}, {2, 4}, {384, 672}, 2300},
      {{900, 900}, {2, 2}, {512, 512}, 1280},   {{2000, 2000}, {3, 3}, {512, 512}, 2560},
      {{1000, 3000}, {1, 3}, {288, 864}, 1011},
  };
  const PreprocessConfig config = published();
  for (const auto& c : cases) {
    CAPTURE(c.picture.width);
    CAPTURE(c.picture.height);
    const ViewPlan plan = testing::plan_of(config, c.picture.width, c.picture.height);
    CHECK(Size{plan.tile_cols, plan.tile_rows} == c.tiles);
    CHECK(plan.overview.size == c.overview);
    CHECK(plan.row_count() == c.rows);
    CHECK(plan.position_count() == c.rows);
  }
  CHECK(testing::plan_of(published(1), 2000, 2000).tile_count() == 0);
  CHECK(testing::plan_of(published(4), 2000, 2000).tile_count() == 4);
}

TEST_CASE("no picture of LFM2-VL takes more than its bounds say") {
  test::Random random(51);
  for (const int32_t tiles : {0, 1, 3}) {
    const PreprocessConfig config = published(tiles);
    for (int i = 0; i < 3000; ++i) {
      const auto side = [&] { return static_cast<int32_t>(random.integer(1, random.integer(0, 1) == 0 ? 700 : 5000)); };
      const Size picture{side(), side()};
      CAPTURE(picture.width);
      CAPTURE(picture.height);
      ImageLimits limits = testing::tight_limits(picture.width, picture.height);
      limits.max_aspect = std::max(1, std::max(picture.width / picture.height, picture.height / picture.width) + 1);
      const ViewBounds bounds = view_bounds(config, limits);
      const ViewPlan plan = testing::plan_of(config, picture.width, picture.height);
      REQUIRE(plan.row_count() <= bounds.rows);
      REQUIRE(plan.row_count() <= max_row_count(config));
      REQUIRE(plan.tile_count() <= bounds.tiles);
      REQUIRE(plan.tile_rows <= bounds.tile_rows);
      for (int32_t view = 0; view < plan.view_count(); ++view) {
        const Size size = plan.view_size(view);
        REQUIRE(int64_t{size.width} * size.height <= bounds.view_pixels);
        REQUIRE(int64_t{size.width} * size.height == int64_t{plan.rows_of(view)} * 32 * 32);
      }
    }
  }
}

TEST_CASE("the engine of LFM2-VL takes what its plan says, with evicted, packed and forgotten rows") {
  const std::unique_ptr<Model> model = tiny();
  for (const char* const evict : {"none", "snapkv", "streaming", "h2o"})
    for (const int32_t bits : {16, 8})
      for (const int32_t chunk : {0, 40}) {
        CAPTURE(std::string(evict));
        CAPTURE(bits);
        CAPTURE(chunk);
        ocellus_limits limits = test::family_limits();
        test::set_text(limits.cache.evict, evict);
        limits.cache.keep = 0.5f;
        limits.cache.kv_bits = bits;
        limits.max_prompt_rows = chunk;
        ocellus_plan plan;
        const Status status = plan_memory(*model, limits, &plan);
        if (!status.ok()) {
          CHECK((status.code() == Code::kUnsupported || status.code() == Code::kBadArgument));
          continue;
        }
        const Talk talk(*model, limits);
        ocellus_engine_stats stats;
        talk.engine->describe(&stats);
        CHECK(stats.arena_bytes == plan.total_bytes);
        CHECK(stats.session_high_water_bytes <= plan.session_bytes);
        CHECK(stats.scratch_high_water_bytes <= plan.scratch_bytes);
      }
}

TEST_CASE("a tower of LFM2-VL is planned with the projector's norm if the file has one") {
  CHECK(tiny()->vision().norms_joined);  // of f32 rows, which take twice as much on a GPU
  Model made;
  REQUIRE(made.open_shape("LFM2.5-VL-450M", "F16").ok());
  CHECK_FALSE(made.vision().norms_joined);
}

TEST_CASE("pictures of LFM2-VL are read alike in chunks of any size") {
  const std::unique_ptr<Model> model = tiny();
  ocellus_limits limits = test::family_limits();
  const Talk whole(*model, limits);
  limits.max_prompt_rows = 1;  // a picture's rows are a chunk all the same
  const Talk pieces(*model, limits);
  CHECK(test::error_of(pieces.logits, whole.logits) < 1e-2);
}

TEST_CASE("a picture of LFM2 that was read after the same beginning is linked as if it were read again") {
  const std::unique_ptr<Model> model = tiny();
  const Talk plain(*model, test::family_limits());
  ocellus_limits limits = test::linking_limits(OCELLUS_REUSE_PREFIX, 0);
  limits.shared_images = 2;
  const Talk first(*model, limits);
  Session& again = *first.session;
  again.reset();
  test::add_two_pictures(again);
  CHECK(test::first_logits(again) == first.logits);
  ocellus_engine_stats stats;
  first.engine->describe(&stats);
  CHECK(stats.shared_image_hits == 2);
  CHECK(test::error_of(first.logits, plain.logits) < test::bound_on(*first.engine, 1e-3, 2e-2));
}

TEST_CASE("what follows a linked picture of LFM2 goes on from its last rows") {
  const std::unique_ptr<Model> model = tiny();
  const auto logits_of = [&](const ocellus_limits& limits, const char* end) {
    const std::unique_ptr<Engine> engine = test::make_engine(*model, limits);
    Session& session = test::open_session(*engine);
    test::add_picture(session, test::wide_picture());
    test::add_words(session, end);
    return test::first_logits(session);
  };
  // At the place where it was read alone it is the same picture: exact, also where the ring's rows are linked ones.
  for (const char* const end : {"", "?", "What is it?"}) {
    CAPTURE(std::string(end));
    const std::vector<float> expected = logits_of(test::family_limits(), end);
    for (const int32_t rows : {0, 1, 2, 20}) {
      CAPTURE(rows);
      ocellus_limits limits = test::linking_limits(OCELLUS_REUSE_MPIC, rows);
      CHECK(test::error_of(logits_of(limits, end), expected) < 1e-2);
      limits.max_prompt_rows = 1;
      CHECK(test::error_of(logits_of(limits, end), expected) < 1e-2);
    }
  }
}

TEST_CASE("what LFM2's convolutions cannot do exactly is refused when it is planned") {
  const std::unique_ptr<Model> model = tiny();
  for (const ocellus_reuse reuse :
       {OCELLUS_REUSE_SPREAD, OCELLUS_REUSE_FULL, OCELLUS_REUSE_CARRY, OCELLUS_REUSE_TILES, OCELLUS_REUSE_BLEND})
    check_refused(*model, test::linking_limits(reuse, 3), "computed in place only from the first one on");
  ocellus_limits limits = test::family_limits();
  test::set_text(limits.reduce, "fastv");
  limits.reduce_keep = 0.5f;
  check_refused(*model, limits, "fastv drops rows between layers");
}

}  // namespace ocellus
