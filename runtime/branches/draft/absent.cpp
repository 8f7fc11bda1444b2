// Builds without the branch: a step reads one token of each session.
#include "runtime/branches/all.h"

namespace ocellus {
namespace {

Status check(const ocellus_limits& limits) {
  return limits.draft_rows == 0 ? Status() : left_out(kDraftBranch, "drafts (draft_rows)");
}

}  // namespace

const Branch kDraftBranch = {.facts = {.name = "draft", .is_built = 0}, .check = check};

}  // namespace ocellus
