#!/bin/sh
# Usage: sh findings/gstreamer-jpeg-colours.sh   (Debian 12 with apt, PyPI; half a minute)
. "$(dirname "$0")/steps"
say "jpegenc writes JPEG as JFIF has it, in BT.601 of full range, so a camera's white is white." \
  "It writes the samples of YUV as they come: white is 235, and red has another hue from 577 lines on (BT.709)."
from_debian gstreamer1.0-tools 1.22.0 libgstreamer1.0-0 gstreamer1.0-plugins-base libgstreamer-plugins-base1.0-0 \
  gstreamer1.0-plugins-good libgstreamer-gl1.0-0 liborc-0.4-0 libdw1 libunwind8 libjpeg62-turbo
gstreamer_below
from_pypi pillow==13.0.0
pixel() { # pixel FORMAT PATTERN LINES: of the JPEG, as Pillow shows it
  "$launch" -q videotestsrc num-buffers=1 pattern="$2" ! "video/x-raw,format=$1,width=320,height=$3" ! \
    jpegenc quality=100 ! filesink location="$folder/frame.jpg" 2>/dev/null
  "$python" -c 'import sys; from PIL import Image; print(*sys.argv[1:4], *Image.open(sys.argv[4]).getpixel((30, 30)))' \
    "$@" "$folder/frame.jpg"
}
judge "I420 white 576 235 235 235
I420 red 576 238 14 14
I420 red 578 220 0 17
RGB red 578 255 0 0" "$(pixel I420 white 576
pixel I420 red 576
pixel I420 red 578
pixel RGB red 578)"
