#!/bin/sh
# Unpacks this system's arm64 packages of the libraries we use, and all they need, into a folder to link and run against.
# The machine's own packages, and what it knows of them, stay as they are.
# tools/unpack_arm64.sh FOLDER [MORE PACKAGES...]
set -eu
sysroot=${1:?usage: tools/unpack_arm64.sh FOLDER [MORE PACKAGES...]}
shift
[ ! -e "$sysroot/complete" ] || exit 0
rm -rf "$sysroot"
mkdir -p "$sysroot/apt/lists/partial" "$sysroot/apt/archives/partial"
sysroot=$(cd "$sysroot" && pwd)
: >"$sysroot/apt/status"

arm64_apt() {
  DEBIAN_FRONTEND=noninteractive apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
    -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=1 -o Dir::State="$sysroot/apt" \
    -o Dir::State::status="$sysroot/apt/status" -o Dir::Cache="$sysroot/apt" "$@" >"$sysroot/log" 2>&1
}
if ! { arm64_apt update && arm64_apt install -y --download-only --no-install-recommends libstb-dev libhwy-dev \
    libutf8proc-dev libxxhash-dev libsqlite3-dev libjpeg-dev libwebp-dev zlib1g-dev libmicrohttpd-dev libcurl4-openssl-dev libssl-dev libmimalloc-dev libcli11-dev nlohmann-json3-dev doctest-dev "$@"; }; then
  tail -n 3 "$sysroot/log" >&2
  exit 1
fi
for package in "$sysroot"/apt/archives/*.deb; do
  case ${package##*/} in
    libc6* | linux-libc-dev*) ;;  # the cross compiler has its own
    *) dpkg-deb -x "$package" "$sysroot" ;;
  esac
done
rm -rf "$sysroot/apt"
: >"$sysroot/complete"
