#include "apps/base/branches.h"

#include "runtime/ocellus.h"

namespace ocellus::app {
namespace {

// Their names, after commas; empty if there are none.
std::string names_of(bool built) {
  std::string names;
  for (int32_t i = 0; const ocellus_branch* branch = ocellus_branch_get(i); ++i)
    if ((branch->is_built != 0) == built) names += (names.empty() ? "" : ", ") + std::string(branch->name);
  return names;
}

}  // namespace

bool has_branch(std::string_view name) {
  for (int32_t i = 0; const ocellus_branch* branch = ocellus_branch_get(i); ++i)
    if (branch->name == name) return branch->is_built != 0;
  return false;
}

std::string describe_branches() {
  const std::string built = names_of(true), left_out = names_of(false);
  return "branches: " + (built.empty() ? "none" : built) + (left_out.empty() ? "" : "; left out: " + left_out);
}

}  // namespace ocellus::app
