"""The shared library, its errors and its handles."""
from __future__ import annotations

import ctypes
import os
import weakref
from enum import IntEnum
from typing import Any, Callable

from . import _abi

FOLDER = os.path.dirname(os.path.abspath(__file__))


class Status(IntEnum):
    """Why a call failed: `ocellus_status` of the C API."""

    BAD_ARGUMENT = _abi.OCELLUS_BAD_ARGUMENT
    """invalid arguments or state of the call"""
    BAD_FILE = _abi.OCELLUS_BAD_FILE
    """a missing, damaged or inconsistent model file or library entry"""
    UNSUPPORTED = _abi.OCELLUS_UNSUPPORTED
    """a valid input with a feature that this build, model or plan lacks"""
    BAD_IMAGE = _abi.OCELLUS_BAD_IMAGE
    """a picture that cannot be decoded or is outside the planned limits"""
    OVER_BUDGET = _abi.OCELLUS_OVER_BUDGET
    """the plan needs more bytes than the budget"""
    FULL = _abi.OCELLUS_FULL
    """no room is left: more images, text, sessions or bytes than planned"""
    CANCELLED = _abi.OCELLUS_CANCELLED
    """stopped by `cancel` or a callback"""
    DEADLINE = _abi.OCELLUS_DEADLINE
    """stopped by the timeout"""
    IO = _abi.OCELLUS_IO
    """the system refused a file, memory, a thread or a setting"""
    DEVICE = _abi.OCELLUS_DEVICE
    """the GPU or its driver failed"""
    INTERNAL = _abi.OCELLUS_INTERNAL
    """a defect in Ocellus"""


class Error(Exception):
    """A call that failed. The one exception of this package.

    `status` says what kind of failure it is, `sentence` what is wrong and what to change; str() is the sentence."""

    def __init__(self, status: Status, sentence: str):
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence

    def __reduce__(self) -> tuple[Any, ...]:
        return Error, (self.status, self.sentence)


def bad_argument(sentence: str) -> Error:
    return Error(Status.BAD_ARGUMENT, sentence)


def load() -> Any:
    """Opens the shared library beside this file and declares its functions."""
    path = os.path.join(FOLDER, "_ocellus.so")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"{path} cannot be loaded: {error}") from error
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    _check_structs(library, path)
    library.ocellus_last_error.restype = ctypes.POINTER(_abi.ocellus_failure)
    return library


def _check_structs(library: Any, path: str) -> None:
    """Refuses a library of another version than _abi.py, before it writes structs of other sizes."""
    for name in ("allocator", "constraint_params", "engine_config", "generate_params", "library_keep", "limits"):
        room = (ctypes.c_uint32 * 4096)()
        initialise = getattr(library, f"ocellus_{name}_init")
        initialise(ctypes.cast(room, initialise.argtypes[0]))
        if room[0] != ctypes.sizeof(getattr(_abi, f"ocellus_{name}")):
            raise ImportError(f"{path} and _abi.py are of different versions: install the package again")


lib = load()


def check(status: int) -> None:
    """Raises the calling thread's last failure unless `status` is 0."""
    if status != 0:
        failure = lib.ocellus_last_error().contents
        raise Error(Status(status), failure.sentence.decode("utf-8", "replace"))


def record(kind: Any, struct: ctypes.Structure) -> Any:
    """A record of _abi out of a struct: bytes become texts, numbers of constants their names."""
    values = {}
    for name in kind.__annotations__:
        value = getattr(struct, name)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        elif isinstance(value, ctypes.Array):
            value = [one.value.decode("utf-8", "replace") if hasattr(one, "value") else one for one in value]
        elif name in _abi.NAMES and name != "status":
            value = next((text for text, number in _abi.NAMES[name].items() if number == value), str(value))
        values[name] = value
    return kind(**values)


def number_of(name: str, value: Any) -> Any:
    """The number of a constant that `name` takes, from its name or number; other values as they are."""
    if not isinstance(value, str) or name not in _abi.NAMES:
        return value
    key = value.lower().replace("-", "_")
    if key not in _abi.NAMES[name]:
        raise bad_argument(f"{name} is one of {', '.join(_abi.NAMES[name])}, not {value!r}")
    return _abi.NAMES[name][key]


def set_field(struct: Any, name: str, value: Any) -> None:
    """Sets a field of a struct, or says why it cannot be that."""
    number = number_of(name, value)
    number = number.encode() if isinstance(number, str) else number
    try:
        setattr(struct, name, number)
    except (TypeError, ValueError) as error:
        raise bad_argument(f"{name}={value!r}: {error}") from None
    # ctypes cuts numbers that do not fit without a word.
    kept = getattr(struct, name)
    if isinstance(kept, int) and kept != int(number):
        raise bad_argument(f"{name}={value!r} is out of range")


def set_options(struct: Any, options: dict[str, Any], allowed: Any) -> None:
    """Sets fields of a struct from keyword arguments."""
    for name, value in options.items():
        if name not in allowed.__annotations__:
            raise bad_argument(f"there is no option {name!r}: there are {', '.join(allowed.__annotations__)}")
        set_field(struct, name, value)


def parse_bytes(value: int | str | None) -> int:
    """Bytes from a number, "512M" or "2GiB" (powers of 1024), or "44MB" (powers of 1000); None is 0."""
    if value is None:
        return 0
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    import re
    found = re.fullmatch(r"([0-9]+)\s*([KMGT]?)(i?B)?", str(value).strip(), flags=re.I)
    if not found or (found[3] and not found[2]):
        raise bad_argument(f"{value!r} is no size: write bytes, 512M (powers of 1024) or 44MB (powers of 1000)")
    base = 1000 if (found[3] or "").lower() == "b" else 1024
    return int(found[1]) * int(base ** " KMGT".index(found[2].upper() or " "))


class Handle:
    """An object of the library. It is closed by `close`, by `with`, or when nothing refers to it any more.

    After os.fork the child has the memory but none of the threads: there a handle can only be dropped."""

    def __init__(self, pointer: int, close: Callable[[int], None]):
        self._pointer: int | None = pointer
        self._process = os.getpid()
        self._finalizer = weakref.finalize(self, _close, pointer, close, self._process)
        self._finalizer.atexit = False  # engines are ended in order, the rest goes with the process

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return not self._finalizer.alive

    def close(self) -> None:
        """Frees the object. A second call does nothing."""
        self._finalizer()
        self._pointer = None

    def _get(self) -> int:
        if self._pointer is None or not self._finalizer.alive:
            raise bad_argument(f"this {type(self).__name__} is closed")
        if self._process != os.getpid():
            raise bad_argument(f"this {type(self).__name__} is of the process that forked this one: make one here")
        return self._pointer


def _close(pointer: int, close: Callable[[int], None], process: int) -> None:
    if process == os.getpid():
        close(pointer)
