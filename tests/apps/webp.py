"""Lossless WebP files for the tests beside this file, written bit by bit."""

import struct


def lossless_webp(width, height, rgb, exif=b""):
    """Every value takes eight bits; `exif` is a TIFF header with its directory."""
    bits = []

    def put(value, count):
        bits.extend(value >> i & 1 for i in range(count))

    put(0x2F, 8)
    put(width - 1, 14)
    put(height - 1, 14)
    put(0, 4 + 3)  # no alpha, version 0, no transform, no colour cache, one group of codes
    for alphabet in (280, 256, 256):  # green with lengths of copies, red, blue: literals only
        put(0, 1)
        put(8, 4)
        for length in (0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1):
            put(length, 3)
        put(0, 1 + 256)
        if alphabet > 256:
            put(1, 1)
            put(alphabet - 256 - 11, 7)
    for symbol in (255, 0):  # alpha, distances: one symbol each
        put(1, 1)
        put(0, 1)
        put(1, 1)
        put(symbol, 8)
    literals = [[value >> i & 1 for i in range(7, -1, -1)] for value in range(256)]
    for i in range(0, len(rgb), 3):
        bits += literals[rgb[i + 1]] + literals[rgb[i]] + literals[rgb[i + 2]]
    bits += [0] * (-len(bits) % 8)
    body = int("".join(map(str, reversed(bits))), 2).to_bytes(len(bits) // 8, "little")

    def chunk(kind, data):
        return kind + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)

    header = struct.pack("<IHBHB", 8, (width - 1) & 0xFFFF, (width - 1) >> 16, (height - 1) & 0xFFFF, (height - 1) >> 16)
    chunks = chunk(b"VP8X", header) + chunk(b"VP8L", body) + chunk(b"EXIF", exif) if exif else chunk(b"VP8L", body)
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WEBP" + chunks
