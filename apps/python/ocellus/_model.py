"""A model: the facts of one GGUF + mmproj pair, its tokens, and where its files are."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Sequence

from . import _abi
from ._native import FOLDER, Error, Handle, Status, bad_argument, check, lib, record

BUNDLED = os.path.join(FOLDER, "share", "ocellus", "models")


class ModelFiles:
    """The two files of a model: the language model and the vision part, which may be None."""

    def __init__(self, model: str | os.PathLike[str], mmproj: str | os.PathLike[str] | None = None):
        self.model = os.fspath(model)
        self.mmproj = os.fspath(mmproj) if mmproj is not None else None

    def __repr__(self) -> str:
        return f"ModelFiles({str(self.model)!r}, {str(self.mmproj)!r})"


def find_files(model: Any, mmproj: Any) -> ModelFiles:
    """The files of a path, a published name that `pull` has fetched, or None: the bundled model."""
    if isinstance(model, ModelFiles):
        return model
    if model is None:
        if mmproj is not None:
            raise bad_argument("mmproj was given without its model")
        return ModelFiles(os.path.join(BUNDLED, "shapeboard-34m-q8_0.gguf"),
                          os.path.join(BUNDLED, "mmproj-shapeboard-34m-q8_0.gguf"))
    if isinstance(model, os.PathLike) or str(model).endswith(".gguf") or os.path.exists(model):
        return ModelFiles(model, mmproj)
    from ._hub import find_cached
    return find_cached(str(model))


class Model(Handle):
    """A model's facts and open files. Its weights are loaded by engines.

    `model`: a GGUF file (the first of a split one), a published name that `pull` has fetched, or None: the bundled one.
    `mmproj`: its vision part. Raises Error (BAD_FILE, UNSUPPORTED, IO)."""

    def __init__(self, model: str | os.PathLike[str] | ModelFiles | None = None,
                 mmproj: str | os.PathLike[str] | None = None):
        files = find_files(model, mmproj)
        self.files: ModelFiles | None = files
        pointer = ctypes.c_void_p()
        check(lib.ocellus_model_open(os.fsencode(files.model), os.fsencode(files.mmproj) if files.mmproj else None,
                                     ctypes.byref(pointer)))
        self._adopt(pointer)

    @classmethod
    def shape(cls, name: str, format: str = "Q8_0", layers: int = 0) -> Model:
        """A model without files: the shape of a public one ("SmolVLM-256M") with random weights, for plans and times.
        `layers`: layers of the language model; 0: all."""
        pointer = ctypes.c_void_p()
        check(lib.ocellus_model_open_shape(name.encode(), format.encode(), layers, ctypes.byref(pointer)))
        made = cls.__new__(cls)
        made.files = None
        made._adopt(pointer)
        return made

    def _adopt(self, pointer: ctypes.c_void_p) -> None:
        Handle.__init__(self, pointer.value or 0, lib.ocellus_model_close)
        facts = _abi.ocellus_model_facts()
        check(lib.ocellus_model_get_facts(pointer, ctypes.byref(facts)))
        self.facts: _abi.ModelFacts = record(_abi.ModelFacts, facts)
        """what its files say"""

    def __repr__(self) -> str:
        return f"<ocellus.Model {self.facts.name!r}>"

    @property
    def default_system(self) -> str:
        """The system message of its chat template; empty: it has none."""
        text: bytes = lib.ocellus_model_default_system(self._get())
        return text.decode("utf-8", "replace")

    def tokenize(self, text: str, *, special: bool = False, start: bool = False) -> list[int]:
        """The tokens of a text. `special`: special tokens in it are recognised. `start`: begins with the
        beginning-of-text token, if the model has one."""
        data = text.encode()
        flags = (_abi.OCELLUS_TEXT_PARSE_SPECIAL if special else 0) | (_abi.OCELLUS_TEXT_START if start else 0)
        count = ctypes.c_int32()
        tokens = (ctypes.c_int32 * (len(data) + 2))()
        check(lib.ocellus_model_tokenize(self._get(), data, len(data), flags, tokens, len(tokens), ctypes.byref(count)))
        return list(tokens[:count.value])

    def detokenize(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """The text of tokens. `special`: with the texts of special tokens."""
        flags = _abi.OCELLUS_TEXT_PARSE_SPECIAL if special else 0
        pieces = []
        piece, size = ctypes.create_string_buffer(4096), ctypes.c_int32()
        for token in tokens:
            check(lib.ocellus_model_token_text(self._get(), token, flags, piece, len(piece), ctypes.byref(size)))
            pieces.append(piece.raw[:size.value])
        return b"".join(pieces).decode("utf-8", "replace")

    def sample_clip(self, frame_count: int, duration: float, most: int | None = None,
                    sampling: str = "authors") -> list[int]:
        """Which frames of a video the model's own rule takes: increasing indices from 0. `duration`: seconds of its
        `frame_count` evenly spaced frames. `most`: frames at most; None: `facts.clip_frames`. `sampling`: "authors" or
        "transformers". Raises Error (UNSUPPORTED) for a model that takes no clips."""
        most = self.facts.clip_frames if most is None else most
        indices, count = (ctypes.c_int32 * max(most, 1))(), ctypes.c_int32()
        rule = _abi.NAMES["clip_sampling"].get(sampling)
        if rule is None:
            raise bad_argument(f"sampling is 'authors' or 'transformers', not {sampling!r}")
        check(lib.ocellus_model_sample_clip(self._get(), rule, frame_count, duration, most, indices, ctypes.byref(count)))
        return list(indices[:count.value])


def published_models() -> list[dict[str, str]]:
    """The public models that this build reads: name, family and published weights of each."""
    found, index = [], 0
    known = _abi.ocellus_known_model()
    while lib.ocellus_known_model_get(index, ctypes.byref(known)) == 0:
        found.append({field: (getattr(known, field) or b"").decode() for field in ("name", "family", "published")})
        index += 1
    return found


def gpus() -> list[_abi.GpuFacts]:
    """The GPUs that this build can use. Measures each for some milliseconds."""
    found = []
    for index in range(lib.ocellus_gpu_count()):
        facts = _abi.ocellus_gpu_facts()
        check(lib.ocellus_probe_gpu(index, ctypes.byref(facts)))
        found.append(record(_abi.GpuFacts, facts))
    return found


__all__ = ["BUNDLED", "Error", "Model", "ModelFiles", "Status", "find_files", "gpus", "published_models"]
