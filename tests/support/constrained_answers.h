// Answers of sessions under constraints.
#pragma once

#include <doctest/doctest.h>

#include <string_view>

#include "runtime/branches/constrain/constrain.h"
#include "tests/support/loaded_engine.h"

namespace ocellus::test {

inline Status open_constraint(Engine& engine, int32_t kind, std::string_view text, const ocellus_constraint** out) {
  const ocellus_constraint_params params = {.struct_bytes = sizeof params,
                                            .kind = kind,
                                            .text = text.data(),
                                            .text_bytes = static_cast<int64_t>(text.size()),
                                            .free_space = 0,
                                            .session = nullptr};
  ConstraintSlot* slot = nullptr;
  const Status status = constraints_of(engine).open(params, &slot);
  *out = reinterpret_cast<const ocellus_constraint*>(slot);
  return status;
}

inline const ocellus_constraint* constrain(Engine& engine, int32_t kind, std::string_view text) {
  const ocellus_constraint* constraint = nullptr;
  REQUIRE_MESSAGE(open_constraint(engine, kind, text, &constraint).ok(), last_failure().sentence);
  return constraint;
}

}  // namespace ocellus::test
