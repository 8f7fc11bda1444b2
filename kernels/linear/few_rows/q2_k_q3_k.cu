#include "kernels/linear/few_rows/tensor_kernel.cuh"

namespace ocellus::cuda {

template void launch_few_rows<WeightFormat::kQ2_K>(FewRowsPlan, const LaunchShape&, const FewRowsWork&, Queue&);
template void launch_few_rows<WeightFormat::kQ3_K>(FewRowsPlan, const LaunchShape&, const FewRowsWork&, Queue&);

}  // namespace ocellus::cuda
