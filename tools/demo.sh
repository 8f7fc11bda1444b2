#!/bin/sh
# From a fresh machine to captions: installs what is missing, builds, describes the sample pictures, prints the memory
# table. Builds what `cmake --install build/release` and `cpack` copy, too. Options go to CMake.
set -eu
cd "$(dirname "$0")/.."
sh tools/setup.sh
sh tools/build.sh release ocellus_installed "$@"
build/release/apps/ocellus caption apps/samples/*.png
build/release/apps/ocellus plan
