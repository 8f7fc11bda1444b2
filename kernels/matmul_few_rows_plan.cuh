// The ways to do a few-row product, and how they are launched.
#pragma once

#include "kernels/launch.cuh"
#include "kernels/matmul_few_rows_work.cuh"

namespace ocellus::cuda {

/// How a product is done, by the number of its input rows.
enum class FewRowsPlan : uint8_t {
  kSpread,  // one or two, rounded by every block for itself; block formats
  kOwn,     // up to eight, likewise; all formats
  kTwo,     // rounded beforehand: up to 16, 32, 64
  kFour,
  kEight,
};

__host__ __device__ constexpr int tiles_of(FewRowsPlan plan) {
  return plan == FewRowsPlan::kTwo ? 2 : plan == FewRowsPlan::kFour ? 4 : plan == FewRowsPlan::kEight ? 8 : 1;
}
__host__ __device__ constexpr bool rounds_itself(FewRowsPlan plan) { return plan <= FewRowsPlan::kOwn; }
/// Most warps of a block. Two blocks fit a multiprocessor: of this product and the next, or two of this one.
constexpr int most_warps(FewRowsPlan plan) { return tiles_of(plan) <= 2 ? 16 : 8; }

/// Launches the plan's kernel for a format; kSpread is for block formats. Each format is instantiated in one of the
/// files matmul_few_rows_*.cu.
template <WeightFormat kFormat>
void launch_few_rows(FewRowsPlan plan, const LaunchShape& shape, const FewRowsWork& work, Queue& queue);

}  // namespace ocellus::cuda
