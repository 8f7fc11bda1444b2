// Builds without the branch: a session ends when it is full.
#include "runtime/api/handles.h"
#include "runtime/branches/all.h"
#include "runtime/policy/cache_policy.h"

namespace ocellus {
namespace {

Status check(const ocellus_limits& limits) {
  CachePolicy policy;
  OCELLUS_TRY(resolve_cache_policy(limits.cache, &policy));
  return !policy.thin.on() ? Status() : left_out(kRollBranch, "thinning of images (evict)");
}

}  // namespace

const Branch kRollBranch = {.facts = {.name = "roll", .is_built = 0}, .check = check};

}  // namespace ocellus

ocellus_status ocellus_session_set_rolling(ocellus_session*, int32_t, int32_t) {
  return ocellus::result(left_out(ocellus::kRollBranch, "rolling contexts"));
}
