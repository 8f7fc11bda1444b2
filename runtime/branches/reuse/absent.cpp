// Builds without the branch: every picture is read in its prompt.
#include "runtime/api/handles.h"
#include "runtime/branches/all.h"

namespace ocellus {
namespace {

Status check(const ocellus_limits& limits) {
  if (limits.reuse != OCELLUS_REUSE_NONE) return left_out(kReuseBranch, "links to pictures (reuse)");
  return limits.shared_images == 0 ? Status() : left_out(kReuseBranch, "shared images (shared_images)");
}

}  // namespace

const Branch kReuseBranch = {.facts = {.name = "reuse", .is_built = 0}, .check = check};

}  // namespace ocellus

ocellus_status ocellus_session_set_linking(ocellus_session*, int32_t) {
  return ocellus::result(left_out(ocellus::kReuseBranch, "links to pictures"));
}
