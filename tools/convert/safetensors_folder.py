"""Reads the tensors of a Hugging Face folder (one or several safetensors shards) as float32, without PyTorch."""
import json
import math
from pathlib import Path

import numpy as np

MAX_HEADER_BYTES = 100 << 20
ELEMENT_BYTES = {"BF16": 2, "F16": 2, "F32": 4}


def check_extent(name, entry, data_bytes):
    """Raises a ValueError unless the tensor lies within the file's data and is as long as its shape says."""
    begin, end = entry["data_offsets"]
    if not 0 <= begin <= end <= data_bytes:
        raise ValueError(f"the tensor {name} ends at byte {end} of {data_bytes}")
    element_bytes = ELEMENT_BYTES.get(entry["dtype"])  # other types are refused when they are read
    if element_bytes and end - begin != math.prod(entry["shape"]) * element_bytes:
        raise ValueError(f"the tensor {name} has {end - begin} bytes, which its shape {entry['shape']} does not have")


class SafetensorsFolder:
    """Names and lazily read arrays of every model*.safetensors file in a folder."""

    def __init__(self, folder):
        self.entries = {}
        shards = sorted(Path(folder).glob("model*.safetensors"))
        if not shards:
            raise SystemExit(f"{folder} holds no model*.safetensors file")
        for shard in shards:
            self._read_header(shard)

    def _read_header(self, shard):
        try:
            with open(shard, "rb") as file:
                header_bytes = int.from_bytes(file.read(8), "little")
                if header_bytes > MAX_HEADER_BYTES:
                    raise ValueError(f"its header would have {header_bytes} bytes")
                header = json.loads(file.read(header_bytes))
            start, file_bytes = 8 + header_bytes, shard.stat().st_size
            for name, entry in header.items():
                if name != "__metadata__":
                    check_extent(name, entry, file_bytes - start)
                    self.entries[name] = (shard, start + entry["data_offsets"][0], entry)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SystemExit(f"{shard} is not a whole safetensors file: {error}") from error

    def names(self):
        return set(self.entries)

    def rows(self, name):
        """First extent of a tensor, without reading it."""
        return self.entries[name][2]["shape"][0]

    def read(self, name):
        shard, offset, entry = self.entries[name]
        begin, end = entry["data_offsets"]
        with open(shard, "rb") as file:
            file.seek(offset)
            data = file.read(end - begin)
        if entry["dtype"] == "BF16":  # the upper half of a float32
            wide = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
            return wide.view(np.float32).reshape(entry["shape"])
        dtypes = {"F16": np.float16, "F32": np.float32}
        if entry["dtype"] not in dtypes:
            raise SystemExit(f"the tensor {name} has dtype {entry['dtype']}: expected F32, F16 or BF16")
        return np.frombuffer(data, dtypes[entry["dtype"]]).reshape(entry["shape"]).astype(np.float32)
