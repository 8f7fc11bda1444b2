#include "tests/support/shelf.h"

namespace ocellus::test {

ocellus_limits shelf_limits(int32_t images, int32_t rows, int32_t bits, int32_t reuse) {
  ocellus_limits limits = packed_limits(images, 200, bits);
  limits.reuse = reuse;
  limits.reuse_rows = rows;
  limits.library = 1;
  return limits;
}

Session& open_with(Engine& engine, Shelf& shelf, const char* owner) {
  Session& session = open_session(engine);
  REQUIRE_MESSAGE(set_library(session, &shelf.library, owner).ok(), last_failure().sentence);
  return session;
}

void check_hits(const Answer& answer, int32_t hits, int32_t misses) {
  CHECK(answer.stats.library_hits == hits);
  CHECK(answer.stats.library_misses == misses);
}

}  // namespace ocellus::test
