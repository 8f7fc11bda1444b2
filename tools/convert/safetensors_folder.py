"""Reads the tensors of a Hugging Face folder (one or several safetensors shards) as float32, without PyTorch."""
import json
import math
from pathlib import Path

import numpy as np

from source_json import read_json, whole_number

MAX_HEADER_BYTES = 100 << 20
MOST_EXTENT = 1 << 40
ELEMENT_BYTES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1}
INDEX = "model.safetensors.index.json"


def decode_f8(codes):
    """Values of numbers with a sign, 4 bits of exponent and 3 of mantissa; 0x7F is no number."""
    table = np.arange(256)
    exponent, mantissa = table >> 3 & 15, table & 7
    size = np.where(exponent > 0, (8 + mantissa) * 2.0 ** (exponent - 10), mantissa * 2.0 ** -9)
    size[table & 127 == 127] = np.nan
    return np.where(table > 127, -size, size).astype(np.float32)[codes]


def unique_keys(pairs):
    """Makes an object of a JSON text, for the json module. The format forbids equal keys."""
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"{next(key for key in keys if keys.count(key) > 1)!r} is there twice")
    return made


def check_entry(name, entry):
    """Raises a ValueError unless the entry names a type, extents and offsets, and they agree."""
    shape, (begin, end) = entry["shape"], entry["data_offsets"]
    if not all(whole_number(extent, 0, MOST_EXTENT) for extent in shape):
        raise ValueError(f"the tensor {name} has the shape {shape}")
    if not all(whole_number(offset, 0, MOST_EXTENT) for offset in (begin, end)) or begin > end:
        raise ValueError(f"the tensor {name} lies at bytes {begin} to {end}")
    element_bytes = ELEMENT_BYTES.get(entry["dtype"])  # other types are refused when they are read
    if element_bytes and end - begin != math.prod(shape) * element_bytes:
        raise ValueError(f"the tensor {name} has {end - begin} bytes, which its shape {shape} does not have")


def check_extents(entries, data_bytes):
    """Raises a ValueError unless the tensors lie one after the other and fill the data, as the format says."""
    place, before = 0, "the data's begin"
    for begin, end, name in sorted((*entry["data_offsets"], name) for name, entry in entries.items()):
        if end > data_bytes:
            raise ValueError(f"the tensor {name} ends at byte {end} of {data_bytes}")
        if begin != place:
            kind = "overlaps" if begin < place else "leaves a gap behind"
            raise ValueError(f"the tensor {name} {kind} {before}")
        place, before = end, name
    if place != data_bytes:
        raise ValueError(f"{data_bytes - place} bytes behind its last tensor are nobody's")


class SafetensorsFolder:
    """Names and lazily read arrays of every model*.safetensors file in a folder, and of tensors in folders below it that
    its index lists."""

    def __init__(self, folder):
        self.entries, self.folder = {}, Path(folder)
        index = self.folder / INDEX
        listed = read_json(index).part("weight_map") if index.exists() else {}
        below = {shard for shard in map(str, listed.values()) if "/" in shard and ".." not in shard}
        below = [self.folder / shard for shard in below if (self.folder / shard).is_file()]
        shards = sorted([*self.folder.glob("model*.safetensors"), *below])
        if not shards:
            raise SystemExit(f"{folder} holds no model*.safetensors file")
        for shard in shards:
            self._read_header(shard, listed)
        self._check_index(index, listed)

    def _read_header(self, shard, listed):
        try:
            with open(shard, "rb") as file:
                header_bytes = int.from_bytes(file.read(8), "little")
                if header_bytes > MAX_HEADER_BYTES:
                    raise ValueError(f"its header would have {header_bytes} bytes")
                header = json.loads(file.read(header_bytes), object_pairs_hook=unique_keys)
            start, file_bytes = 8 + header_bytes, shard.stat().st_size
            entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
            for name, entry in entries.items():
                check_entry(name, entry)
            check_extents(entries, file_bytes - start)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise SystemExit(f"{shard} is not a whole safetensors file: {error}") from error
        for name, entry in entries.items():
            if shard.parent != self.folder and name not in listed:
                continue
            if name in self.entries:
                raise SystemExit(f"{shard} holds the tensor {name}, and so does {self.entries[name][0]}")
            self.entries[name] = (shard, start + entry["data_offsets"][0], entry)

    def _check_index(self, path, listed):
        """A folder of several shards lists which of them holds which tensor."""
        for name, shard in listed.items():
            if name not in self.entries or self.entries[name][0] != path.parent / str(shard):
                raise SystemExit(f"{path} says that {shard} holds the tensor {name}, which it does not")

    def value_count(self):
        """Of all tensors together."""
        return sum(math.prod(entry["shape"]) for _, _, entry in self.entries.values())

    def names(self):
        return set(self.entries)

    def shape(self, name):
        """Of a tensor, without reading it."""
        return tuple(self.entries[name][2]["shape"])

    def read(self, name):
        shard, offset, entry = self.entries[name]
        begin, end = entry["data_offsets"]
        with open(shard, "rb") as file:
            file.seek(offset)
            data = file.read(end - begin)
        dtypes = {"BF16": np.uint16, "F16": np.float16, "F32": np.float32, "F8_E4M3": np.uint8}
        if entry["dtype"] not in dtypes:
            raise SystemExit(f"the tensor {name} has dtype {entry['dtype']}: expected F32, F16, BF16 or F8_E4M3")
        values = np.frombuffer(data, dtypes[entry["dtype"]]).reshape(entry["shape"])
        if entry["dtype"] == "BF16":  # the upper half of a float32
            values = (values.astype(np.uint32) << 16).view(np.float32)
        if entry["dtype"] == "F8_E4M3":
            values = decode_f8(values)
        if not np.isfinite(values).all():
            raise SystemExit(f"{shard}: the tensor {name} holds values that are no finite numbers")
        return values.astype(np.float32)
