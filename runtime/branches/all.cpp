#include "runtime/branches/all.h"

namespace ocellus {
namespace {

constexpr const Branch* kBranches[] = {&kConstrainBranch, &kDraftBranch,   &kEvictBranch,
                                       &kLibraryBranch,   &kMeasureBranch, &kPackBranch,
                                       &kReduceBranch,    &kReuseBranch,   &kRollBranch};

}  // namespace

std::span<const Branch* const> all_branches() { return kBranches; }

const MethodTable* methods_of(int32_t kind) {
  for (const Branch* branch : kBranches)
    if (branch->methods != nullptr && branch->methods->kind == kind) return branch->methods;
  return nullptr;
}

Status left_out(const Branch& branch, const char* what) {
  return OCELLUS_FAIL(Code::kUnsupported, "this build has no %s: it was made without the branch %s (OCELLUS_BRANCHES)",
                      what, branch.facts.name);
}

Status no_store() {
  if (kLibraryBranch.facts.is_built == 0) return left_out(kLibraryBranch, "image library");
  return OCELLUS_FAIL(Code::kBadArgument, "the session has no image library: set one first");
}

}  // namespace ocellus
