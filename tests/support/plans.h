// Plans of the bundled model.
#pragma once

#include "runtime/engine/memory_plan.h"
#include "tests/support/loaded_engine.h"

namespace ocellus::test {

inline ocellus_plan plan_of(const ocellus_limits& limits) {
  ocellus_plan plan;
  REQUIRE_MESSAGE(plan_memory(bundled_model(), limits, &plan).ok(), last_failure().sentence);
  return plan;
}

}  // namespace ocellus::test
