// In a build without CUDA no queue is ever on CUDA; these keep the linker content and would say so.
#include "kernels/backends.h"
#include "kernels/linear/matmul_few_rows.h"
#include "kernels/linear/matmul_library.h"
#include "platform/queue.h"

namespace ocellus {

#define OCELLUS_ABSENT_OP(op, Args)                                                                      \
  void cuda::op(const Args&, Queue& queue) {                                                             \
    queue.fail(OCELLUS_FAIL(Code::kUnsupported, "this build has no CUDA backend, which " #op " needs")); \
  }
OCELLUS_FOR_EACH_OP(OCELLUS_ABSENT_OP)
#undef OCELLUS_ABSENT_OP

Status MatmulLibrary::create(CudaDevice&, std::unique_ptr<MatmulLibrary>*) {
  return OCELLUS_FAIL(Code::kUnsupported, "this build has no CUDA backend");
}
MatmulLibrary::~MatmulLibrary() = default;
void MatmulLibrary::freeze() {}
bool cuda::few_rows_fits(int64_t, const WeightView*, int, bool, const DeviceTraits&) { return false; }
const char* cuda::few_rows_plan_name(int64_t, const WeightView&, const CudaFacts&) { return "none"; }

}  // namespace ocellus
