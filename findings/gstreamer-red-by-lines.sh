#!/bin/sh
# GStreamer's videoconvert makes another YUV of the same RGB by the number of lines: where nothing is said, its I420 is
# BT.601 up to 576 lines and BT.709 above. Raw frames and Y4M do not tell, so a reader that assumes one of them
# shows the other's colours wrong. ffmpeg has BT.601 at any size.
#
# Seen with 1.22.0 (Debian 12), pure red as Y, Cb, Cr:
#   320 x 576: 81 90 239
#   320 x 578: 62 102 239
#
# Usage: sh findings/gstreamer-red-by-lines.sh   (Debian 12 with apt; a few seconds)
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
check() { # height, expected Y, Cb and Cr
  "$launch" -q videotestsrc num-buffers=1 pattern=red ! "video/x-raw,format=RGB,width=320,height=$1" ! videoconvert ! \
    video/x-raw,format=I420 ! filesink location=frame.yuv 2>/dev/null
  luma=$((320 * $1))
  found=$(for at in 0 "$luma" $((luma + luma / 4)); do od -An -tu1 -j "$at" -N1 frame.yuv; done | tr -s ' \n' ' ')
  echo "320 x $1:$found"
  [ "$found" = " $2 " ] || wrong=1
}
check 576 "81 90 239"
check 578 "62 102 239"
[ "$wrong" -eq 0 ] || { echo "This is not what was seen before." >&2; exit 1; }
