"""Reads the tensors of a Hugging Face folder (one or several safetensors shards) as float32, without PyTorch."""
import json
import struct
from pathlib import Path

import numpy as np

MAX_HEADER_BYTES = 100 << 20


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
        with open(shard, "rb") as file:
            header_bytes = struct.unpack("<Q", file.read(8))[0]
            if header_bytes > MAX_HEADER_BYTES:
                raise SystemExit(f"{shard} is not a safetensors file: its header would have {header_bytes} bytes")
            header = json.loads(file.read(header_bytes))
        header.pop("__metadata__", None)
        for name, entry in header.items():
            self.entries[name] = (shard, 8 + header_bytes + entry["data_offsets"][0], entry)

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
