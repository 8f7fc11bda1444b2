#!/bin/sh
# Usage: sh findings/cublaslt-heap.sh   (an NVIDIA GPU, CUDA 12.6 or newer, gcc; seconds)
. "$(dirname "$0")/steps"
say "A product by cublasLtMatmul, whose algorithm, workspace and descriptors are there, takes nothing of the heap." \
  "It does in every call, also while a graph is recorded. A recorded graph does not when it runs again."
needs gcc nvidia-smi
cuda=${CUDA_HOME:-/usr/local/cuda}
[ -e "$cuda/include/cublasLt.h" ] || cannot_run "there is no CUDA Toolkit in $cuda (CUDA_HOME)."
nvidia-smi -L >/dev/null 2>&1 || cannot_run "there is no GPU."
for libraries in "$cuda/lib64" "$cuda/lib"; do [ ! -e "$libraries/libcublasLt.so" ] || break; done
cat >"$folder/heap.c" <<'C'
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
static __thread long calls; /* of this thread: the driver has threads of its own */
void *malloc(size_t n) { return ++calls, __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return ++calls, __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return ++calls, __libc_realloc(p, n); }
static void check(int status) {
  if (status != 0) fprintf(stderr, "status %d\n", status), exit(1);
}
enum { N = 1024, WORKSPACE = 32 << 20 };
static cublasLtHandle_t handle;
static cublasLtMatmulDescOpaque_t operation;
static cublasLtMatrixLayoutOpaque_t layout;
static cublasLtMatmulHeuristicResult_t best;
static char *memory;
static cudaStream_t stream;
static void multiply(void) {
  const float one = 1, zero = 0;
  char *a = memory, *b = a + 2 * N * N, *c = b + 2 * N * N, *workspace = c + 2 * N * N;
  check(cublasLtMatmul(handle, &operation, &one, a, &layout, b, &layout, &zero, c, &layout, c, &layout, &best.algo,
                       workspace, WORKSPACE, stream));
}
static void tell(const char *what, long before) { printf("%s: heap calls: %s\n", what, calls > before ? "yes" : "no"); }
int main(void) {
  const size_t workspace = WORKSPACE;
  cublasLtMatmulPreferenceOpaque_t preference;
  int found = 0;
  setvbuf(stdout, (char[BUFSIZ]){0}, _IOFBF, BUFSIZ);
  check(cudaMalloc((void **)&memory, 6 * N * N + WORKSPACE));
  check(cudaMemset(memory, 0, 6 * N * N));
  check(cudaStreamCreate(&stream));
  check(cublasLtCreate(&handle));
  check(cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  check(cublasLtMatrixLayoutInit(&layout, CUDA_R_16F, N, N, N));
  check(cublasLtMatmulPreferenceInit(&preference));
  check(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
  check(cublasLtMatmulAlgoGetHeuristic(handle, &operation, &layout, &layout, &layout, &layout, &preference, 1, &best, &found));
  for (int i = 0; i < 100; ++i) multiply();
  check(cudaStreamSynchronize(stream));
  printf("cuBLASLt %zu\n", cublasLtGetVersion());
  long before = calls;
  multiply();
  tell("call 101", before);
  cudaGraph_t graph;
  cudaGraphExec_t recorded;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  before = calls;
  multiply();
  tell("a call that is recorded", before);
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&recorded, graph, 0));
  for (int i = 0; i < 100; ++i) check(cudaGraphLaunch(recorded, stream));
  check(cudaStreamSynchronize(stream));
  before = calls;
  check(cudaGraphLaunch(recorded, stream));
  tell("launch 101 of the recorded graph", before);
  check(cudaStreamSynchronize(stream));
}
C
gcc -O1 -w -o "$folder/program" "$folder/heap.c" -I "$cuda/include" -L "$libraries" -Wl,-rpath,"$libraries" -lcublasLt -lcudart
found=$("$folder/program")
echo "with: $(printf '%s\n' "$found" | head -n 1)"
judge "call 101: heap calls: yes
a call that is recorded: heap calls: yes
launch 101 of the recorded graph: heap calls: no" "$(printf '%s\n' "$found" | tail -n 3)"
