#!/bin/sh
# GStreamer's y4menc writes Y4M whose rows are padded to 4 bytes, and in 4:2:0 of an odd height a row too many. The
# format has no padding, so readers see a picture that leans, and miss the next frame. No width that is a multiple of 8
# with an even height is concerned, which is why it is seldom seen.
#
# Seen with 1.22.0 (Debian 12), videotestsrc ! video/x-raw,format=I420 ! y4menc, bytes of a frame / by the format:
#   848 x 480: 610560 / 610560
#   854 x 480: 616320 / 614880
#   322 x 481: 235216 / 232484
# ffmpeg 5.1.9 stops at the second frame of such a file: "Invalid data found when processing input".
#
# Usage: sh findings/gstreamer-y4m-padded-rows.sh   (Debian 12 with apt; a few seconds)
set -eu
version=1.22.0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in gstreamer1.0-tools libgstreamer1.0-0 gstreamer1.0-plugins-base libgstreamer-plugins-base1.0-0 \
    gstreamer1.0-plugins-good liborc-0.4-0 libdw1 libunwind8; do
  apt-get download -qq "$package" 2>/dev/null || apt-get download "$package"
done
for package in ./*.deb; do dpkg -x "$package" root; done
libraries=$(dirname "$(find "$folder/root" -name 'libgstreamer-1.0.so.0')")
export LD_LIBRARY_PATH="$libraries" GST_PLUGIN_SYSTEM_PATH="$libraries/gstreamer-1.0" GST_REGISTRY="$folder/registry"
export GST_PLUGIN_SCANNER="$libraries/gstreamer1.0/gstreamer-1.0/gst-plugin-scanner"
launch="$folder/root/usr/bin/gst-launch-1.0"
"$launch" --version | grep -q " $version\$" || { echo "this is not GStreamer $version" >&2; exit 1; }
wrong=0
check() { # width, height, expected bytes of a frame
  "$launch" -q videotestsrc num-buffers=2 ! "video/x-raw,format=I420,width=$1,height=$2" ! y4menc ! \
    filesink location=frames.y4m 2>/dev/null
  header=$(head -n 1 frames.y4m | tr -d '\0' | wc -c)
  bytes=$((($(wc -c <frames.y4m) - header) / 2 - 6))
  packed=$(($1 * $2 + 2 * (($1 + 1) / 2) * (($2 + 1) / 2)))
  echo "$1 x $2: $bytes / $packed"
  [ "$bytes" -eq "$3" ] || wrong=1
}
check 848 480 610560
check 854 480 616320
check 322 481 235216
[ "$wrong" -eq 0 ] || { echo "This is not what was seen before." >&2; exit 1; }
