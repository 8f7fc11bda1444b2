#include "kernels/linear/few_rows/tensor_kernel.cuh"

namespace ocellus::cuda {

template void launch_few_rows<WeightFormat::kIQ4_NL>(FewRowsPlan, const LaunchShape&, const FewRowsWork&, Queue&);
template void launch_few_rows<WeightFormat::kIQ4_XS>(FewRowsPlan, const LaunchShape&, const FewRowsWork&, Queue&);
template void launch_few_rows<WeightFormat::kMXFP4>(FewRowsPlan, const LaunchShape&, const FewRowsWork&, Queue&);

}  // namespace ocellus::cuda
