#!/bin/sh
# Installs a build into a fresh prefix, moves it, builds the same C program against it through find_package and through
# pkg-config, and expects the same right caption from both and from the installed program.
# usage: tests/install/run.sh BUILD_DIR
set -eu
CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja}  # the one tools/setup.sh installs
export CMAKE_GENERATOR
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:?usage: tests/install/run.sh BUILD_DIR}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" >"$work/install.log"
mv "$work/first" "$work/prefix"  # an installed tree must not depend on where it was installed
prefix=$work/prefix
models=$prefix/share/ocellus/models
picture=$root/apps/samples/board_01.png
want=$(sed -n 's/.*"board_01.png": "\(.*\)".*/\1/p' "$root/apps/samples/captions.json")

check() {  # check NAME PROGRAM ARGUMENT...
  name=$1
  shift
  got=$("$@" | sed 's/^ *//')  # models begin an answer with a space
  if [ "$got" != "$want" ]; then
    echo "install: $name answered '$got' instead of '$want'" >&2
    exit 1
  fi
  echo "install: $name: $got"
}

cmake -S "$root/tests/install/consumer" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log"
cmake --build "$work/cmake" >"$work/build.log" || { cat "$work/build.log" >&2; exit 1; }

pc=$(dirname "$(find "$prefix" -name ocellus.pc)")
PKG_CONFIG_PATH=$pc
export PKG_CONFIG_PATH
# The unquoted expansion is meant: pkg-config prints a list of flags.
${CC:-cc} -std=c99 -Wall -Wextra -Werror "$root/tests/install/consumer/main.c" -o "$work/by-pkg-config" \
  $(pkg-config --cflags --libs ocellus)

# The example in the README must compile as it stands there.
sed -n '/^```c$/,/^```$/p' "$root/README.md" | sed '/^```/d' >"$work/readme.c"
[ -s "$work/readme.c" ] || { echo "install: the README has no example in C" >&2; exit 1; }
${CC:-cc} -std=c99 -Wall -Wextra -Werror -c "$work/readme.c" -o "$work/readme.o" $(pkg-config --cflags ocellus)

model=$models/shapeboard-34m-q8_0.gguf
mmproj=$models/mmproj-shapeboard-34m-q8_0.gguf
check "through find_package" "$work/cmake/consumer" "$model" "$mmproj" "$picture"
check "through pkg-config" "$work/by-pkg-config" "$model" "$mmproj" "$picture"
if [ -x "$prefix/bin/ocellus" ]; then
  check "installed program" "$prefix/bin/ocellus" caption --quiet --prompt "Describe this image." "$picture"
  for bits in 2 1; do
    remark=$("$prefix/bin/ocellus" plan --kv-bits $bits --calib auto 2>&1 >/dev/null)
    [ -z "$remark" ] || { echo "install: the calibration for $bits bits is missing: $remark" >&2; exit 1; }
  done
fi
