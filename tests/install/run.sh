#!/bin/sh
# Installs a build into a fresh prefix, moves it, and builds the same C program against it through find_package and
# pkg-config, static and shared, the C++ header's test without exceptions and RTTI, the program at the head of ocellus.h
# as C and as C++, and the examples; expects the same right caption from all and from the installed program.
# usage: tests/install/run.sh BUILD_DIR
set -eu
CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja}  # the one tools/setup.sh installs
export CMAKE_GENERATOR
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:?usage: tests/install/run.sh BUILD_DIR}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "install: $*" >&2
  exit 1
}

# An installation with a part missing is none: nothing is copied, and a sentence says what to build.
mv "$build/libocellus.a" "$work"
put_back() { mv "$work/libocellus.a" "$build"; }
trap 'put_back; rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/half" >"$work/half.log" 2>&1 && fail "half an installation was called a whole"
tr -s ' \n' ' ' <"$work/half.log" | grep -q 'Nothing was installed: .*libocellus.a is missing. Build it first: cmake --build' ||
  fail "an installation without the archive said: $(cat "$work/half.log")"
[ ! -e "$work/half" ] || fail "half an installation was left: $(find "$work/half")"
put_back
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" >"$work/install.log"
mv "$work/first" "$work/prefix"  # an installed tree must not depend on where it was installed
prefix=$work/prefix
models=$prefix/share/ocellus/models
model=$models/shapeboard-34m-q8_0.gguf
mmproj=$models/mmproj-shapeboard-34m-q8_0.gguf
samples=$root/apps/samples
picture=$samples/board_01.png
want=$(sed -n 's/.*"board_01.png": "\(.*\)".*/\1/p' "$samples/captions.json")
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name ocellus.pc)")
library_dir=$(dirname "$(find "$prefix" -name libocellus.a)")
export PKG_CONFIG_PATH
shared=
if [ -e "$library_dir/libocellus.so" ]; then shared=yes; fi

check() {  # check NAME PROGRAM ARGUMENT...
  name=$1
  shift
  got=$("$@" | sed 's/^ *//')  # models begin an answer with a space
  [ "$got" = "$want" ] || fail "$name answered '$got' instead of '$want'"
  echo "install: $name: $got"
}

# compile SOURCE PROGRAM FLAG...
compile_c() { ${CC:-cc} -std=c99 -Wall -Wextra -Werror "$1" -o "$work/$2" $3; }
compile_cpp() {
  ${CXX:-c++} -std=c++17 -fno-exceptions -fno-rtti -Wall -Wextra -Wshadow -Wconversion -Werror "$1" -o "$work/$2" $3
}

# As a part of another project the library alone is configured, without tests, program and installation.
for fetch in OFF ON; do
  cmake -S "$root/tests/install/embedded" -B "$work/embedded-$fetch" -DOCELLUS_FOLDER="$root" -DFETCH=$fetch \
    -DOCELLUS_CUDA=OFF >"$work/embedded.log" 2>&1 || { cat "$work/embedded.log" >&2; fail "no part of another project"; }
done
echo "install: configured as a part of another project"

cmake -S "$root/tests/install/consumer" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log"
cmake --build "$work/cmake" >"$work/build.log" || { cat "$work/build.log" >&2; exit 1; }
check "through find_package" "$work/cmake/consumer" "$model" "$mmproj" "$picture"
main=$root/tests/install/consumer/main.c
compile_c "$main" by-pkg-config "$(pkg-config --cflags --libs ocellus-static)"
check "through pkg-config, the archive" "$work/by-pkg-config" "$model" "$mmproj" "$picture"
compile_cpp "$root/tests/install/consumer/caption_test.cpp" cpp "$(pkg-config --cflags --libs ocellus-static)"
check "the C++ header" "$work/cpp" "$model" "$mmproj" "$picture"

# The program at the head of ocellus.h, as it stands there, in both languages.
sed -n '/^ \* @code$/,/^ \* @endcode$/p' "$prefix/include/ocellus.h" | sed '/@\(end\)\?code/d; s/^ \* \{0,1\}//' >"$work/head.c"
[ -s "$work/head.c" ] || fail "ocellus.h has no program at its head"
cp "$work/head.c" "$work/head.cpp"
strict="-Wall -Wextra -Wpedantic -Werror"
for header in "$prefix"/include/ocellus*.h; do  # each part may be included alone, and before the others
  printf '#include <%s>\n#include <ocellus.h>\nint main(void) { return OCELLUS_OK; }\n' "${header##*/}" >"$work/part.c"
  ${CC:-cc} -std=c90 $strict -I"$prefix/include" -fsyntax-only "$work/part.c" || fail "${header##*/} alone is no C"
  ${CXX:-c++} -std=c++17 $strict -I"$prefix/include" -x c++ -fsyntax-only "$work/part.c" || fail "${header##*/} alone is no C++"
done
${CC:-cc} -std=c11 $strict "$work/head.c" -o "$work/head-c" $(pkg-config --cflags --libs ocellus-static)
${CXX:-c++} -std=c++20 $strict "$work/head.cpp" -o "$work/head-cpp" $(pkg-config --cflags --libs ocellus-static)
for program in head-c head-cpp; do
  check "the program in ocellus.h, $program" sh -c '"$1" "$2" "$3" <"$4"' sh "$work/$program" "$model" "$mmproj" "$picture" \
    2>"$work/said"
  grep -q '^[0-9.]* MB planned. $' "$work/said" || fail "the program in ocellus.h said: $(cat "$work/said")"
done
! "$work/head-c" "$model" "$mmproj" 2>"$work/said" <"$main" || fail "the program in ocellus.h takes a text for a picture"
grep -q 'MB planned. .*picture' "$work/said" || fail "the program in ocellus.h said of a text: $(cat "$work/said")"

if [ -n "$shared" ]; then
  flags=$(pkg-config --cflags --libs ocellus)
  for hidden in -lhwy -lsqlite3 -lstdc++; do
    case $flags in *"$hidden"*) fail "the shared library's users need not know of $hidden: $flags" ;; esac
  done
  compile_c "$main" by-shared "$flags"
  readelf -d "$work/by-shared" | grep -q 'NEEDED.*libocellus\.so\.0\.1' || fail "libocellus.so.0.1 was not linked"
  check "through find_package, shared" "$work/cmake/consumer_shared" "$model" "$mmproj" "$picture"
  check "through pkg-config, shared" env LD_LIBRARY_PATH="$library_dir" "$work/by-shared" "$model" "$mmproj" "$picture"
  compile_cpp "$root/tests/install/consumer/caption_test.cpp" cpp-shared "$flags"
  check "the C++ header, shared" env LD_LIBRARY_PATH="$library_dir" "$work/cpp-shared" "$model" "$mmproj" "$picture"
  # --static names what the archive needs; which form -locellus is, the linker says.
  compile_c "$main" by-static "$(pkg-config --static --cflags --libs ocellus | sed 's/-locellus/-l:libocellus.a/')"
  check "through pkg-config --static" "$work/by-static" "$model" "$mmproj" "$picture"
  # What has the archive alone must not need the shared library, and the other way round.
  cp -r "$prefix" "$work/archive-only"
  find "$work/archive-only" \( -name 'libocellus.so*' -o -name 'ocellus-shared-targets*' \) -delete
  cmake -S "$root/tests/install/consumer" -B "$work/cmake-archive" -DCMAKE_PREFIX_PATH="$work/archive-only" \
    >"$work/configure.log"
fi

# The example in the README must compile as it stands there.
sed -n '/^```cpp$/,/^```$/p' "$root/README.md" | sed '/^```/d' >"$work/readme.cpp"
[ -s "$work/readme.cpp" ] || fail "the README has no example in C++"
compile_cpp "$work/readme.cpp" readme.o "-c $(pkg-config --cflags ocellus)"

# The examples as they are installed: all are compiled and run.
examples=$(find "$prefix" -type d -name examples)
cmake -S "$examples" -B "$work/examples" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_FLAGS=-Werror \
  -DCMAKE_CXX_FLAGS=-Werror ${shared:+-DOCELLUS_LINK=ocellus::shared} >"$work/configure.log"
cmake --build "$work/examples" >"$work/build.log" || { cat "$work/build.log" >&2; exit 1; }
check "example caption" "$work/examples/caption" "$model" "$mmproj" "$picture"
check "example batch" "$work/examples/batch" "$model" "$mmproj" "$picture"
check "example library" sh -c '"$@" | head -n 1' sh "$work/examples/library" "$model" "$mmproj" "$work/shelf" "$picture"
expect() {  # expect PATTERN EXAMPLE ARGUMENT...: a line of its output
  pattern=$1
  shift
  "$work/examples/$@" >"$work/output" || { cat "$work/output" >&2; fail "example $1 failed"; }
  grep -q "$pattern" "$work/output" || { cat "$work/output" >&2; fail "example $1 did not say '$pattern'"; }
  echo "install: example $1: $(grep "$pattern" "$work/output" | tail -n 1)"
}
expect 'from the library' library "$model" "$mmproj" "$work/shelf" "$picture"
expect '128 MB,  2 bits: [0-9]* pictures' budget "$model" "$mmproj" 40 128
! "$work/examples/budget" "$model" "$mmproj" much 2>"$work/output" || fail "example budget takes a word for a number"
expect 'handed in as many' own_memory "$model" "$mmproj"
expect '^2: .*\[ok, ' camera_loop "$model" "$mmproj" 3 60000
expect '\[deadline passed, ' camera_loop "$model" "$mmproj" 1 1
expect '^cancelled after' cancel "$model" "$mmproj" 1
expect 'ms old, [0-9]* dropped' lifecycle_node "$model" "$mmproj"

if [ -x "$prefix/bin/ocellus" ]; then
  check "installed program" "$prefix/bin/ocellus" caption --quiet --prompt "Describe this image." "$picture"
  for bits in 2 1; do
    remark=$("$prefix/bin/ocellus" plan --kv-bits $bits --calib auto 2>&1 >/dev/null)
    case $remark in
      "" | *"are calibrated by tau"*"$prefix"*) ;;  # a pair of zeros changes nothing and is not remarked on
      *) fail "the calibration for $bits bits is missing: $remark" ;;
    esac
  done
fi
