"""PNG files for the tests beside this file."""

import struct
import zlib


def make_png(width, height, rows, kind="rgb"):
    """The file of a picture: `rows` are its lines of bytes, three a pixel, or one if it is "grey"."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    header = struct.pack(">IIBBBBB", width, height, 8, {"grey": 0, "rgb": 2}[kind], 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
