#!/bin/sh
# In the container, on the device: the bundled model describes a picture on the GPU as it does on the CPU.
set -eu
picture=/source/apps/samples/board_01.png
cpu=$(ocellus caption --quiet --device cpu "$picture")
gpu=$(ocellus caption --quiet --device cuda:0 "$picture")
echo "$gpu"
[ -n "$gpu" ] && [ "$cpu" = "$gpu" ]
