#!/bin/sh
# Usage: sh findings/gstreamer-y4m-padded-rows.sh   (Debian 12 with apt; seconds)
. "$(dirname "$0")/steps"
say "A Y4M file has no padding, as its format says, so a frame begins where the one before it must end." \
  "GStreamer's y4menc pads rows to 4 bytes, and adds a row in 4:2:0 of an odd height. 848 x 480 does not show it."
from_debian gstreamer1.0-tools 1.22.0 libgstreamer1.0-0 gstreamer1.0-plugins-base libgstreamer-plugins-base1.0-0 \
  gstreamer1.0-plugins-good liborc-0.4-0 libdw1 libunwind8
gstreamer_below
frame() { # frame WIDTH HEIGHT: bytes of a frame in the file and by the format
  "$launch" -q videotestsrc num-buffers=2 ! "video/x-raw,format=I420,width=$1,height=$2" ! y4menc ! \
    filesink location="$folder/frames.y4m" 2>/dev/null
  header=$(head -n 1 "$folder/frames.y4m" | tr -d '\0' | wc -c)
  echo "$1 x $2: $((($(wc -c <"$folder/frames.y4m") - header) / 2 - 6)) bytes, by the format" \
    "$(($1 * $2 + 2 * (($1 + 1) / 2) * (($2 + 1) / 2)))"
}
judge "848 x 480: 610560 bytes, by the format 610560
854 x 480: 616320 bytes, by the format 614880
322 x 481: 235216 bytes, by the format 232484" "$(frame 848 480
frame 854 480
frame 322 481)"
