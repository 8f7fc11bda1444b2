// The image library under a few of the blows that tools/library_stress.cpp deals in thousands.
#include "tools/library_walk.h"

#include <doctest/doctest.h>

namespace ocellus {
namespace {

void check_outcome(const walk::Outcome& outcome, int64_t count) {
  CHECK(outcome.done == count);
  CHECK(outcome.served > 0);
  CHECK(outcome.refused > 0);
  CHECK_MESSAGE(outcome.wrong == 0, outcome.first_wrong);
}

}  // namespace

TEST_CASE("20 owners of a library do anything and find what a plain model says" * doctest::test_suite("long")) {
  check_outcome(walk::run_operations(1, 20'000), 20'000);
}

TEST_CASE("20 owners of a library do a little of everything") { check_outcome(walk::run_operations(2, 1500), 1500); }

TEST_CASE("a library's writers are killed at any moment and leave nothing wrong") {
  check_outcome(walk::kill_writers(3, 40), 40);
}

TEST_CASE("a library serves no entry with a flipped bit in its head or its blocks") {
  constexpr int64_t kHeadBits = 8 * walk::kHeadBytes;
  walk::Outcome outcome = walk::flip_bits(0, 1500);
  CHECK_MESSAGE(outcome.wrong == 0, outcome.first_wrong);
  CHECK(outcome.served == 0);
  // From the first block into the zeros after it.
  outcome = walk::flip_bits(kHeadBits + 8 * 600 - 100, 200);
  CHECK_MESSAGE(outcome.wrong == 0, outcome.first_wrong);
  CHECK(outcome.refused == 100);
  CHECK(outcome.served == 100);
}

}  // namespace ocellus
