#!/bin/sh
# Everything that a release consists of, out of HEAD: the source archive, the wheel, the Debian packages and their SHA-256.
#
#   sh tools/package/release.sh [--twice] [FOLDER]      default: build/release-files
#
# Each is checked where nothing else is: check_wheel.sh, check_deb.sh. --twice builds all of it again in another clone and
# expects the same bytes. Runs on Debian 12.
set -eu
cd "$(dirname "$0")/../.."
twice=
[ "${1:-}" != --twice ] || { twice=yes; shift; }
mkdir -p "${1:-build/release-files}"
out=$(cd "${1:-build/release-files}" && pwd)
version=$(sed -n 's/^project(ocellus VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
say() { echo "release: $*" >&2; }
[ -z "$(git status --porcelain)" ] || { say "the tree has changes that are not committed"; exit 1; }
# What is packed has the date of its commit. Debian's tools, CMake and pip's read it.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make_all() {  # make_all FOLDER, out of a clone, whose path is the same both times: debug information would have it
  rm -rf "$work/ocellus-$version"
  git clone -q . "$work/ocellus-$version"
  (
    cd "$work/ocellus-$version"
    git archive --prefix="ocellus-$version/" HEAD | gzip -9n >"$1/ocellus-$version.tar.gz"
    sh tools/package/wheel.sh "$1"
    sh tools/build.sh release ocellus_installed -DOCELLUS_CUDA=OFF -DOCELLUS_BUILD_TESTS=OFF
    (cd build/release && cpack -G DEB -B "$1") >"$work/log" || { cat "$work/log" >&2; exit 1; }
    rm -rf "$1/_CPack_Packages"
  )
  (cd "$1" && sha256sum ./*.tar.gz ./*.whl ./*.deb >SHA256SUMS)
}
rm -f "$out"/*
say "version $version of $(git rev-parse --short HEAD)"
make_all "$out"
cat "$out/SHA256SUMS"
if [ -n "$twice" ]; then
  mkdir "$work/again"
  make_all "$work/again"
  diff "$out/SHA256SUMS" "$work/again/SHA256SUMS" || { say "built twice, the bytes differ"; exit 1; }
  say "built twice, with the same bytes"
fi
sh tools/package/check_wheel.sh "$out"/*.whl
sh tools/check_deb.sh "$work/ocellus-$version/build/release"
say "$(ls "$out" | wc -l) files in $out"
