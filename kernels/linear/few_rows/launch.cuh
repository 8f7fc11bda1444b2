// Launch parameters of the plans of few-row products.
#pragma once

#include "kernels/base/launch.cuh"
#include "kernels/linear/few_rows/plan.h"
#include "kernels/linear/few_rows/work.cuh"

namespace ocellus::cuda {

/// Maximum warps of a block of FewRowsPlan::kTwo and more: two blocks fit a multiprocessor.
inline constexpr int kMostRoundedWarps = 8;
/// Maximum warps of a block of FewRowsPlan::kTiles.
inline constexpr int kMostTileWarps = 16;

/// Tiles of a plan, for device code, which cannot call the function that computes them.
template <FewRowsPlan kPlan>
inline constexpr int kTilesOf = tiles_of(kPlan);

/// Launches the plan's kernel for a format. Each format is instantiated in one of the other .cu files of this folder.
template <WeightFormat kFormat>
void launch_few_rows(FewRowsPlan plan, const LaunchShape& shape, const FewRowsWork& work, Queue& queue);

}  // namespace ocellus::cuda
