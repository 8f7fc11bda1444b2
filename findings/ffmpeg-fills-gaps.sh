#!/bin/sh
# Usage: sh findings/ffmpeg-fills-gaps.sh   (ffmpeg 5.1; seconds)
. "$(dirname "$0")/steps"
say "ffmpeg -f rawvideo, into a pipe, passes on the frames that a camera or a file has." \
  "Without -vsync 0 it repeats frames to fill gaps in time, in raw video and in Y4M."
needs ffmpeg
version=$(ffmpeg -version | sed -n 's/^ffmpeg version \([0-9.]*\).*/\1/p')
echo "with: ffmpeg $version"
case $version in 5.1.*) ;; *) cannot_run "this was seen with ffmpeg 5.1.9." ;; esac
cd "$folder"
# Three frames, at 0, 1 and 6 seconds.
ffmpeg -v error -f lavfi -i testsrc=s=64x48:r=1:d=3 -vf 'setpts=if(gte(N\,2)\,N+4\,N)/TB' -vsync 0 -c:v ffv1 three.mkv
count() { # count FORMAT OPTION...: frames of that format
  format=$1
  shift
  ffmpeg -v error -y -i three.mkv -pix_fmt yuv420p "$@" -f rawvideo raw
  echo "$format: $(($(wc -c <raw) / (64 * 48 * 3 / 2))) frames of 3"
}
y4m() {
  ffmpeg -v error -y -i three.mkv -pix_fmt yuv420p -f yuv4mpegpipe frames.y4m
  echo "Y4M: $(grep -a -c '^FRAME\|FRAME$' frames.y4m) frames of 3"
}
judge "raw: 7 frames of 3
Y4M: 7 frames of 3
raw, -vsync 0: 3 frames of 3" "$(count raw; y4m; count "raw, -vsync 0" -vsync 0)"
