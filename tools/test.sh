#!/bin/sh
# The demo, then every test and check. Options go to CMake.
set -eu
cd "$(dirname "$0")/.."
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE

sh tools/setup.sh
# The page is tested in a Chromium. Ubuntu's package of that name is a stub for a snap, so one must be there already.
has_browser() {
  python3 -c 'import sys; sys.path.insert(0, "tests/apps"); import browser; sys.exit(not browser.find_browser())'
}
if ! has_browser && grep -q '^ID=debian' /etc/os-release 2>/dev/null; then
  sh tools/setup.sh chromium
elif ! has_browser; then
  echo "test: no Chromium or Chrome was found: the tests of the page are left out" >&2
  export OCELLUS_NO_BROWSER=1
fi
if [ "$(uname -m)" = x86_64 ] && grep -q '^ID=debian' /etc/os-release 2>/dev/null; then
  sh tools/setup.sh g++-aarch64-linux-gnu qemu-user
fi
python3 tools/check_layers.py --self-test
python3 tools/check_style.py --self-test
python3 tools/check_symbols.py --self-test
python3 tools/check_layers.py
python3 tools/check_style.py

sh tools/demo.sh "$@"
python3 tests/install/readme_test.py
sh tools/build.sh release all "$@"

ctest --preset release --parallel "$(nproc)"
python3 tests/apps/samples_test.py build/release/apps/ocellus
python3 tools/check_symbols.py build/release
sh tests/install/run.sh build/release
sh tools/check_deb.sh build/release
sh tools/check_cuda.sh
sh tools/check_aarch64.sh

# Once more under AddressSanitizer and UndefinedBehaviorSanitizer (whose code makes GCC warn falsely, so without the
# options above), without what would take hours there.
sh tools/build.sh asan all
ctest --preset asan --parallel "$(nproc)" --label-exclude long --timeout 1200
