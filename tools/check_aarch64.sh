#!/bin/sh
# Builds the library for aarch64 with Debian's cross compiler (g++-aarch64-linux-gnu) and runs it under qemu-user: tests
# of what the processor's kind matters to, and whole captions by another program through the installed library.
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

# The C library is the cross compiler's own; what the unpacked libraries need in turn lies beside them.
libraries=$sysroot/usr/lib/aarch64-linux-gnu
run() { timeout 600 qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$libraries" "$@"; }

sh tools/build.sh aarch64 ocellus_shared -DOCELLUS_WERROR=ON -DCMAKE_CXX_FLAGS=-Wno-error=restrict
cmake --build --preset aarch64 --parallel "$(nproc)" \
  --target ocellus test_platform test_quant test_kernels test_mm test_runtime >&2
# Here the emulated processor has dot products (and SVE, which nothing uses); then products by one of 2015 without.
OCELLUS_TEST_SMALL=1 ctest --preset aarch64 --parallel "$(nproc)" --timeout 600
export OCELLUS_TEST_SMALL=1
run -cpu cortex-a72 build/aarch64/tests/test_kernels '--source-file=*/matmul_test*,*/norm_matmul*'

# The sample pictures' captions by a C program of the installed library, static and shared. It is installed below the
# sysroot, where the toolchain file looks for packages.
mkdir -p "$sysroot/tmp"
work=$(mktemp -d "$sysroot/tmp/XXXXXX")
trap 'rm -rf "$work"' EXIT
cmake --install build/aarch64 --prefix "$work/prefix" >"$work/log"
cmake -G "${CMAKE_GENERATOR:-Ninja}" -S tests/install/consumer -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_TOOLCHAIN_FILE="$PWD/tools/cmake/aarch64.cmake" -DOCELLUS_SYSROOT="$sysroot" >"$work/log"
cmake --build "$work/build" >"$work/log" || { cat "$work/log" >&2; exit 1; }

check_caption() {  # check_caption PROGRAM PICTURE
  want=$(sed -n "s/.*\"$2\": \"\(.*\)\".*/\1/p" apps/samples/captions.json)
  models=apps/models
  got=$(run "$work/build/$1" "$models/shapeboard-34m-q8_0.gguf" "$models/mmproj-shapeboard-34m-q8_0.gguf" \
    "apps/samples/$2" | sed 's/^ *//')
  if [ -z "$want" ] || [ "$got" != "$want" ]; then
    say "$1 says of $2 '$got' instead of '$want'" >&2
    exit 1
  fi
  say "$1: $2: $got"
}
check_caption consumer board_01.png
check_caption consumer_shared board_02.png
say "all passed, under $(qemu-aarch64 --version | head -n 1)"
