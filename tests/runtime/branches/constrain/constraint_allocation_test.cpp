// Compiling a constraint and answering under it allocate nothing. The program counts calls: it is that of
// allocation_test.cpp.
#include <doctest/doctest.h>

#include "tests/support/call_counter.h"
#include "tests/support/constrained_answers.h"

namespace ocellus {
namespace {

TEST_CASE("compiling constraints and answering under them allocate nothing") {
  ocellus_limits limits = test::board_limits(1, 200);
  limits.max_constraints = 1;
  limits.draft_rows = 7;
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
  Session* session = &test::open_session(*engine);
  ocellus_generate_params params = test::default_params(60);
  params.temperature = 1;
  ocellus_generate_stats stats = {};
  int32_t failures = 0;
  {
    const test::CallCounter counter;
    constexpr std::string_view kTexts[] = {R"({"properties": {"a": {"maxLength": 9, "type": "string"}, "b": {}}})",
                                           "root ::= \"yes\" | \"no\" [a-z]*", "(\\d{4}-)+x?"};
    for (int32_t kind = OCELLUS_CONSTRAINT_SCHEMA; kind <= OCELLUS_CONSTRAINT_REGEX; ++kind) {
      failures += test::open_constraint(*engine, kind, kTexts[kind], &params.constraint).ok() ? 0 : 1;
      session->reset();
      failures += session->begin_turn().ok() && session->add_text("What is there?", false).ok() ? 0 : 1;
      failures += session->end_turn().ok() ? 0 : 1;
      failures += generate(&session, &params, &stats, 1).ok() ? 0 : 1;
      failures += stats.generated_tokens > 0 ? 0 : 1;
      reinterpret_cast<ConstraintSlot*>(const_cast<ocellus_constraint*>(params.constraint))->close();
    }
  }
  CHECK(test::report_calls() == 0);
  CHECK(failures == 0);
}

}  // namespace
}  // namespace ocellus
