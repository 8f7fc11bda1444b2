#include "kernels/linear/few_rows/tensor_kernel.cuh"

namespace ocellus::cuda {

template void launch_few_rows<WeightFormat::kQ8_0>(FewRowsPlan, const LaunchShape&, const FewRowsWork&, Queue&);
template void launch_few_rows<WeightFormat::kQ5_0>(FewRowsPlan, const LaunchShape&, const FewRowsWork&, Queue&);
template void launch_few_rows<WeightFormat::kQ5_1>(FewRowsPlan, const LaunchShape&, const FewRowsWork&, Queue&);

}  // namespace ocellus::cuda
