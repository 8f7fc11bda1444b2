#!/bin/sh
# Pillow turns a PNG of 16-bit grey to RGB by clipping at 255, not by its upper eight bits: a picture of depth in
# millimetres is white wherever something is farther than 25 cm. Programs that load pictures with convert("RGB"), as
# transformers 5.24.0 does, show models nothing of it, without a warning. OpenCV takes the upper eight bits.
#
# Seen with Pillow 13.0.0 (12.0.0: the same) and OpenCV 5.0.0, samples 0, 200, 300, 1475, 5000, 65535:
#   Pillow: 0 200 255 255 255 255
#   OpenCV: 0 0 1 5 19 255
#
# Usage: sh findings/pillow-16-bit-grey.sh   (Python 3 with venv, PyPI; about half a minute)
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install pillow==13.0.0 numpy==2.4.6 opencv-python-headless==5.0.0.93
"$folder/venv/bin/python" - "$folder/depth.png" <<'PYTHON'
import sys

import cv2
import numpy as np
from PIL import Image

Image.fromarray(np.array([[0, 200, 300, 1475, 5000, 65535]], np.uint16)).save(sys.argv[1])
pillow = np.asarray(Image.open(sys.argv[1]).convert("RGB"))[0, :, 0].tolist()
opencv = cv2.imread(sys.argv[1])[0, :, 0].tolist()
print("Pillow:", *pillow)
print("OpenCV:", *opencv)
same = pillow == [0, 200, 255, 255, 255, 255] and opencv == [0, 0, 1, 5, 19, 255]
sys.exit(0 if same else "This is not what was seen before.")
PYTHON
