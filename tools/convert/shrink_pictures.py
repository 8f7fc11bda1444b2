#!/usr/bin/env python3
"""Writes a vision part that reads smaller pictures, and so makes fewer tokens of each: down-sampling, the baseline that
eviction is compared with. Weights stay as they are; the position embeddings are interpolated to the smaller grid.

usage: shrink_pictures.py MMPROJ.gguf OUT.gguf PIXELS        (needs requirements.txt; one square view a picture)

PIXELS is the side of the pictures that the new file reads, a multiple of patch size times the projector's factor.
"""
import sys

import gguf
import numpy as np

IMAGE_SIZE, PATCH_SIZE = "clip.vision.image_size", "clip.vision.patch_size"
FACTOR = "clip.vision.projector.scale_factor"
POSITIONS = "v.position_embd.weight"


def halves(side, smaller):
    """For each of `smaller` cells, the two of `side` cells that lie around its centre, and the share of the second."""
    centres = (np.arange(smaller) + 0.5) * side / smaller - 0.5
    first = np.clip(np.floor(centres).astype(int), 0, side - 1)
    return first, np.minimum(first + 1, side - 1), centres - first


def interpolate(positions, side, smaller):
    """[side * side, D] to [smaller * smaller, D], bilinear."""
    grid = positions.reshape(side, side, -1)
    first, second, share = halves(side, smaller)
    rows = grid[first] * (1 - share)[:, None, None] + grid[second] * share[:, None, None]
    cells = rows[:, first] * (1 - share)[None, :, None] + rows[:, second] * share[None, :, None]
    return cells.reshape(smaller * smaller, -1).astype(np.float32)


def read_numbers(reader):
    """(pixels, patch size, projector's factor) of a picture's side."""
    missing = [key for key in (IMAGE_SIZE, PATCH_SIZE, FACTOR) if key not in reader.fields]
    if missing:
        sys.exit(f"shrink_pictures: the file has no {missing[0]}: give a vision part of the kind 'idefics3'.")
    return [reader.fields[key].contents() for key in (IMAGE_SIZE, PATCH_SIZE, FACTOR)]


def copy_keys(reader, writer, pixels):
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        value = pixels if key == IMAGE_SIZE else field.contents()
        writer.add_key_value(key, value, field.types[0], field.types[-1] if len(field.types) > 1 else None)


def shrink(source, target, pixels):
    reader = gguf.GGUFReader(source)
    old_pixels, patch, factor = read_numbers(reader)
    if not 0 < pixels <= old_pixels or pixels % (patch * factor):
        sys.exit(f"shrink_pictures: {pixels} pixels: give a multiple of {patch * factor} up to {old_pixels}.")
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    copy_keys(reader, writer, pixels)
    for tensor in reader.tensors:
        if tensor.name == POSITIONS:
            data = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            writer.add_tensor(tensor.name, interpolate(data, old_pixels // patch, pixels // patch))
        else:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return (pixels // patch // factor) ** 2


def main():
    if len(sys.argv) != 4 or not sys.argv[3].isdecimal():
        sys.exit(__doc__.split("\n\n")[1])
    tokens = shrink(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    print(f"{sys.argv[2]}: {tokens} tokens a view")


if __name__ == "__main__":
    main()
