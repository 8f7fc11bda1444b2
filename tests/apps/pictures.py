"""Picture files for the tests beside this file."""

import struct
import zlib


def make_png(width, height, rows, kind="rgb"):
    """The file of a picture: `rows` are its lines of bytes, three a pixel, one if it is "grey", two if "grey16"."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    depth, color = {"grey": (8, 0), "rgb": (8, 2), "grey16": (16, 0)}[kind]
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def read_png(path):
    """Width, height and the pixels of a PNG of 8-bit RGB that is not interlaced."""
    data, at, packed = path.read_bytes(), 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, color, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert (depth, color, interlaced) == (8, 2, 0), path
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    stream, stride, above, pixels = zlib.decompress(packed), 3 * width, bytearray(3 * width), bytearray()
    for y in range(height):
        kind, row = stream[y * (stride + 1)], bytearray(stream[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            left, corner = (row[i - 3], above[i - 3]) if i >= 3 else (0, 0)
            guess = left + above[i] - corner
            paeth = min((left, above[i], corner), key=lambda value: abs(value - guess))
            row[i] = (row[i] + (0, left, above[i], (left + above[i]) // 2, paeth)[kind]) & 255
        pixels += row
        above = row
    return width, height, bytes(pixels)


def make_bmp(width, height, pixels):
    """A BMP of 24 bits: rows from the last one up."""
    rows = [pixels[3 * width * y:3 * width * (y + 1)] for y in reversed(range(height))]
    data = b"".join(b"".join(row[i:i + 3][::-1] for i in range(0, len(row), 3)) + bytes(-len(row) % 4) for row in rows)
    return (struct.pack("<2sIII", b"BM", 54 + len(data), 0, 54) +
            struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(data), 0, 0, 0, 0) + data)


def few_colors(pixels):
    """The same with 6 levels a channel."""
    levels = bytes((value * 5 + 127) // 255 * 51 for value in range(256))
    return pixels.translate(levels)


def make_gif(width, height, pictures, hundredths=0):
    """A GIF of one frame or more, of at most 256 colours together. Its codes stay 9 bits long: it never joins pixels."""
    colors = sorted({pixels[i:i + 3] for pixels in pictures for i in range(0, len(pixels), 3)})
    places = {color: i for i, color in enumerate(colors)}
    out = b"GIF89a" + struct.pack("<HHBBB", width, height, 0xF7, 0, 0) + b"".join(colors).ljust(768, b"\0")
    for pixels in pictures:
        bits, count = 0, 0
        codes = [code for i in range(0, len(pixels), 3)
                 for code in ((256,) if i % (3 * 250) == 0 else ()) + (places[pixels[i:i + 3]],)] + [257]
        packed = bytearray()
        for code in codes:
            bits |= code << count
            count += 9
            while count >= 8:
                packed.append(bits & 255)
                bits, count = bits >> 8, count - 8
        packed.append(bits)
        blocks = b"".join(bytes([len(packed[i:i + 255])]) + packed[i:i + 255] for i in range(0, len(packed), 255))
        out += (b"\x21\xf9\x04\x04" + struct.pack("<H", hundredths) + b"\0\0\x2c" +
                struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x08" + blocks + b"\0")
    return out + b";"


def without_tables(jpeg):
    """The JPEG as cameras send it: by the standard's Huffman tables, without them."""
    out, at = jpeg[:2], 2
    while jpeg[at + 1] != 0xDA:
        end = at + 2 + struct.unpack(">H", jpeg[at + 2:at + 4])[0]
        out += b"" if jpeg[at + 1] == 0xC4 else jpeg[at:end]
        at = end
    return out + jpeg[at:]


def flat_jpeg(width, height, frame=0xC0, exif=b"", sampling=0x22, filler=0):
    """A grey JPEG of any size: one Huffman code stands for "no difference" and for "end of block".

    `filler` bytes of comments make the file as long as that of a photo that shows something.
    """
    def segment(marker, body):
        return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body
    tables = b"".join(segment(0xC4, bytes([kind, 1] + [0] * 16)) for kind in (0x00, 0x10))
    components = b"".join(bytes([i, sampling if i == 1 else 0x11, 0]) for i in (1, 2, 3))
    scan = bytes([3, 1, 0, 2, 0, 3, 0, 0, 0 if frame == 0xC2 else 63, 0])
    blocks = 12 * (width // 16 + 1) * (height // 16 + 1)
    comments = b"".join(segment(0xFE, bytes(60000)) for _ in range(filler // 60000))
    return (b"\xFF\xD8" + (segment(0xE1, b"Exif\0\0" + exif) if exif else b"") + comments + segment(0xDB, bytes([0] + [1] * 64)) +
            tables + segment(frame, struct.pack(">BHHB", 8, height, width, 3) + components) +
            segment(0xDA, scan) + bytes(blocks // 4 + 16) + b"\xFF\xD9")
