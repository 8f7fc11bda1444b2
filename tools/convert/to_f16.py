#!/usr/bin/env python3
"""Rewrites a GGUF file with its Q8_0 tensors as F16: the same weights in plain form, to tell rounding of weights from
rounding of inputs when backends are compared.

usage: to_f16.py IN.gguf OUT.gguf        (needs numpy)
"""
import struct
import sys

import numpy

F16, Q8_0 = 1, 8
BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        (value,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def string(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size:self.at]

    def skip_value(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            item, count = self.number("I"), self.number("Q")
            for _ in range(count if item == STRING else 0):
                self.string()
            self.at += 0 if item == STRING else BYTES[item] * count
        else:
            self.at += BYTES[kind]


def read(data):
    """(header up to the tensor list, tensors, start of the data, alignment)"""
    reader = Reader(data)
    assert reader.number("I") == 0x46554747, "not a GGUF file"
    reader.number("I")
    tensor_count, key_count = reader.number("Q"), reader.number("Q")
    alignment = 32
    for _ in range(key_count):
        key, kind = reader.string(), reader.number("I")
        if key == b"general.alignment":
            alignment = struct.unpack_from("<I", data, reader.at)[0]
        reader.skip_value(kind)
    header = data[:reader.at]
    tensors = []
    for _ in range(tensor_count):
        name = reader.string()
        shape = [reader.number("Q") for _ in range(reader.number("I"))]
        tensors.append((name, shape, reader.number("I"), reader.number("Q")))
    return header, tensors, -(-reader.at // alignment) * alignment, alignment


def to_halves(data, start, count):
    blocks = numpy.frombuffer(data, numpy.uint8, count // 32 * 34, start).reshape(-1, 34)
    scales = blocks[:, :2].copy().view(numpy.float16).astype(numpy.float32)
    codes = blocks[:, 2:].view(numpy.int8).astype(numpy.float32)
    return (scales * codes).astype(numpy.float16).tobytes()


def main():
    source, target = sys.argv[1:]
    with open(source, "rb") as file:
        data = file.read()
    header, tensors, start, alignment = read(data)
    ends = sorted([offset for *_, offset in tensors] + [len(data) - start])
    infos, body = b"", b""
    for name, shape, kind, offset in tensors:
        body += bytes(-len(body) % alignment)
        infos += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(shape))
        infos += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", F16 if kind == Q8_0 else kind, len(body))
        if kind == Q8_0:
            body += to_halves(data, start + offset, int(numpy.prod(shape)))
        else:
            body += data[start + offset:start + ends[ends.index(offset) + 1]]
    head = header + infos
    with open(target, "wb") as file:
        file.write(head + bytes(-len(head) % alignment) + body)


if __name__ == "__main__":
    main()
