#!/bin/sh
# Builds what differs with the CUDA backend where a CUDA compiler is installed; no GPU is needed for that. Tests and
# benches of the ops are the same code with and without it: tools/gpu_check.sh builds them where there is a GPU.
# tools/check_cuda.sh [ARCHITECTURE...]   default: 87, the Jetson Orin; "all" for every one we support
set -eu
cd "$(dirname "$0")/.."
if ! PATH=$PATH:/usr/local/cuda/bin command -v nvcc >/dev/null; then
  echo "check_cuda: no nvcc here, CUDA sources were not compiled"
  exit 0
fi
architectures=${*:-87}
[ "$architectures" != all ] || architectures="87 110 86 89 90 120"
echo "check_cuda: building for $architectures"
# Nothing of this is run, so code for the CPU is taken over from another build, and that of tests is not optimised.
log=build/cuda-check/ptxas.log  # grows: it still has what is not compiled again
mkdir -p build/cuda-check
{
  sh tools/build.sh release ocellus &&
  sh tools/build.sh cuda-check test_allocation -DOCELLUS_CPU_FROM="$PWD/build/release" \
    -DOCELLUS_CUDA_ARCHITECTURES="$(echo "$architectures" | tr ' ' ';')" \
    -DOCELLUS_WERROR=ON -DCMAKE_CUDA_FLAGS="-Xptxas -v" &&
    cmake --build --preset cuda-check --target cublas_rate_bench --parallel "$(nproc)"
} >>"$log" 2>&1 || { tail -n 50 "$log"; exit 1; }
python3 tools/check_kernels.py "$log"
