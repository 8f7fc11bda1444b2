#!/bin/sh
# Usage: sh findings/pillow-16-bit-grey.sh   (PyPI; half a minute)
. "$(dirname "$0")/steps"
say "A picture of 16-bit grey becomes RGB by its upper eight bits, as in OpenCV." \
  "Pillow clips at 255: depth in millimetres is white beyond 25 cm. Programs that call convert(\"RGB\") show that."
from_pypi pillow==13.0.0 numpy==2.4.6 opencv-python-headless==5.0.0.93
found=$("$python" - "$folder/depth.png" <<'PYTHON'
import sys
import cv2
import numpy as np
from PIL import Image
samples = [0, 200, 300, 1475, 5000, 65535]
Image.fromarray(np.array([samples], np.uint16)).save(sys.argv[1])
print("samples:", *samples)
print("Pillow:", *np.asarray(Image.open(sys.argv[1]).convert("RGB"))[0, :, 0].tolist())
print("OpenCV:", *cv2.imread(sys.argv[1])[0, :, 0].tolist())
PYTHON
)
judge "samples: 0 200 300 1475 5000 65535
Pillow: 0 200 255 255 255 255
OpenCV: 0 0 1 5 19 255" "$found"
