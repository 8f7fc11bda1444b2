#!/bin/sh
# Usage: sh findings/gcc-links-an-older-glibc.sh   (x86-64, g++ 12.2, PyPI; 100 MB, a minute)
. "$(dirname "$0")/steps"
say "What GCC 12 links on Debian 12 needs its glibc, 2.36: for an older one it must run on an older system." \
  "Zig's stubs of 2.28 are enough for its linker. All of libstdc++.a lacks two names there; with these it needs 2.25."
needs gcc g++ objdump
version=$(g++ -dumpfullversion)
echo "with: g++ $version"
[ "$version $(uname -m)" = "12.2.0 x86_64" ] || cannot_run "this was seen with g++ 12.2.0 on x86-64."
from_pypi ziglang==0.17.1
cd "$folder"
mkdir stubs
echo 'int main(void) { return 0; }' >empty.c
ZIG_GLOBAL_CACHE_DIR=$folder/zig ZIG_LOCAL_CACHE_DIR=$folder/zig "$python" -m ziglang cc -target x86_64-linux-gnu.2.28 \
  -pie -o empty empty.c -lm -lpthread -ldl -lrt >log 2>&1 || cannot_run "Zig has not linked: $(tail -n 1 log)"
for file in libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libld.so.2 Scrt1.o libc_nonshared.a; do
  find zig -name $file -exec cp {} stubs \;
done
found="of the stubs: $(cd stubs && echo *)"
ln -s libm.so.6 stubs/libm.so
(cd stubs && echo "GROUP ( $PWD/libc.so.6 $PWD/libc_nonshared.a AS_NEEDED ( $PWD/libpthread.so.0" \
  "$PWD/libdl.so.2 $PWD/librt.so.1 $PWD/libld.so.2 ) )" >libc.so)  # what -lc means
cat >seven.cpp <<'CPP'
#include <iostream>
extern "C" int seven() { std::cout << "hello, "; return 7; }
CPP
cat >two.c <<'C'
#include <stdint.h>
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
__attribute__((visibility("hidden"))) uint32_t arc4random(void) { return 4; }  // a stand-in: of no use as random bits
C
gcc -O1 -fPIC -c two.c
link() { # link LIBRARY ARGUMENT...: with every object of libstdc++.a
  library=$1
  shift
  LC_ALL=C gcc -O1 -fPIC -shared -o "$library" seven.cpp "$@" -Wl,--whole-archive "$(g++ -print-file-name=libstdc++.a)" \
    -Wl,--no-whole-archive -lm -Wl,-z,defs >log 2>&1
}
newest() { # newest LIBRARY: the newest glibc that it asks for
  objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1
}
link here.so
found="$found
as ever: $(newest here.so)"
link old.so "-B$folder/stubs" "-L$folder/stubs" ||
  found="$found
with the stubs, missing: $(sed -n "s/.*undefined reference to .\(.*\)'.*/\1/p" log | sort -u | paste -sd " ")"
link old.so two.o "-B$folder/stubs" "-L$folder/stubs" || cat log
judge "of the stubs: Scrt1.o libc.so.6 libc_nonshared.a libdl.so.2 libld.so.2 libm.so.6 libpthread.so.0 librt.so.1
as ever: GLIBC_2.36
with the stubs, missing: __libc_single_threaded arc4random
with the stubs and two.c: GLIBC_2.25
it runs: hello, 7" "$found
with the stubs and two.c: $(newest old.so)
it runs: $(python3 -c 'import ctypes; print(ctypes.CDLL("./old.so").seven())')"
