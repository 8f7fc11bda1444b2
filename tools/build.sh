#!/bin/sh
# Configures one preset and builds one target of it: tools/build.sh PRESET TARGET [CMAKE_OPTION...]
set -eu
cd "$(dirname "$0")/.."
usage='usage: tools/build.sh PRESET TARGET [CMAKE_OPTION...]'
preset=${1:?$usage}
target=${2:?$usage}
shift 2
if command -v ccache >/dev/null; then
  set -- "$@" -DCMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja}
export CMAKE_GENERATOR
cmake --preset "$preset" "$@" >&2
cmake --build --preset "$preset" --target "$target" --parallel "$(nproc)" >&2
