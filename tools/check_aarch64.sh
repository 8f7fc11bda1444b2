#!/bin/sh
# Builds everything for aarch64 with Debian's cross compiler (g++-aarch64-linux-gnu) and runs it under qemu-user: tests of
# what the processor's kind matters to, and a whole caption by another program through the installed library.
set -eu
cd "$(dirname "$0")/.."
say() { echo "check_aarch64: $*"; }

if [ "$(uname -m)" = aarch64 ]; then
  say "this machine is one: its own build is the check"
  exit 0
fi
for program in aarch64-linux-gnu-g++ qemu-aarch64; do
  if ! command -v $program >/dev/null; then
    say "no $program here, nothing was compiled for aarch64"
    exit 0
  fi
done
sysroot=$PWD/build/aarch64-sysroot
if ! sh tools/unpack_arm64.sh "$sysroot"; then
  # Ubuntu keeps arm64 in another archive.
  if grep -q '^ID=debian' /etc/os-release; then exit 1; fi
  say "this machine's archives have no arm64 packages, nothing was compiled for aarch64"
  exit 0
fi

sh tools/build.sh aarch64 all -DOCELLUS_WERROR=ON -DCMAKE_CXX_FLAGS=-Wno-error=restrict
# Two processors: one with SVE, dot products and more, whose SVE nothing uses; and one of 2015 without dot products.
OCELLUS_TEST_SMALL=1 ctest --preset aarch64 --parallel "$(nproc)" --timeout 600
QEMU_CPU=cortex-a72 OCELLUS_TEST_SMALL=1 qemu-aarch64 -L /usr/aarch64-linux-gnu build/aarch64/tests/test_kernels \
  --source-file='*/matmul*,*/norm_matmul*' --minimal

# Paths under the sysroot are taken as they are, so that what is installed lies there.
TMPDIR=$sysroot/tmp
mkdir -p "$TMPDIR"
export TMPDIR
CC=aarch64-linux-gnu-gcc CMAKE_TOOLCHAIN_FILE=$PWD/tools/cmake/aarch64.cmake OCELLUS_SYSROOT=$sysroot \
  RUNNER='qemu-aarch64 -L /usr/aarch64-linux-gnu' sh tests/install/run.sh build/aarch64
say "builds, and its tests pass under $(qemu-aarch64 --version | head -n 1)"
