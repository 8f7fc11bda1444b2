// The shape of an engine: what the limits come to for a model.

#include <doctest/doctest.h>

#include "runtime/branches/library/library_session.h"
#include "runtime/branches/reuse/reuse.h"
#include "tests/support/loaded_engine.h"

namespace ocellus {
namespace {

EngineShape shape_of(const Model& model, const ocellus_limits& limits) {
  EngineShape shape;
  REQUIRE_MESSAGE(resolve_shape(model, limits, &shape).ok(), last_failure().sentence);
  return shape;
}

ocellus_limits reuse_limits(int32_t pictures, ocellus_reuse method, int32_t rows) {
  ocellus_limits limits = test::board_limits(pictures, 64);
  limits.reuse = method;
  limits.reuse_rows = rows;
  return limits;
}

}  // namespace

TEST_CASE("the way to reuse pictures decides which of their rows are computed in place, and which are kept for that") {
  const struct {
    ocellus_reuse method;
    int32_t asked;
    PickRule picks;
    int64_t in_place, kept;
  } cases[] = {
      {OCELLUS_REUSE_MPIC, 5, PickRule::kFirst, 5, 5},
      {OCELLUS_REUSE_MPIC, 1000, PickRule::kFirst, 64, 64},
      {OCELLUS_REUSE_SPREAD, -1, PickRule::kSpread, 64, 64},
      {OCELLUS_REUSE_CARRY, 5, PickRule::kSpread, 5, 5},
      {OCELLUS_REUSE_TILES, 5, PickRule::kFirstOfTiles, 5, 5},
      {OCELLUS_REUSE_FULL, 5, PickRule::kFirst, 0, 0},
      {OCELLUS_REUSE_PREFIX, 5, PickRule::kFirst, 0, 0},
      {OCELLUS_REUSE_BLEND, 10, PickRule::kMostChanged, 7, 64},
      {OCELLUS_REUSE_BLEND, -1, PickRule::kMostChanged, 64, 64},
  };
  for (const auto& each : cases) {
    CAPTURE(each.method);
    CAPTURE(each.asked);
    const EngineShape shape = shape_of(test::bundled_model(), reuse_limits(2, each.method, each.asked));
    CHECK(shape.pictures.rows == 64);
    CHECK(shape.reuse.links());
    CHECK(pick_rule(shape.reuse) == each.picks);
    CHECK(shape.reuse.in_place == each.in_place);
    CHECK(shape.reuse.input_rows == each.kept);
    CHECK(input_rows_of(shape, 1, 64) == each.kept);
    CHECK(shape.links.in_place == each.in_place);
    CHECK_FALSE(shape.pictures.are_stored);
  }
}

TEST_CASE("rows in place are counted by tile if each tile's first are computed") {
  Model model;
  REQUIRE_MESSAGE(model.open_shape("SmolVLM-256M", "Q8_0").ok(), last_failure().sentence);
  ocellus_limits limits = reuse_limits(2, OCELLUS_REUSE_TILES, 3);
  limits.max_tiles = 4;
  const EngineShape shape = shape_of(model, limits);
  CHECK(shape.pictures.views == 5);
  CHECK(shape.reuse.in_place == 15);
  CHECK(input_rows_of(shape, 5, shape.pictures.rows) == 15);
  CHECK(input_rows_of(shape, 1, 64) == 3);
}

TEST_CASE("without pictures nothing is reused, and no library is planned") {
  ocellus_limits limits = reuse_limits(0, OCELLUS_REUSE_CARRY, 5);
  limits.library = 1;
  const EngineShape without = shape_of(test::bundled_model(), limits);
  CHECK_FALSE(without.pictures.planned());
  CHECK_FALSE(without.reuse.links());
  CHECK_FALSE(without.pictures.are_stored);
  limits.max_images = 1;
  const EngineShape with = shape_of(test::bundled_model(), limits);
  CHECK(with.reuse.carries());
  CHECK(with.pictures.are_stored);
  LibraryShape library;
  REQUIRE(LibraryShape::of(with, test::bundled_model().text().input_width(), &library).ok());
  CHECK(library.cached_entries == 0);
}

}  // namespace ocellus
