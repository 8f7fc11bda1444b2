#!/bin/sh
# Installs a wheel where nothing else is, and lets it describe a picture: in an environment of its own on this machine and,
# with root and mmdebstrap, on bare systems of Debian 12 and 13, whose Pythons are 3.11 and 3.13. A wheel for aarch64 is
# tried with Debian 12's Python for it, under qemu-user; one for CUDA, which takes cuBLASLt from PyPI, on this machine alone.
# usage: tools/package/check_wheel.sh WHEEL
set -eu
cd "$(dirname "$0")/../.."
wheel=$(realpath "${1:?usage: tools/package/check_wheel.sh WHEEL}")
say() { echo "check_wheel: $*"; }
fail() { say "$*" >&2; exit 1; }
work=$(mktemp -d)
trap 'umount -R "$work"/*/dev "$work"/*/proc 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT

bytes=$(stat -c %s "$wheel")
say "$(basename "$wheel"), $bytes bytes"
most=60 from=--no-index
case $(basename "$wheel") in
  ocellus_vlm-*-py3-none-manylinux_*) ;;
  ocellus_vlm_cuda-*-py3-none-manylinux_*) most=100 from= ;;  # PyPI takes 100 MB
  *) fail "its name promises less than every Python on every Linux of its kind" ;;
esac

cat >"$work/five.py" <<'END'
import sys, ocellus
pixels = bytes([40, 60, 200] * 320 * 240)
picture = memoryview(pixels).cast("B", (240, 320, 3))
with ocellus.Engine(budget="512M", images=1) as engine:
    print(engine.session().caption(picture))
END
try_emulated() {
  for program in qemu-aarch64 mmdebstrap; do
    command -v $program >/dev/null || { say "no $program here, nothing was run"; exit 0; }
  done
  mmdebstrap --quiet --variant=extract --architectures=arm64 --include=python3 --aptopt="$work/apt.conf" bookworm \
    "$work/arm64" "deb $archive bookworm main" >"$work/log" 2>&1 || { tail -n 3 "$work/log" >&2; fail "no arm64 system"; }
  python3 -m zipfile -e "$wheel" "$work/package"
  chmod +x "$work/package/ocellus/bin/ocellus"
  said=$(qemu-aarch64 -L "$work/arm64" -E PYTHONPATH="$work/package" "$work/arm64/usr/bin/python3.11" "$work/five.py")
  [ -n "$said" ] || fail "it says nothing of a picture"
  say "aarch64, emulated: $said"
  qemu-aarch64 -L "$work/arm64" "$work/package/ocellus/bin/ocellus" caption apps/samples/board_01.png
}
[ "$bytes" -lt ${most}000000 ] || fail "it has $most MB or more"
archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -E '/debian/?$' | head -n 1)
apt-config dump 2>/dev/null | grep -E '^Acquire::(https?|Check-)' >"$work/apt.conf" || true
case $(basename "$wheel") in
  *_aarch64.whl) [ "$(uname -m)" = aarch64 ] || { try_emulated; exit 0; } ;;
esac

begin=$(date +%s.%N)
python3 -m venv "$work/venv"
# shellcheck disable=SC2086  # none or one option
"$work/venv/bin/pip" install -q --disable-pip-version-check $from "$wheel"
said=$("$work/venv/bin/python" "$work/five.py")
end=$(date +%s.%N)
[ -n "$said" ] || fail "it says nothing of a picture"
say "from no environment to a caption in $(echo "$begin $end" | awk '{ printf "%.1f", $2 - $1 }') s: $said"
"$work/venv/bin/ocellus" --version
"$work/venv/bin/ocellus" caption apps/samples/board_01.png
[ "$("$work/venv/bin/ocellus" caption apps/samples/board_01.png)" = \
  "$(sed -n 's/.*"board_01.png": "\(.*\)".*/\1/p' apps/samples/captions.json)" ] || fail "another caption than the samples'"

if [ -z "$from" ]; then
  "$work/venv/bin/ocellus" --version | grep -q 'CUDA [0-9]' || fail "it has no CUDA"
  exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v mmdebstrap >/dev/null || ! grep -q '^ID=debian' /etc/os-release; then
  say "no root, no mmdebstrap or no Debian here, so no bare system was made"
  exit 0
fi
for release in bookworm trixie; do
  root=$work/$release
  if ! mmdebstrap --quiet --mode=root --variant=minbase --include=python3-venv --aptopt="$work/apt.conf" \
    "$release" "$root" "deb $archive $release main" >"$work/log" 2>&1; then
    tail -n 3 "$work/log" >&2
    fail "no bare system of $release could be made"
  fi
  mount -t proc proc "$root/proc"
  cp "$wheel" "$work/five.py" "$root/root"
  chroot "$root" sh -ec "cd /root; python3 -m venv v; v/bin/pip install -q --no-index ./*.whl; v/bin/python five.py" \
    >"$work/said" || fail "on $release it does not work"
  [ "$(cat "$work/said")" = "$said" ] || fail "on $release it says $(cat "$work/said")"
  say "$release, Python $(chroot "$root" python3 -c 'import sys; print(sys.version.split()[0])'): the same"
  umount "$root/proc"
done
