"""A question with its pictures in place, as the program writes it."""
from __future__ import annotations

from typing import Any

from . import _abi
from ._native import bad_argument
from ._pictures import Clip, Parts

IMAGE_MARK = "<image>"
CAPTION_PROMPT = "Caption this image."


def place_pictures(text: str, pictures: list[Any], numbers: str, earlier: int = 0) -> Parts:
    """Puts pictures at the `<image>` marks of `text`, in order; those without a mark go first.

    `numbers`: `ModelFacts.image_numbers`. The bundled model writes "Image 1:" before each of several pictures without a
    mark; InternVL numbers several by itself. `earlier`: pictures of the conversation so far."""
    if not isinstance(text, str):
        raise bad_argument(f"text is a str, not {type(text).__name__}")
    marks = text.count(IMAGE_MARK)
    if marks > len(pictures):
        raise bad_argument(f"the prompt has {marks} <image> marks for {len(pictures)} pictures")
    clips = [picture for picture in pictures if isinstance(picture, Clip)]
    labelled = numbers == "plain" and len(pictures) - len(clips) + earlier > 1
    flags = _abi.OCELLUS_IMAGE_NUMBERED if numbers == "several" and len(pictures) > 1 else 0
    parts = Parts()
    unmarked = len(pictures) - marks
    pending, number = "", earlier

    def add(picture: Any) -> None:
        nonlocal pending
        if pending:
            parts.add_text(pending)
        pending = ""
        parts.add_picture(picture, 0 if isinstance(picture, Clip) else flags)

    for picture in pictures[:unmarked]:
        has_label = labelled and not isinstance(picture, Clip)
        if has_label:
            number += 1
            pending += f"Image {number}:"
        add(picture)
        if has_label:
            pending += "\n"
    pieces = text.split(IMAGE_MARK)
    for piece, picture in zip(pieces, pictures[unmarked:]):
        pending += piece
        add(picture)
    pending += pieces[-1]
    if pending:
        parts.add_text(pending)
    return parts


class TrimmedText:
    """Takes white space off both ends of an answer while it comes, unless a form wants it."""

    def __init__(self, trims: bool):
        self.text = ""
        self._trims = trims
        self._held = ""

    def add(self, piece: str) -> str:
        """Returns what can be shown now."""
        if self._trims:
            self._held += piece
            shown = self._held.rstrip(" \t\r\n")
            if not shown:
                return ""
            self._held = self._held[len(shown):]
            piece = shown if self.text else shown.lstrip(" \t\r\n")
        self.text += piece
        return piece
