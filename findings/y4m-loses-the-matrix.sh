#!/bin/sh
# Usage: sh findings/y4m-loses-the-matrix.sh   (ffmpeg 5.1; seconds)
. "$(dirname "$0")/steps"
say "ffmpeg writes a video as Y4M and reads it again with the same colours." \
  "Y4M has no place for the matrix, so HD video in BT.709 comes back as BT.601: red 251 becomes 230."
needs ffmpeg
version=$(ffmpeg -version | sed -n 's/^ffmpeg version \([0-9.]*\).*/\1/p')
echo "with: ffmpeg $version"
case $version in 5.1.*) ;; *) cannot_run "this was seen with ffmpeg 5.1.9." ;; esac
cd "$folder"
ffmpeg -v error -f lavfi -i color=red:s=1280x720:d=1:r=1 -vf scale=out_color_matrix=bt709 -pix_fmt yuv420p \
  -colorspace bt709 -c:v ffv1 red.mkv
ffmpeg -v error -i red.mkv red.y4m
first() { ffmpeg -v error -i "$1" -frames:v 1 -pix_fmt rgb24 -f rawvideo -y rgb && od -An -tu1 -N3 rgb | tr -s ' '; }
judge "header: YUV4MPEG2 W1280 H720 F1:1 Ip A1:1 C420jpeg XYSCSS=420JPEG XCOLORRANGE=LIMITED
the video: 251 0 0
its Y4M: 230 0 0" "header: $(head -n 1 red.y4m)
the video:$(first red.mkv)
its Y4M:$(first red.y4m)"
