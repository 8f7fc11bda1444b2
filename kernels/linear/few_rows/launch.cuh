// Launch parameters of the plans of few-row products.
#pragma once

#include "kernels/base/launch.cuh"
#include "kernels/linear/few_rows/plan.h"
#include "kernels/linear/few_rows/work.cuh"

namespace ocellus::cuda {

/// Maximum warps of a block. Two blocks fit a multiprocessor: of this product and the next, or two of this one.
constexpr int most_warps(FewRowsPlan plan) { return tiles_of(plan) == 1 ? 16 : 8; }

// Constants for device code, which cannot call the functions that compute them.
template <FewRowsPlan kPlan>
inline constexpr int kTilesOf = tiles_of(kPlan);
template <FewRowsPlan kPlan>
inline constexpr bool kRoundsItself = rounds_itself(kPlan);

/// Launches the plan's kernel for a format; kSpread is for block formats. Each format is instantiated in one of the
/// other .cu files of this folder.
template <WeightFormat kFormat>
void launch_few_rows(FewRowsPlan plan, const LaunchShape& shape, const FewRowsWork& work, Queue& queue);

}  // namespace ocellus::cuda
