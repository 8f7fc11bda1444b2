#!/bin/sh
# Usage: sh findings/gstreamer-red-by-lines.sh   (Debian 12 with apt; seconds)
. "$(dirname "$0")/steps"
say "A tool makes the same YUV of the same RGB, whatever the picture's size." \
  "GStreamer's videoconvert makes BT.601 up to 576 lines and BT.709 above, and neither raw frames nor Y4M tell."
from_debian gstreamer1.0-tools 1.22.0 libgstreamer1.0-0 gstreamer1.0-plugins-base libgstreamer-plugins-base1.0-0 \
  gstreamer1.0-plugins-good liborc-0.4-0 libdw1 libunwind8
gstreamer_below
red() { # red LINES: Y, Cb and Cr of pure red
  "$launch" -q videotestsrc num-buffers=1 pattern=red ! "video/x-raw,format=RGB,width=320,height=$1" ! videoconvert ! \
    video/x-raw,format=I420 ! filesink location="$folder/frame.yuv" 2>/dev/null
  luma=$((320 * $1))
  echo "320 x $1:$(for at in 0 "$luma" $((luma + luma / 4)); do od -An -tu1 -j "$at" -N1 "$folder/frame.yuv"; done |
    tr -s ' \n' ' ' | sed 's/ $//')"
}
judge "320 x 576: 81 90 239
320 x 578: 62 102 239" "$(red 576
red 578)"
