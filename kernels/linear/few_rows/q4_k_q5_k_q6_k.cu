#include "kernels/linear/few_rows/tensor_kernel.cuh"

namespace ocellus::cuda {

template void launch_few_rows<WeightFormat::kQ4_K>(FewRowsPlan, const LaunchShape&, const FewRowsWork&, Queue&);
template void launch_few_rows<WeightFormat::kQ5_K>(FewRowsPlan, const LaunchShape&, const FewRowsWork&, Queue&);
template void launch_few_rows<WeightFormat::kQ6_K>(FewRowsPlan, const LaunchShape&, const FewRowsWork&, Queue&);

}  // namespace ocellus::cuda
