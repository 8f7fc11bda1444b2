"""Models by name, in the cache that the hub's own tools use."""
from __future__ import annotations

from typing import Any

from ._native import Error, Status


def find_cached(name: str) -> Any:
    """The files of a published name that `pull` has fetched."""
    raise Error(Status.BAD_FILE, f"{name}: there is no such file, and no model of this name was fetched")


def pull(name: str) -> Any:
    """Fetches a published pair."""
    raise Error(Status.UNSUPPORTED, name)
