"""Memory of other libraries: the buffer protocol, DLPack and `__cuda_array_interface__`, read without a copy."""
from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from ._native import bad_argument

_GET_BUFFER_FLAGS = 0x10 | 0x08 | 0x04  # strides, shape, format; read-only sources are welcome
_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13  # DLDeviceType
_HOST_DEVICES = (_CPU, _CUDA_HOST)
_LEGACY_STREAM = 1  # the stream that the library waits for before it reads memory of a GPU


class Array(NamedTuple):
    """An array in somebody's memory, alive as long as this object."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # bytes
    dtype: str  # "uint8", "uint16", else as its owner calls it
    on_gpu: bool
    owner: object


class _Buffer(ctypes.Structure):
    """Py_buffer."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
                ("strides", ctypes.POINTER(ctypes.c_ssize_t)), ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
                ("internal", ctypes.c_void_p)]


class _Held:
    """A buffer that is released with this object."""

    def __init__(self, source: object):
        self.view = _Buffer()
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(source), ctypes.byref(self.view), _GET_BUFFER_FLAGS)
        self._release = ctypes.pythonapi.PyBuffer_Release

    def __del__(self) -> None:
        if hasattr(self, "_release"):
            self._release(ctypes.byref(self.view))


def _read_buffer(source: object) -> Array:
    held = _Held(source)
    view = held.view
    shape = tuple(view.shape[i] for i in range(view.ndim))
    strides = tuple(view.strides[i] for i in range(view.ndim))
    kind = (view.format or b"B").decode().lstrip("@=<")
    dtype = {"B": "uint8", "c": "uint8", "H": "uint16"}.get(kind, str(getattr(source, "dtype", f"format {kind!r}")))
    return Array(view.buf or 0, shape, strides, dtype, False, held)


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class _VersionedTensor(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


def _read_dlpack(source: Any) -> Array:
    device_type, _ = source.__dlpack_device__()
    on_gpu = device_type not in _HOST_DEVICES
    if on_gpu and device_type not in (_CUDA, _CUDA_MANAGED):
        raise bad_argument(f"a picture of DLPack's device {device_type} cannot be read: only CPUs' and CUDA's can")
    arguments = {"stream": _LEGACY_STREAM} if on_gpu else {}
    try:
        capsule = source.__dlpack__(max_version=(1, 0), **arguments)
    except TypeError:  # a source of before version 1
        capsule = source.__dlpack__(**arguments)
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = name_of(capsule)
    kind: Any = _VersionedTensor if name == b"dltensor_versioned" else _Tensor
    managed = kind.from_address(pointer_of(capsule, name))
    tensor = managed.tensor if kind is _VersionedTensor else managed
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    size = tensor.bits // 8
    if tensor.strides:
        strides = tuple(tensor.strides[i] * size for i in range(tensor.ndim))
    else:
        strides = _packed_strides(shape, size)
    kinds = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}
    dtype = f"{kinds.get(tensor.code, 'type ' + str(tensor.code))}{tensor.bits}" if tensor.lanes == 1 else "vectors"
    # The capsule's own destructor frees the tensor, as nobody renames it.
    return Array((tensor.data or 0) + tensor.byte_offset, shape, strides, dtype, on_gpu, capsule)


def _packed_strides(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    strides = []
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))


def _read_cuda_interface(source: Any) -> Array:
    facts = source.__cuda_array_interface__
    stream = facts.get("stream")
    if stream not in (None, _LEGACY_STREAM):
        raise bad_argument(f"the picture is being written on CUDA stream {stream}: synchronise that stream first, or "
                           "give an object with __dlpack__")
    if facts.get("mask") is not None:
        raise bad_argument("a picture with a mask cannot be read")
    shape = tuple(facts["shape"])
    dtype = {"|u1": "uint8", "<u2": "uint16"}.get(facts["typestr"], facts["typestr"])
    strides = facts.get("strides") or _packed_strides(shape, int(facts["typestr"][2:]))
    return Array(facts["data"][0], shape, tuple(strides), dtype, True, source)


def has_buffer(source: object) -> bool:
    """Whether the object has the buffer protocol."""
    try:
        memoryview(source).release()  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        return False
    return True


def read_array(source: Any) -> Array | None:
    """The array in an object's memory, or None if it holds none. Nothing is copied or converted."""
    if has_buffer(source):
        return _read_buffer(source)
    if hasattr(source, "__dlpack__") and hasattr(source, "__dlpack_device__"):
        return _read_dlpack(source)
    if hasattr(source, "__cuda_array_interface__"):
        return _read_cuda_interface(source)
    return None
