"""Images that are kept in a directory across sessions and restarts."""
from __future__ import annotations

import ctypes
import os
import time
import weakref
from typing import Any, List

from . import _abi
from ._native import Handle, bad_argument, check, lib, parse_bytes, record


def make_keep(labels: dict[str, Any]) -> tuple[Any, Any]:
    """ocellus_library_keep of labels, and the texts that it points to."""
    keep = _abi.ocellus_library_keep()
    lib.ocellus_library_keep_init(ctypes.byref(keep))
    labels = dict(labels)
    tags = [str(tag).encode() for tag in labels.pop("tags", ())]
    array = (ctypes.c_char_p * max(len(tags), 1))(*tags)
    caption = labels.pop("caption", None)
    if tags:
        keep.tags, keep.tag_count = ctypes.cast(array, type(keep.tags)), len(tags)
    if caption is not None:
        keep.caption = str(caption).encode()
    if "days" in labels:
        keep.expires = int(time.time() + 86400 * labels.pop("days"))
    for name in ("shared", "only_there", "pinned", "expires"):
        if name in labels:
            setattr(keep, name, int(labels.pop(name)))
    if labels:
        raise bad_argument(f"there is no label {', '.join(labels)}: there are caption, tags, pinned, expires (seconds "
                           "since 1970), days and shared")
    return keep, (array, tags)


class Library(Handle):
    """An image library: keys and values of images in a directory, which several processes may use.

    `path`: the directory; it is made if it is missing. `quota`: most bytes of all entries, "10G"; None: no limit. An
    image that an owner has added before is read from it instead of being computed, with the same bits.
    Raises Error (UNSUPPORTED) in builds without the branch library, and IO."""

    def __init__(self, path: str | os.PathLike[str], quota: int | str | None = None):
        pointer = ctypes.c_void_p()
        check(lib.ocellus_library_open(os.fsencode(path), parse_bytes(quota), ctypes.byref(pointer)))
        super().__init__(pointer.value or 0, lib.ocellus_library_close)
        self._engines: weakref.WeakSet[Any] = weakref.WeakSet()  # whose sessions have used it

    def close(self) -> None:
        """Closes the library. Engines whose sessions have used it must be closed first. A second call does nothing."""
        if not self.closed and any(not engine.closed for engine in self._engines):
            raise bad_argument("an engine whose sessions use this library is open: close it first")
        super().close()

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def list(self, owner: str = "me") -> List[_abi.LibraryItem]:
        """The entries that an owner sees, in the order of addition."""
        found: List[_abi.LibraryItem] = []

        def visit(_user: Any, item: Any) -> int:
            found.append(record(_abi.LibraryItem, item.contents))
            return 0

        check(lib.ocellus_library_list(self._get(), owner.encode(), _abi.ocellus_library_visit(visit), None))
        return found

    def describe(self, key: str, owner: str = "me") -> _abi.LibraryItem | None:
        """One entry; None: the owner sees none with this key."""
        item, found = _abi.ocellus_library_item(), ctypes.c_int32()
        check(lib.ocellus_library_describe_entry(self._get(), owner.encode(), key.encode(), ctypes.byref(item),
                                                 ctypes.byref(found)))
        made: _abi.LibraryItem | None = record(_abi.LibraryItem, item) if found.value else None
        return made

    def search(self, text: str, owner: str = "me", count: int = 10) -> Any:
        """Entries whose captions and tags hold any of the words, the best first, as (item, share of the words)."""
        hits, found = (_abi.ocellus_library_hit * max(count, 1))(), ctypes.c_int32()
        data = text.encode()
        check(lib.ocellus_library_search_text(self._get(), owner.encode(), data, len(data), hits, count,
                                              ctypes.byref(found)))
        return [(record(_abi.LibraryItem, hit.item), hit.score) for hit in hits[:found.value]]

    def remove(self, key: str, owner: str = "me", *, shared: bool = False) -> bool:
        """Removes an entry. False: there is none."""
        return self._find(lib.ocellus_library_remove, owner, int(shared), key.encode())

    def pin(self, key: str, owner: str = "me", *, pinned: bool = True, shared: bool = False) -> bool:
        """Exempts an entry from removal by quotas, or no longer. False: there is none."""
        return self._find(lib.ocellus_library_set_pinned, owner, int(shared), key.encode(), int(pinned))

    def relabel(self, key: str, owner: str = "me", **labels: Any) -> bool:
        """Replaces all labels of an entry: `caption`, `tags`, `pinned`, `expires` (seconds since 1970) or `days` from
        now; `shared`: the entry is in the shared part. False: there is none."""
        keep, _texts = make_keep(labels)
        return self._find(lib.ocellus_library_relabel, owner, key.encode(), ctypes.byref(keep))

    def _find(self, function: Any, owner: str, *arguments: Any) -> bool:
        found = ctypes.c_int32()
        check(function(self._get(), owner.encode(), *arguments, ctypes.byref(found)))
        return bool(found.value)

    def create_shared(self, administrator: str) -> None:
        """Creates the part that all owners read and its administrator changes."""
        check(lib.ocellus_library_create_shared(self._get(), administrator.encode()))

    def set_owner_quota(self, owner: str, quota: int | str | None) -> None:
        """Bounds the bytes of one owner's entries; None: no limit."""
        check(lib.ocellus_library_set_owner_quota(self._get(), owner.encode(), parse_bytes(quota)))

    def use(self, owner: str | None = None) -> _abi.LibraryUse:
        """What the entries of an owner use; None: of all together."""
        use = _abi.ocellus_library_use()
        check(lib.ocellus_library_describe_use(self._get(), owner.encode() if owner else None, ctypes.byref(use)))
        made: _abi.LibraryUse = record(_abi.LibraryUse, use)
        return made

    def verify(self) -> _abi.LibraryReport:
        """Reads every entry, sets damaged ones aside and repairs the catalogue."""
        return self._upkeep(lib.ocellus_library_verify)

    def collect_garbage(self) -> _abi.LibraryReport:
        """Removes expired and outdated entries and files of crashed writers."""
        return self._upkeep(lib.ocellus_library_collect_garbage)

    def _upkeep(self, function: Any) -> _abi.LibraryReport:
        report = _abi.ocellus_library_report()
        check(function(self._get(), ctypes.byref(report)))
        made: _abi.LibraryReport = record(_abi.LibraryReport, report)
        return made
