#!/bin/sh
# Configures and builds one preset: tools/build.sh PRESET [CMAKE_OPTION...]
set -eu
cd "$(dirname "$0")/.."
preset=${1:?usage: tools/build.sh PRESET [CMAKE_OPTION...]}
shift
if command -v ccache >/dev/null; then
  set -- "$@" -DCMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja}
export CMAKE_GENERATOR
cmake --preset "$preset" "$@" >&2
cmake --build --preset "$preset" --parallel "$(nproc)" >&2
