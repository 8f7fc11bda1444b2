// The branches, each in its folder. One that a build leaves out is what its absent.cpp says.
#pragma once

#include "runtime/engine/branch.h"

namespace ocellus {

extern const Branch kConstrainBranch, kDraftBranch, kEvictBranch, kLibraryBranch, kMeasureBranch, kPackBranch,
    kReduceBranch, kReuseBranch, kRollBranch;

}  // namespace ocellus
