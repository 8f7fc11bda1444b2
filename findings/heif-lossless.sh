#!/bin/sh
# Usage: sh findings/heif-lossless.sh   (PyPI; half a minute)
. "$(dirname "$0")/steps"
say "pillow-heif's quality -1, the lossless one of libheif, gives back the pixels." \
  "It is lossless for YCbCr in 4:2:0. The pixels come back with chroma 444 and matrix_coefficients 0 (RGB) as well."
from_pypi pillow==13.0.0 pillow-heif==1.8.1 numpy==2.4.6
found=$("$python" - <<'PYTHON'
import io
import numpy as np
import pillow_heif
from PIL import Image
pillow_heif.register_heif_opener()
pixels = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
print("libheif", pillow_heif.libheif_version())
for options in ({}, {"chroma": 444}, {"chroma": 444, "matrix_coefficients": 0}):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "HEIF", quality=-1, **options)
    apart = np.abs(np.asarray(Image.open(file)).astype(int) - pixels).max()
    print("quality -1", *(f"{name} {value}" for name, value in options.items()), "-> up to", apart, "levels apart")
PYTHON
)
judge "libheif 1.23.6
quality -1 -> up to 240 levels apart
quality -1 chroma 444 -> up to 1 levels apart
quality -1 chroma 444 matrix_coefficients 0 -> up to 0 levels apart" "$found"
