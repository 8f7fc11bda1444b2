"""Limits, and the memory plan that follows from them."""
from __future__ import annotations

import ctypes
from typing import Any, Iterator

from . import _abi
from ._native import bad_argument, check, lib, parse_bytes, record, set_field, set_options

# Pictures that are planned for where none is known: photographs of up to 200 megapixels, decoded row by row.
_PHOTO_SIDE = 16384
_PHOTO_PIXELS = _PHOTO_SIDE * 12288
_PHOTO_WHOLE_PIXELS = 4096 * 2304
_USUAL_IMAGES = 4
_COLORS = {"weights": "#4878a8", "sessions": "#d08a3c", "scratch": "#7a9a5a", "staging": "#9a6a9a"}


def _set_bits(policy: Any, bits: Any) -> None:
    """Sets kv_bits from 4, "8/4" (keys / values) or a list with one for each layer."""
    import re
    by_layer = isinstance(bits, (list, tuple))
    pairs = []
    for one in bits if by_layer else [bits]:
        found = re.fullmatch(r"([0-9]{1,2})(?:/([0-9]{1,2}))?", str(one))
        if not found:
            raise bad_argument(f"kv_bits is 16, 8, 4, 2 or 1, or a text like '8/4' for keys and values, not {one!r}")
        pairs.append((int(found[1]), int(found[2] or 0)))
    if not by_layer:
        policy.kv_bits, policy.kv_value_bits = pairs[0]
        return
    if not 1 <= len(pairs) <= _abi.OCELLUS_MOST_LAYER_BITS:
        raise bad_argument(f"kv_bits has {len(pairs)} layers")
    policy.layer_bits_count = len(pairs)
    for layer, (keys, values) in enumerate(pairs):
        policy.layer_bits[layer], policy.layer_value_bits[layer] = keys, values


def make_limits(model: Any, budget: int | str | None, images: int | None, sessions: int, text_tokens: int, device: str,
                kv_bits: Any, evict: str, keep: float, options: dict[str, Any]) -> Any:
    """ocellus_limits of keyword arguments."""
    if images is None:
        images = _USUAL_IMAGES if model.facts.has_vision else 0
    limits = _abi.ocellus_limits()
    lib.ocellus_limits_init(ctypes.byref(limits))
    limits.max_image_pixels, limits.max_image_side = _PHOTO_PIXELS, _PHOTO_SIDE
    limits.max_whole_pixels = _PHOTO_WHOLE_PIXELS
    limits.max_constraints = 1
    name, _, index = str(device).partition(":")
    if index and not (name == "cuda" and index.isdigit()):
        raise bad_argument(f"device is 'auto', 'cpu', 'cuda' or 'cuda:N', not {device!r}")
    policy = {key: options.pop(key) for key in list(options) if key in _abi.CachePolicy.__annotations__}
    for field, value in (("budget_bytes", parse_bytes(budget)), ("max_images", images), ("max_sessions", sessions),
                         ("max_text_tokens", text_tokens), ("device", name), ("device_index", int(index or 0))):
        set_field(limits, field, value)
    set_options(limits, options, _abi.Limits)
    set_options(limits.cache, policy, _abi.CachePolicy)
    set_field(limits.cache, "evict", evict)
    set_field(limits.cache, "keep", keep)
    _set_bits(limits.cache, kv_bits)
    return limits


class Plan:
    """All memory of an engine, computed before it is made: exactly what it allocates.

    It is a table: `rows` says what every part holds, `total_bytes` is their sum (scratch is the largest phase), `fits`
    whether that is within `budget_bytes`, and `advice` what would make it fit. In a notebook it is shown as one."""

    def __init__(self, struct: Any):
        self.fits = bool(struct.fits)
        """whether it is within the budget"""
        self.weights_bytes: int = struct.weights_bytes
        """bytes of weights"""
        self.session_bytes: int = struct.session_bytes
        """bytes of caches and rows of all sessions"""
        self.scratch_bytes: int = struct.scratch_bytes
        """bytes of the largest phase of work"""
        self.staging_bytes: int = struct.staging_bytes
        """bytes of pinned host memory; 0 on the CPU"""
        self.total_bytes: int = struct.total_bytes
        """the sum: what the engine allocates"""
        self.budget_bytes: int = struct.budget_bytes
        """the budget; 0: none"""
        self.shortfall_bytes: int = struct.shortfall_bytes
        """bytes that are missing; 0 if it fits"""
        self.kv_bytes_per_image: int = struct.kv_bytes_per_image
        """cache of one image, as stored"""
        self.kv_bytes_per_token: int = struct.kv_bytes_per_token
        """cache of one text token"""
        self.images_in_budget: int = struct.images_in_budget
        """most images of a session within the budget; -1 without a budget"""
        self.rows_per_image: int = struct.rows_per_image
        """most rows of an image in the language model"""
        self.rows: list[_abi.PlanRow] = [record(_abi.PlanRow, struct.rows[i]) for i in range(struct.row_count)]
        """the table"""
        self.advice: list[_abi.Advice] = [record(_abi.Advice, struct.advice[i]) for i in range(struct.advice_count)]
        """ways to make it fit"""

    @classmethod
    def make(cls, model: Any, limits: Any) -> Plan:
        """The plan of a model's handle and limits."""
        struct = _abi.ocellus_plan()
        check(lib.ocellus_plan_memory(model, ctypes.byref(limits), ctypes.byref(struct)))
        return cls(struct)

    def __iter__(self) -> Iterator[_abi.PlanRow]:
        return iter(self.rows)

    def __repr__(self) -> str:
        return f"<ocellus.Plan of {self.total_bytes} bytes{'' if self.fits else ', which does not fit'}>"

    def sums(self) -> list[tuple[str, int]]:
        """The parts of the total and their bytes."""
        parts = [("weights", self.weights_bytes), ("sessions", self.session_bytes), ("scratch", self.scratch_bytes),
                 ("staging", self.staging_bytes)]
        return [(name, size) for name, size in parts if size]

    def verdict(self) -> str:
        """One sentence: does it fit, and if not, what is missing."""
        total = f"{_mib(self.total_bytes)} MiB"
        if not self.budget_bytes:
            return f"{total}; no budget was given."
        if self.fits:
            return f"{total} of {_mib(self.budget_bytes)} MiB: it fits."
        return f"{total} of {_mib(self.budget_bytes)} MiB: {_mib(self.shortfall_bytes)} MiB are missing."

    def plot(self, axes: Any = None) -> Any:
        """Draws the sums as one bar, with the budget as a line, by matplotlib (`pip install ocellus-vlm[plot]`).
        `axes`: where to; None: a figure of its own. Returns the axes."""
        if axes is None:
            from matplotlib import pyplot
            _, axes = pyplot.subplots(figsize=(8, 1.8), layout="constrained")
        left = 0.0
        for name, size in self.sums():
            axes.barh([0], [size / 2 ** 20], left=left, color=_COLORS[name], label=f"{name} {_mib(size)} MiB")
            left += size / 2 ** 20
        if self.budget_bytes:
            axes.axvline(self.budget_bytes / 2 ** 20, color="gray", linestyle="--", label="budget")
        axes.set(yticks=[], xlabel="MiB", title=self.verdict())
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.4), ncols=5, frameon=False)
        return axes

    def __str__(self) -> str:
        lines = [f"{row.name:<36}{row.lifetime:<9}{row.phase:<9}{row.dtype:<6}{row.bytes:>15,}" for row in self.rows]
        lines += [f"{name:<60}{size:>15,}" for name, size in self.sums()]
        lines += [f"{'total':<60}{self.total_bytes:>15,}", self.verdict()]
        lines += [f"  {one.text}: {_mib(one.total_bytes)} MiB" if one.total_bytes else f"  {one.text}"
                  for one in self.advice]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        import html
        whole = max(self.total_bytes, self.budget_bytes, 1)
        bar = "".join(
            f'<div title="{name}: {_mib(size)} MiB" style="width:{100 * size / whole:.2f}%;background:{_COLORS[name]}"></div>'
            for name, size in self.sums())
        limit = (f'<div style="position:absolute;top:-3px;bottom:-3px;left:{100 * self.budget_bytes / whole:.2f}%;'
                 'border-left:2px solid currentColor" title="budget"></div>') if self.budget_bytes else ""
        keys = " &nbsp; ".join(f'<span style="color:{_COLORS[name]}">&#9632;</span> {name} {_mib(size)} MiB'
                               for name, size in self.sums())
        rows = "".join(
            f"<tr><td>{html.escape(row.name)}</td><td>{row.lifetime}</td><td>{row.phase}</td><td>{row.dtype}</td>"
            f'<td style="text-align:right">{row.bytes:,}</td></tr>' for row in self.rows)
        advice = "".join(f"<li>{html.escape(one.text)}</li>" for one in self.advice)
        return (f'<div style="max-width:48em"><p>{self.verdict()}</p>'
                f'<div style="position:relative"><div style="display:flex;height:1.4em;border:1px solid #8888">{bar}</div>'
                f"{limit}</div><p>{keys}</p>{'<ul>' + advice + '</ul>' if advice else ''}"
                f"<details><summary>{len(self.rows)} rows</summary><table><tr><th>name</th><th>lifetime</th><th>phase</th>"
                f"<th>type</th><th>bytes</th></tr>{rows}</table></details></div>")


def _mib(size: int) -> str:
    return f"{size / 2 ** 20:,.1f}"
