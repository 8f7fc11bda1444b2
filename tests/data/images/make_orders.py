"""Adds to orders.json what the installed Pillow and, if there is one, torchvision make of resizes whose result depends on
which side is filtered first: python3 make_orders.py, once with Pillow 12, once with Pillow 13 and once with torchvision.

A window of 12 pixels is kept of each, where Pillow 12 and 13 differ most, and the hash of all.
"""
import json
import os

import numpy as np
import PIL
from PIL import Image

from make_fixtures import fnv, synthetic

try:
    import torch
    import torchvision
except ImportError:
    torch = None

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "orders.json")
# Source, target, filter, and (row, first pixel) of the window; Qwen2.5-VL makes the first of 640 x 480.
CASES = [((640, 480), (644, 476), "bicubic", (97, 88)), ((31, 77), (26, 64), "bicubic", (46, 9)),
         ((640, 480), (644, 476), "lanczos", (422, 605))]


def resized(maker, source, target, name):
    image = synthetic(*source)
    if maker == "torchvision":
        from torchvision.transforms import InterpolationMode
        from torchvision.transforms.v2 import functional
        tensor = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)
        mode = getattr(InterpolationMode, name.upper())
        return functional.resize(tensor, [target[1], target[0]], interpolation=mode, antialias=True).permute(1, 2, 0).numpy()
    return np.asarray(image.resize(target, getattr(Image, name.upper())))


def main():
    makers = {"pillow_" + PIL.__version__.split(".")[0]: PIL.__version__}
    if torch is not None:
        makers["torchvision"] = torchvision.__version__.split("+")[0]
    orders = {"versions": {}, "resizes": []}
    if os.path.exists(PATH):
        with open(PATH) as file:
            orders = json.load(file)
    orders["versions"].update(makers)
    for i, (source, target, name, (row, first)) in enumerate(CASES):
        if i == len(orders["resizes"]):
            orders["resizes"].append({"source": source, "target": target, "filter": name, "row": row, "first": first})
        for maker in makers:
            if maker == "torchvision" and name == "lanczos":
                continue  # torchvision has none
            pixels = resized(maker, source, target, name)
            orders["resizes"][i][maker] = {"hash": fnv(pixels.tobytes()),
                                           "window": pixels[row, first:first + 12].ravel().tolist()}
    with open(PATH, "w") as file:
        json.dump(orders, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
