#!/bin/sh
# Usage: sh findings/jpeg-without-huffman-tables.sh   (PyPI; half a minute)
. "$(dirname "$0")/steps"
say "A JPEG without Huffman tables, as cameras send in motion JPEG, must be given the usual ones before it is decoded." \
  "libjpeg-turbo fills them in without a word, and so do Pillow and OpenCV, which are built on it."
from_pypi pillow==13.0.0 numpy==2.4.6 opencv-python-headless==5.0.0.93
found=$("$python" - <<'PYTHON' 2>/dev/null
import io
import cv2
import numpy as np
from PIL import Image

def without_tables(data):  # all segments up to the first scan but DHT
    at, bare = 2, data[:2]
    while data[at + 1] != 0xDA:
        end = at + 2 + int.from_bytes(data[at + 2:at + 4], "big")
        bare += data[at:end] if data[at + 1] != 0xC4 else b""
        at = end
    return bare + data[at:]

def pillow(data):
    try:
        return np.asarray(Image.open(io.BytesIO(data)))
    except OSError:
        return None

def opencv(data):
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)

x, y = np.meshgrid(np.arange(64), np.arange(48))
picture = Image.fromarray(np.stack([x * 4, y * 5, x + y], -1).astype(np.uint8))
file = io.BytesIO()
picture.save(file, "JPEG")
whole, bare = file.getvalue(), without_tables(file.getvalue())
print("bytes left out:", len(whole) - len(bare))
for name, decode in (("Pillow", pillow), ("OpenCV", opencv)):
    same = decode(bare) is not None and (decode(whole) == decode(bare)).all()
    print(f"{name}:", "the same picture" if same else "refused" if decode(bare) is None else "another picture")
PYTHON
)
judge "bytes left out: 432
Pillow: the same picture
OpenCV: the same picture" "$found"
