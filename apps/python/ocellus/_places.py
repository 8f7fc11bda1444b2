"""Boxes and points that a model writes as coordinates, read by the program's own reader."""
from __future__ import annotations

import ctypes
from typing import Any

from . import _abi
from ._native import lib

_find = lib.ocellus_python_find_places
_find.restype, _find.argtypes = None, [ctypes.c_char_p, ctypes.c_int64, ctypes.c_double, ctypes.c_double, ctypes.c_int32,
                                       ctypes.c_int32, _abi.ocellus_text_function, ctypes.c_void_p]


def find_places(answer: str, across: float, down: float, width: int, height: int) -> list[dict[str, Any]]:
    """The places of an answer in pixels of a picture of width x height; `across` and `down`: its size in the model's
    units."""
    import json
    found: list[str] = []

    def take(_user: Any, text: Any, size: int) -> int:
        found.append(ctypes.string_at(text, size).decode())
        return 0

    data = answer.encode()
    _find(data, len(data), across, down, width, height, _abi.ocellus_text_function(take), None)
    places = []
    for place in json.loads(found[0]) if found else []:
        left, top, right, bottom = place["box"] if "box" in place else place["point"] * 2
        places.append({"label": place["label"], "left": left, "top": top, "right": right, "bottom": bottom,
                       "is_point": "point" in place})
    return places
