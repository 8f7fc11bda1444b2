"""Makes the picture fixtures and goldens in this folder: python3 make_fixtures.py, with Pillow 12 or older (Pillow 13
filters some resizes vertically first: make_orders.py).

The goldens hold 64-bit FNV-1a hashes of 8-bit RGB rows.
"""
import json
import math
import os
import struct
import zlib

import numpy as np
import PIL
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))


def synthetic(width, height):
    """The picture that tests/mm/synthetic.h draws."""
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    planes = [(x * 7 + y * 13 + c * 50 + ((x * x * 31 + y * y * 17 + x * y * 3 + c * 97) >> 3)) & 255 for c in range(3)]
    return Image.fromarray(np.stack(planes, -1).astype(np.uint8))


def smooth(width, height):
    """Gradients and a disc: compresses well and survives JPEG."""
    x, y = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    disc = ((x - 0.4) ** 2 + (y - 0.6) ** 2 < 0.06) * 80
    planes = [40 + 150 * x + disc * 0.5, 60 + 120 * y, 200 - 100 * x * y - disc]
    return Image.fromarray(np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8))


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def on_white(image):
    rgba = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", rgba.size, (255, 255, 255)), rgba).convert("RGB")


def scale_to_longest(w, h, longest, even):
    ratio = w / h
    if w >= h:
        w, h = longest, int(longest / ratio)
        h += even and h % 2
    else:
        w, h = int(longest * ratio), longest
        w += even and w % 2
    return max(w, 1), max(h, 1)


def hugging_face_views(image, size, longest):
    w, h = scale_to_longest(*image.size, longest or size, True)
    if max(w, h) > 4096:
        w, h = scale_to_longest(w, h, 4096, False)
    image = image.resize((w, h), Image.LANCZOS)
    if longest == 0:
        return [image.resize((size, size), Image.LANCZOS)], 0, 0
    ratio = w / h
    if w >= h:
        w = math.ceil(w / size) * size
        h = math.ceil(int(w / ratio) / size) * size
    else:
        h = math.ceil(h / size) * size
        w = math.ceil(int(h * ratio) / size) * size
    image = image.resize((w, h), Image.LANCZOS)
    if w <= size and h <= size:
        return [image], 0, 0
    tiles = [image.crop((x, y, x + size, y + size)) for y in range(0, h, size) for x in range(0, w, size)]
    return tiles + [image.resize((size, size), Image.LANCZOS)], h // size, w // size


def llava_view(image, size):
    """LLaVA-1.5's training: a square of CLIP's mean colour around the picture, then Pillow's bicubic resize."""
    side = max(image.size)
    square = Image.new("RGB", (side, side), tuple(int(x * 255) for x in (0.48145466, 0.4578275, 0.40821073)))
    square.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
    return square.resize((size, size), Image.BICUBIC)


def llava_goldens():
    cases = [(300, 200, 64), (31, 78, 64), (78, 31, 64), (640, 480, 336), (336, 336, 336), (64, 41, 64), (5, 1000, 48),
             (1000, 5, 48), (1, 1, 28), (20, 27, 28), (200, 1, 32)]
    return [{"source": [width, height], "image_size": size, "hash": fnv(llava_view(synthetic(width, height), size).tobytes())}
            for width, height, size in cases]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_png_by_hand(path, width, height, depth, color, rows, interlaced=False, extra=b"", pieces=1):
    """For layouts Pillow does not write. `rows`: filtered bytes, filter byte first."""
    packed = zlib.compress(rows, 9)
    step = max(1, -(-len(packed) // pieces))
    data = b"".join(chunk(b"IDAT", packed[i:i + step]) for i in range(0, len(packed), step))
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlaced))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + data + chunk(b"IEND", b""))


def adam7(array):
    """Unfiltered rows of all seven passes of [height, width, bytes]."""
    out = b""
    for x0, y0, dx, dy in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]:
        part = array[y0::dy, x0::dx]
        if part.size:
            out += b"".join(b"\0" + row.tobytes() for row in part)
    return out


def main():
    assert int(PIL.__version__.split(".")[0]) <= 12, PIL.__version__
    os.chdir(HERE)
    picture = smooth(45, 37)
    decoded = {}

    def keep(name, expected, tolerance):
        pixels = expected.tobytes()
        decoded[name] = {"width": expected.width, "height": expected.height, "tolerance": tolerance, "hash": fnv(pixels)}
        if tolerance > 0:
            with open(decoded[name]["hash"] + ".rgb", "wb") as file:
                file.write(pixels)

    def jpeg(name, image, expected=None, tolerance=6, **options):
        image.save(name, "JPEG", **{"quality": 90, **options})
        keep(name, (expected or Image.open(name)).convert("RGB"), tolerance)

    jpeg("baseline_444.jpg", picture, subsampling=0)
    jpeg("baseline_420.jpg", picture, subsampling=2, tolerance=24)
    jpeg("progressive_422.jpg", picture, subsampling=1, progressive=True, tolerance=24)
    jpeg("progressive_444.jpg", picture, subsampling=0, progressive=True)
    jpeg("gray.jpg", picture.convert("L"))
    jpeg("restart.jpg", picture, subsampling=0, restart_marker_blocks=2)
    jpeg("cmyk.jpg", picture.convert("CMYK"), subsampling=0, tolerance=8)

    ycck = open("cmyk.jpg", "rb").read()
    adobe = ycck.index(b"Adobe")
    open("ycck.jpg", "wb").write(ycck[:adobe + 11] + b"\2" + ycck[adobe + 12:])
    keep("ycck.jpg", Image.open("ycck.jpg").convert("RGB"), 8)

    def png(name, image, expected=None, **options):
        image.save(name, "PNG", **options)
        keep(name, expected or on_white(Image.open(name)), 0)

    alpha = picture.convert("RGBA")
    alpha.putalpha(Image.fromarray((np.arange(45 * 37).reshape(37, 45) % 256).astype(np.uint8)))
    png("rgb.png", picture)
    png("rgba.png", alpha)
    png("gray_alpha.png", alpha.convert("LA"))
    png("palette.png", picture.quantize(40))
    clear = picture.quantize(7)
    clear.info["transparency"] = bytes([0, 40, 255])
    clear.save("palette_alpha.png", transparency=bytes([0, 40, 255]), bits=4)
    keep("palette_alpha.png", on_white(Image.open("palette_alpha.png")), 0)
    png("gray_1.png", picture.convert("1"))

    # 2-bit grey, 16-bit RGB, 16-bit RGBA interlaced, 8-bit RGB interlaced in several IDAT chunks.
    gray = (np.array(picture.convert("L")) >> 6).astype(np.uint8)
    bits = np.zeros((37, 12), np.uint8)
    for x in range(45):
        bits[:, x // 4] |= gray[:, x] << (6 - 2 * (x % 4))
    write_png_by_hand("gray_2.png", 45, 37, 2, 0, b"".join(b"\0" + row.tobytes() for row in bits))
    keep("gray_2.png", Image.fromarray(gray * 85).convert("RGB"), 0)
    deep = (np.array(picture).astype(int) * 256 + 99).astype(">u2")
    write_png_by_hand("rgb_16.png", 45, 37, 16, 2, b"".join(b"\0" + row.tobytes() for row in deep))
    keep("rgb_16.png", picture, 0)
    depth = np.array([[0, 300, 1475, 2650, 5000, 5001, 65535]], ">u2")
    write_png_by_hand("gray_16_depth.png", 7, 1, 16, 0, b"\0" + depth.tobytes())
    keep("gray_16_depth.png", Image.fromarray((depth >> 8).astype(np.uint8)).convert("RGB"), 0)  # Pillow shows 255
    deep_alpha = (np.array(alpha).astype(int) * 256 + 7).astype(">u2")
    write_png_by_hand("rgba_16_interlaced.png", 45, 37, 16, 6, adam7(deep_alpha), True)
    keep("rgba_16_interlaced.png", on_white(alpha), 0)
    write_png_by_hand("rgb_interlaced.png", 45, 37, 8, 2, adam7(np.array(picture)), True, pieces=5)
    keep("rgb_interlaced.png", picture, 0)
    keyed = np.array(picture)
    keyed[5:9, 3:20] = (1, 2, 3)
    white = keyed.copy()
    white[5:9, 3:20] = 255
    write_png_by_hand("rgb_key.png", 45, 37, 8, 2, b"".join(b"\0" + row.tobytes() for row in keyed),
                      extra=chunk(b"tRNS", struct.pack(">HHH", 1, 2, 3)))
    keep("rgb_key.png", Image.fromarray(white), 0)

    # The bomb: 20000 x 1 grey pixels of one bit.
    write_png_by_hand("thin_20000x1.png", 20000, 1, 1, 0, b"\0" * 2501)
    for name in ("picture.gif", "picture.bmp"):
        smooth(4, 4).save(name)

    filters = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS}
    resizes = []
    for source, target in [((23, 17), (11, 8)), ((23, 17), (31, 20)), ((23, 17), (23, 9)), ((23, 17), (9, 17)),
                           ((23, 17), (23, 17)), ((23, 17), (5, 1)), ((1, 1), (7, 5)), ((300, 2), (16, 2)),
                           ((31, 77), (26, 64)), ((640, 480), (256, 192)), ((333, 500), (512, 768)), ((2, 700), (2, 16))]:
        for name, kind in filters.items():
            pixels = synthetic(*source).resize(target, kind).tobytes()
            resizes.append({"source": source, "target": target, "filter": name, "first": list(pixels[:12]), "hash": fnv(pixels)})

    cases = [(256, 256, 256, 0), (300, 200, 64, 0), (31, 77, 64, 0), (640, 480, 64, 128), (480, 640, 64, 128),
             (257, 512, 64, 128), (128, 128, 64, 128), (100, 9, 32, 160), (200, 1, 32, 128), (50, 50, 48, 96),
             (1000, 700, 96, 384), (70, 70, 64, 64), (5, 1000, 48, 200)]
    views = []
    for width, height, size, longest in cases:
        images, rows, cols = hugging_face_views(synthetic(width, height), size, longest)
        views.append({"source": [width, height], "image_size": size, "longest_edge": longest,
                      "tile_rows": rows, "tile_cols": cols, "views": [fnv(image.tobytes()) for image in images]})
    goldens = {"pillow": PIL.__version__, "decoded": decoded, "resizes": resizes, "views": views, "squares": llava_goldens()}
    with open("goldens.json", "w") as file:
        json.dump(goldens, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
