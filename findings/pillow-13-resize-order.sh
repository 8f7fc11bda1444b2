#!/bin/sh
# Pillow 13.0.0 resizes some pictures to other pixels than Pillow 12: it filters vertically first where the height
# shrinks and the width does not, or less. Models that were trained with Pillow's resize get other inputs, silently.
#
# Seen with 12.0.0 and 13.0.0 (bicubic, a picture of fine patterns):
#   640 x 480 -> 644 x 476: up to 27 of 255 levels apart, 25.9 % of the values differ
#   480 x 640 -> 476 x 644: equal
# 13.0.0 equals a vertical resize followed by a horizontal one, 12.0.0 the other way round.
#
# Usage: sh findings/pillow-13-resize-order.sh   (Python 3 with venv, PyPI; about half a minute)
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/resize.py" <<'PYTHON'
import sys

import numpy as np
from PIL import Image

x, y = np.meshgrid(np.arange(640), np.arange(480))
planes = [(x * 7 + y * 13 + c * 50 + ((x * x * 31 + y * y * 17 + x * y * 3 + c * 97) >> 3)) & 255 for c in range(3)]
wide = Image.fromarray(np.stack(planes, -1).astype(np.uint8))
tall = wide.transpose(Image.TRANSPOSE)
cubic = Image.BICUBIC
results = {"wide": wide.resize((644, 476), cubic), "tall": tall.resize((476, 644), cubic),
           "horizontal": wide.resize((644, 480), cubic).resize((644, 476), cubic),
           "vertical": wide.resize((640, 476), cubic).resize((644, 476), cubic)}
np.savez(sys.argv[1], **{name: np.asarray(image) for name, image in results.items()})
PYTHON
for version in 12.0.0 13.0.0; do
  python3 -m venv "$folder/$version"
  "$folder/$version/bin/pip" -q --disable-pip-version-check install "pillow==$version" numpy==2.4.6
  "$folder/$version/bin/python" "$folder/resize.py" "$folder/$version.npz"
done
"$folder/12.0.0/bin/python" - "$folder" <<'PYTHON'
import sys

import numpy as np

old, new = (np.load(f"{sys.argv[1]}/{version}.npz") for version in ("12.0.0", "13.0.0"))
apart = np.abs(old["wide"].astype(int) - new["wide"])
print(f"640 x 480 -> 644 x 476: at most {apart.max()} levels apart, {100 * (apart > 0).mean():.1f} % of the values differ")
print("480 x 640 -> 476 x 644:", "equal" if (old["tall"] == new["tall"]).all() else "they differ")
same = (apart.max() == 27 and (old["tall"] == new["tall"]).all() and (old["wide"] == old["horizontal"]).all()
        and (new["wide"] == new["vertical"]).all())
sys.exit(0 if same else "This is not what was seen before.")
PYTHON
