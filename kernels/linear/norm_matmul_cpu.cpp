#include "kernels/backends.h"
#include "kernels/linear/norm_matmul_parts.h"

namespace ocellus {

void cpu::norm_matmul(const NormMatmulArgs& args, Queue& queue) { norm_matmul_in_parts(args, queue); }
void cpu::gated_matmul(const GatedMatmulArgs& args, Queue& queue) { gated_matmul_in_parts(args, queue); }

}  // namespace ocellus
