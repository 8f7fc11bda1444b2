#!/bin/sh
# Usage: sh findings/pillow-13-resize-order.sh   (PyPI; half a minute)
. "$(dirname "$0")/steps"
say "Pillow's resize gives the same pixels in every version, as the preprocessing of models relies on." \
  "Pillow 13 filters vertically first where the height shrinks and the width does not: up to 27 levels from Pillow 12."
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
  from_pypi "pillow==$version" numpy==2.4.6
  "$python" "$folder/resize.py" "$folder/$version.npz"
  [ -n "${FINDINGS_VENVS:-}" ] || rm -r "$venv"
done
from_pypi numpy==2.4.6
found=$("$python" - "$folder" <<'PYTHON'
import sys
import numpy as np
old, new = (np.load(f"{sys.argv[1]}/{version}.npz") for version in ("12.0.0", "13.0.0"))
apart = np.abs(old["wide"].astype(int) - new["wide"])
same = lambda left, right: "equal" if (left == right).all() else "they differ"
print(f"640 x 480 -> 644 x 476: at most {apart.max()} levels apart, {100 * (apart > 0).mean():.1f} % of the values differ")
print("480 x 640 -> 476 x 644:", same(old["tall"], new["tall"]))
print("12 and first horizontally:", same(old["wide"], old["horizontal"]))
print("13 and first vertically:", same(new["wide"], new["vertical"]))
PYTHON
)
judge "640 x 480 -> 644 x 476: at most 27 levels apart, 25.9 % of the values differ
480 x 640 -> 476 x 644: equal
12 and first horizontally: equal
13 and first vertically: equal" "$found"
