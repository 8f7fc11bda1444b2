// Pictures that are seen without their tiles (OCELLUS_IMAGE_OVERVIEW), in every vision family.
#include <doctest/doctest.h>

#include "runtime/session/session.h"
#include "tests/support/shelf.h"
#include "tests/support/tiny_families.h"

namespace ocellus {
namespace {

using test::Answer;

Answer ask(Session& session, const test::TestPicture& picture, uint32_t flags) {
  ocellus_frame frame = {};
  frame.width = picture.width;
  frame.height = picture.height;
  frame.plane[0] = picture.pixels.data();
  frame.stride_bytes[0] = int64_t{3} * picture.width;
  const ocellus_part part = {
      .kind = OCELLUS_PART_FRAME, .flags = flags, .bytes = nullptr, .byte_count = 0, .frame = &frame, .clip = nullptr};
  int32_t failed = -1;
  session.reset();
  test::add_words(session, "Look: ");
  REQUIRE_MESSAGE(session.add_parts(&part, 1, &failed).ok(), last_failure().sentence);
  test::add_words(session, "What is it?");
  Answer answer = test::answer_of(session, test::default_params(8));
  REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
  return answer;
}

bool has_tiles(const Engine& engine) { return max_view_count(engine.shape().pictures.preprocess) > 1; }

}  // namespace

TEST_CASE("an overview is the picture under a bound of one tile, and other models see what they always see") {
  int families = 0;
  test::for_each_tiny_family([&](const Model& model) {
    ocellus_limits limits = test::family_limits();
    const auto engine = test::make_engine(model, limits);
    limits.max_tiles = has_tiles(*engine) ? 1 : 0;
    const auto bounded = test::make_engine(model, limits);
    Session& session = test::open_session(*engine);
    Session& other = test::open_session(*bounded);
    for (const test::TestPicture& picture : {test::wide_picture(), test::tall_picture(), test::TestPicture(28, 28)}) {
      CAPTURE(picture.width);
      const Answer whole = ask(session, picture, 0), overview = ask(session, picture, OCELLUS_IMAGE_OVERVIEW);
      test::check_equal(overview, ask(other, picture, 0));
      if (!has_tiles(*engine)) test::check_equal(overview, whole);
      if (overview.stats.prompt_tokens < whole.stats.prompt_tokens) ++families;
    }
  });
  CHECK(families >= 3 * 2);  // of six with tiles
}

TEST_CASE("a library tells overviews from pictures with tiles") {
  test::for_each_tiny_family([](const Model& model) {
    test::Shelf shelf;
    ocellus_limits limits = test::linking_limits(OCELLUS_REUSE_MPIC, 3);
    limits.library = 1;
    const auto engine = test::make_engine(model, limits);
    if (!has_tiles(*engine)) return;
    Session& session = test::open_with(*engine, shelf, "ann");
    for (const uint32_t flags : {0u, OCELLUS_IMAGE_OVERVIEW}) {
      CAPTURE(flags);
      const Answer stored = ask(session, test::wide_picture(), flags);
      test::check_hits(stored, 0, 1);
      const Answer found = ask(session, test::wide_picture(), flags);
      test::check_hits(found, 1, 0);
      test::check_equal(found, stored);
    }
  });
}

}  // namespace ocellus
