#include "kernels/linear/few_rows/tensor_kernel.cuh"

namespace ocellus::cuda {

template void launch_few_rows<WeightFormat::kF32>(FewRowsPlan, const LaunchShape&, const FewRowsWork&, Queue&);
template void launch_few_rows<WeightFormat::kF16>(FewRowsPlan, const LaunchShape&, const FewRowsWork&, Queue&);
template void launch_few_rows<WeightFormat::kBF16>(FewRowsPlan, const LaunchShape&, const FewRowsWork&, Queue&);

}  // namespace ocellus::cuda
