#!/bin/sh
# Compiles every CUDA source where a CUDA compiler is installed; no GPU is needed for that.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/local/cuda/bin
sources=$(find platform quant kernels mm runtime -name '*.cu')
if [ -z "$sources" ]; then
  echo "check_cuda: there are no CUDA sources"
  exit 0
fi
if ! command -v nvcc >/dev/null; then
  echo "check_cuda: no nvcc here, CUDA sources were not compiled"
  exit 0
fi
object=$(mktemp --suffix=.o)
trap 'rm -f "$object"' EXIT
for source in $sources; do
  echo "check_cuda: $source"
  nvcc -std=c++20 -Werror all-warnings -gencode arch=compute_87,code=sm_87 -I . -c "$source" -o "$object"
done
