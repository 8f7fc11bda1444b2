// Builds without the branch: no constraint can be planned or made.
#include "runtime/api/handles.h"
#include "runtime/branches/all.h"

namespace ocellus {
namespace {

Status check(const ocellus_limits& limits) {
  return limits.max_constraints == 0 ? Status() : left_out(kConstrainBranch, "constraints (max_constraints)");
}

}  // namespace

const Branch kConstrainBranch = {.facts = {.name = "constrain", .is_built = 0}, .check = check};

}  // namespace ocellus

ocellus_status ocellus_constraint_create(ocellus_engine*, const ocellus_constraint_params*, ocellus_constraint** out) {
  if (out != nullptr) *out = nullptr;
  return ocellus::result(left_out(ocellus::kConstrainBranch, "constraints"));
}

void ocellus_constraint_destroy(ocellus_constraint*) {}
