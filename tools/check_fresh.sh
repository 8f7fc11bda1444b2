#!/bin/sh
# What a stranger meets: the pages' lines in a clean clone of HEAD, on a bare system of this machine's own release, by a
# user who is not root but may use sudo; then the Debian packages made there, on another bare system.
# usage: tools/check_fresh.sh [BUILD_DIR]
# With BUILD_DIR its objects are taken over: compiled are only files that include headers of
# packages, one for each package. Without it everything is, which takes a quarter of an hour.
# Needs mmdebstrap, and root or user namespaces. Packages come from where this machine's come from.
set -eu
cd "$(dirname "$0")/.."
say() { echo "check_fresh: $*"; }
skip() {
  say "$*, so no bare system was made"
  exit 0
}

if [ -z "${OCELLUS_FRESH_NAMESPACE:-}" ]; then
  command -v mmdebstrap >/dev/null && command -v apt-get >/dev/null || skip "no mmdebstrap here"
  git rev-parse HEAD >/dev/null 2>&1 || skip "this is no clone"
  new="unshare --mount"
  [ "$(id -u)" -eq 0 ] || new="$new --map-root-user --map-auto"
  $new mount -t tmpfs none /tmp 2>/dev/null || skip "neither root's namespaces nor a user's can be had here"
  OCELLUS_FRESH_NAMESPACE=1 exec $new sh "$0" "$@"
fi
source=$PWD
build=${1:+$(cd "$1" && pwd)}
work=$(mktemp -d)
chmod 755 "$work"
trap 'umount -R "$work"/*/dev "$work"/*/proc "$work"/*/var/cache/apt/archives 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT

find_sources() {
  apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    grep -E "/(debian|ubuntu)[a-z-]*/? "
}
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
find_sources >"$work/sources" || skip "apt names no archive of a distribution"
apt-config dump | grep -E '^Acquire::(https?|Check-)' >"$work/apt.conf" || true
mkdir -p "$work/archives/partial" "$work/tree"
mmdebstrap --quiet --mode=root --variant=minbase --include=sudo,ca-certificates --aptopt="$work/apt.conf" \
  "$release" "$work/tree" "$work/sources" >"$work/log" 2>&1 || {
  grep -qE 'Could not (resolve|connect)|Unable to connect|Failed to fetch' "$work/log" && skip "the archives are not reached"
  cat "$work/log" >&2
  exit 1
}
cp /etc/resolv.conf /etc/hosts "$work/tree/etc"
chroot "$work/tree" useradd --create-home --shell /bin/bash newcomer
echo 'newcomer ALL=(ALL) NOPASSWD: ALL' >"$work/tree/etc/sudoers.d/newcomer"
cp -a "$work/tree" "$work/packages"
say "two bare systems of $release, $(du -sm "$work/tree" | cut -f 1) MB each"

enter() {  # enter ROOT: what programs expect of a running system, and one store for downloaded packages
  mount --rbind /dev "$1/dev"
  mount -t proc proc "$1/proc"
  mount --bind "$work/archives" "$1/var/cache/apt/archives"
}
as_newcomer() {  # as_newcomer ROOT COMMAND, in the clone
  chroot "$1" su - newcomer -c "export LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1; cd '$source' && $2"
}

# The clone lies where this tree does, and its files are old, so that objects of a build there need no renewal.
tree=$work/tree
mkdir -p "$tree$source"
git clone -q --no-hardlinks "$source" "$tree$source"
if [ -n "$build" ]; then
  cmake --build "$build" --target ocellus_installed >/dev/null
  find "$tree$source" -path '*/.git' -prune -o -type f -exec touch -d 2001-01-01 {} +
  mkdir -p "$tree$source/build/release"
  tar -C "$build" --exclude=./tests --exclude=./bench --exclude='*.a' --exclude='webp_*.o' --exclude='libocellus.so*' --exclude=./apps/ocellus \
    --exclude=CMakeCache.txt --exclude='./CMakeFiles/[0-9]*' --exclude=_CPack_Packages --exclude='*.deb' -c . |
    tar -C "$tree$source/build/release" -x
  # The options it was built with; all else is found anew.
  grep -E '^(OCELLUS_WERROR|CMAKE_CXX_FLAGS|CMAKE_CXX_COMPILER_LAUNCHER):' "$build/CMakeCache.txt" \
    >"$tree$source/build/release/CMakeCache.txt"
  # A file for each package whose headers are included.
  (cd "$tree$source" && touch $(ls kernels/linear/rmsnorm_cpu.cpp runtime/vocabulary/pretokenize.cpp mm/views/image_hash.cpp mm/pictures/png_decode.cpp mm/pictures/turbo_jpeg_decoder.cpp mm/pictures/webp_decoder.cpp \
    runtime/branches/library/sqlite_statement.cpp apps/main.cpp apps/commands/devices.cpp apps/camera/jpeg.cpp apps/http/http_server.cpp apps/hub/web.cpp apps/hub/digest.cpp))
  if command -v ccache >/dev/null; then packages=ccache; fi  # the launcher of that build
fi
chroot "$tree" chown -R newcomer: "$source"
enter "$tree"
if [ -n "${packages:-}" ]; then
  chroot "$tree" sh -c "apt-get -q update && apt-get -q -y install $packages" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
fi
say "a clean clone of $(git rev-parse --short HEAD): sh tools/demo.sh"
as_newcomer "$tree" "sh tools/demo.sh" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
grep -E '^(A|Budget|total|setup:)' "$work/log" || true
say "the lines of the pages that build, pack and answer; the packages below are for those that embed"
as_newcomer "$tree" "python3 tests/install/pages_test.py TreeTest.test_1_every_line_that_is_typed_into_a_shell_runs \
  TreeTest.test_3_the_build_of_the_demo_can_be_packed TreeTest.test_4_every_answer_is_the_one_that_the_program_gives"

# The packages, for people who have no source, and what the pages say of using them.
packages=$work/packages
mkdir -p "$packages$source/tests/install" "$packages$source/apps" "$packages$source/runtime"
cp README.md "$packages$source"
cp runtime/README.md "$packages$source/runtime"
cp tests/install/pages_test.py "$packages$source/tests/install"
cp -r apps/samples apps/examples "$packages$source/apps"
cp "$tree$source"/build/release/*.deb "$packages/tmp"
enter "$packages"
chroot "$packages" sh -c 'apt-get -q update && apt-get -q -y install --no-install-recommends /tmp/ocellus_*.deb' \
  >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
say "the program's package brought $(grep -c '^Setting up' "$work/log") packages"
as_newcomer "$packages" "ocellus caption apps/samples/board_01.png"
chroot "$packages" sh -c 'apt-get -q -y install --no-install-recommends /tmp/libocellus*.deb g++ make cmake python3' \
  >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
as_newcomer "$packages" "python3 tests/install/pages_test.py --installed"
say "all passed"
