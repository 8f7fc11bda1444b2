#!/bin/sh
# Installs what is missing to build and test Ocellus on Debian 12 or Ubuntu 24.04. Does nothing where all is there.
# Arguments are further packages.
set -eu
packages="g++ cmake ninja-build pkg-config libstb-dev libhwy-dev libutf8proc-dev libxxhash-dev libsqlite3-dev
  libjpeg-dev libwebp-dev libheif-dev zlib1g-dev
  libmicrohttpd-dev libcurl4-openssl-dev libssl-dev libmimalloc-dev libcli11-dev
  nlohmann-json3-dev doctest-dev python3 python3-venv clang-format-14 dpkg-dev file $*"

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup: not a Debian system; install the equivalents of:" $packages >&2
  exit 0
fi

missing=
for package in $packages; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: run as root, or install:$missing" >&2; exit 1; }
  as_root=sudo
fi
echo "setup: installing$missing" >&2
$as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >&2
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing >&2
