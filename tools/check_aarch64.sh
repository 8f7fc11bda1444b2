#!/bin/sh
# Compiles the library for aarch64 where Debian's cross compiler (g++-aarch64-linux-gnu) is installed; nothing is run.
set -eu
cd "$(dirname "$0")/.."
compiler=aarch64-linux-gnu-g++
if ! command -v "$compiler" >/dev/null; then
  echo "check_aarch64: no $compiler here, nothing was compiled for aarch64"
  exit 0
fi
# The headers of the libraries we use are the same for every CPU. Those of this machine come last, so that the cross
# compiler finds its own before them.
set -- -std=c++20 -O2 -Wall -Wextra -Wshadow -Werror -fno-exceptions -fno-rtti -I . -idirafter /usr/include \
  -idirafter /usr/include/stb '-DOCELLUS_VERSION="check"'
find platform quant kernels mm runtime -name '*.cpp' ! -name cuda_device.cpp -print0 |  # that one needs CUDA
  xargs -0 -P "$(nproc)" -I '{}' "$compiler" "$@" -c '{}' -o /dev/null
echo "check_aarch64: the library compiles for aarch64"
