#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <new>

#include "kernels/base/launch.cuh"
#include "kernels/linear/library_product.cuh"
#include "kernels/linear/matmul_library.h"
#include "kernels/linear/matmul_scratch.h"

namespace ocellus {
namespace {

using cuda::LibraryProduct;

// cuBLASLt is column-major: our row-major out [T, N] is its D [N, T] = W^T' x, with W as [K, N], transposed, and x as
// [K, T].

constexpr int kCapacity = 1024;  // plans
constexpr int kCandidates = 8;   // candidates for a new plan
constexpr int64_t kMaxAlignment = 16;

/// Products with equal keys share a plan.
struct PlanKey {
  int64_t outputs = 0;
  int64_t cols = 0;
  int64_t bucket = 0;       // see row_bucket
  int32_t output_type = 0;  // cudaDataType_t
  int32_t epilogue = 0;     // cublasLtEpilogue_t
  int32_t alignment = 0;    // alignment of the outputs and their rows, in bytes
  int64_t stride = 0;       // stride of the outputs; 0: any with this alignment
  bool accumulate = false;

  bool same_but_for_rows(const PlanKey& other) const {
    return outputs == other.outputs && cols == other.cols && output_type == other.output_type &&
           epilogue == other.epilogue && alignment == other.alignment && stride == other.stride &&
           accumulate == other.accumulate;
  }
};

struct Plan {
  PlanKey key;
  bool possible = false;  // false: cuBLASLt has no algorithm for this key
  int64_t workspace_bytes = 0;
  cublasLtMatmulAlgo_t algorithm{};
};

cublasLtEpilogue_t epilogue_of(const LibraryProduct& product) {
  if (product.bias != nullptr) return product.gelu ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  return product.gelu ? CUBLASLT_EPILOGUE_GELU : CUBLASLT_EPILOGUE_DEFAULT;
}

cudaDataType_t type_of(const ActivationView& view) {
  return view.type == ActivationType::kF16 ? CUDA_R_16F : CUDA_R_32F;
}

PlanKey key_of(const LibraryProduct& product) {
  const ActivationView& out = product.output;
  const auto address_and_stride = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(out.data)) |
                                  static_cast<uint64_t>(out.stride * out.value_bytes());
  PlanKey key;
  key.outputs = out.cols;
  key.cols = product.cols;
  key.bucket = cuda::row_bucket(product.rows);
  key.output_type = type_of(out);
  key.epilogue = epilogue_of(product);
  key.alignment = 1 << std::min(std::countr_zero(address_and_stride), std::countr_zero(uint64_t{kMaxAlignment}));
  key.accumulate = product.accumulate;
  return key;
}

/// cuBLASLt's descriptors of a product, on the stack. `status` keeps the first failure.
struct Description {
  Description(const LibraryProduct& product, int64_t rows) {
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const int32_t epilogue = epilogue_of(product);
    const auto cols = static_cast<uint64_t>(product.cols), outputs = static_cast<uint64_t>(product.output.cols);
    take(cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (product.bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, &product.bias, sizeof product.bias);
    take(cublasLtMatrixLayoutInit(&weights, CUDA_R_16F, cols, outputs, product.cols));
    take(cublasLtMatrixLayoutInit(&input, CUDA_R_16F, cols, static_cast<uint64_t>(rows), product.input_stride));
    take(cublasLtMatrixLayoutInit(&output, type_of(product.output), outputs, static_cast<uint64_t>(rows),
                                  product.output.stride));
  }
  void take(cublasStatus_t result) {
    if (status == CUBLAS_STATUS_SUCCESS) status = result;
  }
  void set(cublasLtMatmulDescAttributes_t attribute, const void* value, size_t bytes) {
    take(cublasLtMatmulDescSetAttribute(&operation, attribute, value, bytes));
  }

  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t weights, input, output;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
};

void fail(const char* what, const LibraryProduct& product, cublasStatus_t status, Queue& queue) {
  queue.fail(OCELLUS_FAIL(Code::kDevice, "matmul of %lld rows, %lld inputs, %lld outputs: %s: %s",
                          static_cast<long long>(product.rows), static_cast<long long>(product.cols),
                          static_cast<long long>(product.output.cols), what, cublasLtGetStatusString(status)));
}

cublasStatus_t run(cublasLtHandle_t handle, const LibraryProduct& product, const cublasLtMatmulAlgo_t& algorithm,
                   Queue& queue) {
  Description description(product, product.rows);
  if (description.status != CUBLAS_STATUS_SUCCESS) return description.status;
  const float one = 1.0f, before = product.accumulate ? 1.0f : 0.0f;
  return cublasLtMatmul(handle, &description.operation, &one, product.weights, &description.weights, product.input,
                        &description.input, &before, product.output.data, &description.output, product.output.data,
                        &description.output, &algorithm, product.workspace,
                        static_cast<size_t>(product.workspace_bytes), cuda::stream_of(queue));
}

bool is_refused(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
}

/// Asks the library's heuristics for the largest product of the bucket. Nothing is measured: the choice must not depend
/// on timing, so that two runs give the same bits.
int find_candidates(cublasLtHandle_t handle, const LibraryProduct& product, const PlanKey& key, int64_t workspace_bytes,
                    cublasLtMatmulHeuristicResult_t* candidates) {
  Description description(product, key.bucket);
  cublasLtMatmulPreferenceOpaque_t preference;
  description.take(cublasLtMatmulPreferenceInit(&preference));
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    description.take(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value));
  };
  const auto alignment = static_cast<uint32_t>(key.alignment);
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace_bytes));
  // Allows split sums only if they are added in a fixed order and in f32.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(kMaxAlignment));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(kMaxAlignment));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  int count = 0;
  if (description.status != CUBLAS_STATUS_SUCCESS ||
      cublasLtMatmulAlgoGetHeuristic(handle, &description.operation, &description.weights, &description.input,
                                     &description.output, &description.output, &preference, kCandidates, candidates,
                                     &count) != CUBLAS_STATUS_SUCCESS)
    return 0;
  return count;
}

/// True if the candidate supports every number of rows of the bucket in its workspace.
bool fits_bucket(cublasLtHandle_t handle, const LibraryProduct& product, const PlanKey& key, int64_t workspace_bytes,
                 const cublasLtMatmulHeuristicResult_t& candidate) {
  const auto most = static_cast<size_t>(workspace_bytes);
  if (candidate.state != CUBLAS_STATUS_SUCCESS || candidate.workspaceSize > most) return false;
  for (const int64_t rows : {key.bucket, key.bucket / 2 + 1, product.rows}) {
    Description description(product, rows);
    cublasLtMatmulHeuristicResult_t result{};
    if (description.status != CUBLAS_STATUS_SUCCESS ||
        cublasLtMatmulAlgoCheck(handle, &description.operation, &description.weights, &description.input,
                                &description.output, &description.output, &candidate.algo,
                                &result) != CUBLAS_STATUS_SUCCESS ||
        result.workspaceSize > most)
      return false;
  }
  return true;
}

/// While a stream is recorded, CUDA refuses calls of the recording thread that might wait, and loading a kernel might.
/// Loading is not part of the recorded work, so it is allowed.
class LoadingAllowed {
 public:
  LoadingAllowed() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~LoadingAllowed() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  LoadingAllowed(const LoadingAllowed&) = delete;
  LoadingAllowed& operator=(const LoadingAllowed&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

struct MatmulLibrary::State : SetUpObject {
  cublasLtHandle_t handle = nullptr;
  bool frozen = false;
  int count = 0;
  Plan plans[kCapacity];

  /// While learning, finds the plan of the bucket; later also that of the next larger one, if the workspace is enough
  /// for it.
  const Plan* find(const PlanKey& key, int64_t workspace_bytes) const {
    const Plan* found = nullptr;
    for (int i = 0; i < count; ++i) {
      const Plan& plan = plans[i];
      if (!plan.key.same_but_for_rows(key)) continue;
      if (plan.key.bucket == key.bucket) return &plan;
      const bool serves = frozen && plan.key.bucket > key.bucket && plan.workspace_bytes <= workspace_bytes;
      if (serves && (found == nullptr || plan.key.bucket < found->key.bucket)) found = &plan;
    }
    return found;
  }

  /// Chooses the plan of a new key by running or recording the product. Returns false, and stores an impossible plan,
  /// if that fails.
  bool learn(const LibraryProduct& product, const PlanKey& key, Queue& queue);
};

bool MatmulLibrary::State::learn(const LibraryProduct& product, const PlanKey& key, Queue& queue) {
  if (count == kCapacity) {
    queue.fail(OCELLUS_FAIL(Code::kInternal, "more than %d kinds of matrix products in one engine", kCapacity));
    return true;
  }
  const LoadingAllowed allowed;
  Plan& plan = plans[count++];
  plan = {.key = key};
  cublasLtMatmulHeuristicResult_t candidates[kCandidates] = {};
  const int64_t workspace = cuda::library_workspace_bytes(key.bucket, key.outputs, queue.traits().lean);
  const int found = find_candidates(handle, product, key, workspace, candidates);
  for (int i = 0; i < found && !plan.possible; ++i) {
    if (!fits_bucket(handle, product, key, workspace, candidates[i])) continue;
    const cublasStatus_t status = run(handle, product, candidates[i].algo, queue);
    if (is_refused(status)) continue;
    plan.possible = true;
    plan.algorithm = candidates[i].algo;
    plan.workspace_bytes = static_cast<int64_t>(candidates[i].workspaceSize);
    if (status != CUBLAS_STATUS_SUCCESS) fail("cuBLASLt", product, status, queue);
  }
  return plan.possible;
}

Status MatmulLibrary::create(CudaDevice&, std::unique_ptr<MatmulLibrary>* out) {
  std::unique_ptr<MatmulLibrary> library(new (std::nothrow) MatmulLibrary);
  if (library != nullptr) library->state_ = new (std::nothrow) State;
  if (library == nullptr || library->state_ == nullptr)
    return OCELLUS_FAIL(Code::kDevice, "no memory for the plans of matrix products");
  if (const cublasStatus_t status = cublasLtCreate(&library->state_->handle); status != CUBLAS_STATUS_SUCCESS) {
    library->state_->handle = nullptr;
    return OCELLUS_FAIL(Code::kDevice, "cuBLASLt cannot be started: %s", cublasLtGetStatusString(status));
  }
  *out = std::move(library);
  return {};
}

MatmulLibrary::~MatmulLibrary() {
  if (state_ == nullptr) return;
  if (state_->handle != nullptr) cublasLtDestroy(state_->handle);
  delete state_;
}

void MatmulLibrary::freeze() { state_->frozen = true; }

bool cuda::multiply_by_library(const LibraryProduct& product, Queue& queue) {
  if (!queue.ok()) return true;
  auto* library = static_cast<MatmulLibrary*>(queue.op_memory());
  if (library == nullptr) {
    queue.fail(OCELLUS_FAIL(Code::kInternal, "a queue on CUDA needs a MatmulLibrary for products of many rows"));
    return true;
  }
  MatmulLibrary::State& state = library->state();
  const PlanKey key = key_of(product);
  PlanKey own = key;
  own.stride = product.output.stride;
  const Plan* plan = state.find(own, product.workspace_bytes);
  if (plan == nullptr) plan = state.find(key, product.workspace_bytes);
  if (plan == nullptr && !state.frozen) return state.learn(product, key, queue);
  if (plan == nullptr) {
    queue.fail(OCELLUS_FAIL(Code::kInternal,
                            "a matrix product of %lld rows, %lld inputs and %lld outputs was not met during set-up",
                            static_cast<long long>(product.rows), static_cast<long long>(product.cols),
                            static_cast<long long>(product.output.cols)));
    return true;
  }
  if (!plan->possible) return false;
  if (plan->workspace_bytes > product.workspace_bytes) {
    fail("its plan needs more workspace than it has", product, CUBLAS_STATUS_INVALID_VALUE, queue);
    return true;
  }
  const cublasStatus_t status = run(state.handle, product, plan->algorithm, queue);
  // Some algorithms support only some strides, which the library's check does not always report.
  if (is_refused(status) && !state.frozen && plan->key.stride == 0) return state.learn(product, own, queue);
  if (status != CUBLAS_STATUS_SUCCESS) fail("cuBLASLt", product, status, queue);
  return true;
}

}  // namespace ocellus
