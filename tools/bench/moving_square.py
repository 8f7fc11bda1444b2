#!/usr/bin/env python3
"""Frames of a still camera before which a small square moves, as raw RGB: what `watch` encodes of them is measured so.

  tools/bench/moving_square.py 8 | ocellus watch - --format rgb24 --size 2048x1536 --change 0 --json
"""
import argparse
import random
import sys

WIDTH, HEIGHT = 2048, 1536
SQUARE = 60


def background():
    """Returns rows of stripes and slopes, so that no two tiles are alike."""
    rows = []
    for y in range(HEIGHT):
        row = bytearray()
        for x in range(WIDTH):
            row += bytes(((x // 8 + y // 16) % 256, y // 6 % 256, (x + y) // 12 % 256))
        rows.append(bytes(row))
    return rows


def with_noise(row, tables, rng):
    """Moves every value by a few steps, by one of the tables for each piece of the row."""
    piece = 96
    return b"".join(row[at:at + piece].translate(rng.choice(tables)) for at in range(0, len(row), piece))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("frames", type=int)
    parser.add_argument("--noise", type=int, default=0, help="largest step of a value (default: 0)")
    options = parser.parse_args()
    rng = random.Random(1)
    still = background()
    steps = range(-options.noise, options.noise + 1)
    tables = [bytes(min(max(value + rng.choice(steps), 0), 255) for value in range(256)) for _ in range(64)]
    for frame in range(options.frames):
        left = 3 * (600 + 12 * frame)
        for y, row in enumerate(still):
            if 700 <= y < 700 + SQUARE:
                row = row[:left] + bytes((250, 30, 30)) * SQUARE + row[left + 3 * SQUARE:]
            sys.stdout.buffer.write(with_noise(row, tables, rng) if options.noise else row)


if __name__ == "__main__":
    main()
