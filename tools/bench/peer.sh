#!/bin/sh
# llama.cpp beside this program on the same random files: builds the peer once, outside the tree; peer.py measures.
#
#   tools/bench/peer.sh [--cuda] [--source PATH] [--folder DIR] [--cmake OPTIONS] [--build-only] [OPTION OF peer.py]...
#
# --source: the source package of llama-cpp-python, packed or unpacked (default: from PyPI).
# --folder: for all that is built and made (default: ocellus-peer in the user's cache folder).
# --cmake: more options for its build, as -DCMAKE_CUDA_ARCHITECTURES=90 where there is no GPU.
set -eu
version=0.3.36
bench=$(cd "$(dirname "$0")" && pwd)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/ocellus-peer
source='' device=cpu build_only='' options=''
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n 2,8p "$0"; exec python3 "$bench/peer.py" -h ;;
    --cuda) device=cuda ;;
    --build-only) build_only=yes ;;
    --source) source=$2; shift ;;
    --folder) folder=$2; shift ;;
    --cmake) options=$2; shift ;;
    *) break ;;
  esac
  shift
done
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
build=$folder/build-$device
programs="llama-bench llama-batched-bench llama-mtmd-cli"

is_built() {
  for program in $programs; do [ -x "$build/bin/$program" ] || return 1; done
}
if ! is_built; then
  if [ -z "$source" ]; then
    source=$folder/llama_cpp_python-$version.tar.gz
    if [ ! -f "$source" ]; then
      python3 -m venv "$folder/venv"
      "$folder/venv/bin/pip" install -q scikit-build-core
      "$folder/venv/bin/pip" download -q -d "$folder" --no-deps --no-binary llama-cpp-python --no-build-isolation \
        "llama-cpp-python==$version"
    fi
  fi
  if [ -f "$source" ]; then
    rm -rf "$folder/source"
    mkdir "$folder/source"
    tar -xf "$source" -C "$folder/source" --strip-components=1
    source=$folder/source
  fi
  # GCC's ldtilecfg says that it reads 8 bytes of its 64: without these flags the stores of the others are left out, and
  # llama.cpp ends with a segmentation fault on CPUs with AMX.
  export CXXFLAGS="${CXXFLAGS:-} -fno-dse -fno-tree-dse"
  cuda=OFF
  [ $device = cpu ] || cuda=ON
  # shellcheck disable=SC2086  # several options
  cmake -S "$source/vendor/llama.cpp" -B "$build" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DGGML_CUDA=$cuda \
    -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
    -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF \
    -DLLAMA_BUILD_COMMIT="llama-cpp-python $(sed -n 's/^Version: //p' "$source/PKG-INFO")" $options >&2
  # shellcheck disable=SC2086  # three names
  cmake --build "$build" --parallel "$(nproc)" --target $programs >&2
fi
[ -n "$build_only" ] || exec python3 "$bench/peer.py" "$folder" $device "$@"
