// Pictures that take fewer positions than rows, from an image library.
#include <doctest/doctest.h>

#include "tests/support/sharing_family.h"
#include "tests/support/shelf.h"

namespace ocellus {

TEST_CASE("a library entry remembers how many positions its rows take") {
  test::SharingPair pair;
  const test::TestPicture picture(70, 50);
  test::Shelf shelf;
  ocellus_limits limits = test::picture_limits(2, 64);
  limits.reuse = OCELLUS_REUSE_MPIC;
  limits.reuse_rows = 3;
  limits.library = 1;
  const std::unique_ptr<Engine> engine = test::make_engine(pair.model(), limits);
  Session& session = test::open_with(*engine, shelf, "ann");
  const auto ask = [&](const LibraryKey* key) {
    session.reset();
    REQUIRE(session.add_text("Look: ", false).ok());
    const Status status =
        key == nullptr ? session.add_frame(picture.frame()) : session.prompt().add_named_picture(key_text(*key).text);
    REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
    REQUIRE(session.add_text("So?", false).ok());
    const test::Answer answer = test::answer_of(session, test::default_params(1));
    REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
    CHECK(session.next_position() == 6 + test::kSharingPositions + 3);
    return answer;
  };
  const test::Answer stored = ask(nullptr);
  test::check_hits(stored, 0, 1);
  const LibraryKey key = library_of(session)->outcome().last_key;
  EntryFacts facts;
  ViewPlan plan;
  const Status found =
      library_of(session)->find(session.conversation(), session.owner(), key_text(key).text, &facts, &plan);
  REQUIRE_MESSAGE(found.ok(), last_failure().sentence);
  CHECK(facts.shared_rows == test::kSharingRows - test::kSharingPositions);
  CHECK(plan.row_count() == test::kSharingRows);
  CHECK(plan.position_count() == test::kSharingPositions);
  test::check_equal(ask(nullptr), stored);
  test::check_equal(ask(&key), stored);
}

}  // namespace ocellus
