"""What may stand for a picture: files, arrays, PIL images, frames of cameras, clips and entries of an image library."""
from __future__ import annotations

import ctypes
import os
import struct
import sys
import zlib
from typing import Any, Iterable, Sequence, Union

from . import _abi
from ._buffers import Array, read_array
from ._native import Error, Status, bad_argument, check, lib, number_of

_CHANNELS = {1: "gray8", 3: "rgb8", 4: "rgba8"}
_BYTES_PER_PIXEL = {"rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4, "gray8": 1, "gray16": 2, "yuyv": 2}


def _bad_image(sentence: str) -> Error:
    return Error(Status.BAD_IMAGE, sentence)


def _address_of(data: Any) -> Array:
    array = read_array(data)
    if array is None:
        raise bad_argument(f"{type(data).__name__} holds no pixels: give an array or bytes")
    return array


class Frame:
    """Pixels in memory whose layout is told, as cameras and OpenCV have them.

    `data`: an array of shape (height, width, channels) or (height, width), or a flat buffer, or a list of planes; on the
    CPU or, for an engine on a GPU, on that GPU. It is read when the frame is added, and must not change until then.
    `format`: "rgb8", "bgr8", "rgba8", "bgra8", "gray8", "gray16", "nv12", "yuyv", "i420", "i422" or "i444".
    `width`, `height`: pixels; of arrays they are known. `stride`: bytes from one row of the first plane to the next;
    None: rows are dense. `full_range`: luma uses 0 to 255. `matrix`: "bt601" or "bt709".
    `depth`: nearest and farthest value of "gray16", in place of the engine's."""

    def __init__(self, data: Any, format: str = "rgb8", width: int | None = None, height: int | None = None, *,
                 stride: int | None = None, full_range: bool = False, matrix: str = "bt601",
                 depth: tuple[int, int] | None = None):
        planes = list(data) if isinstance(data, (list, tuple)) else [data]
        arrays = [_address_of(plane) for plane in planes]
        self._keep = arrays
        first = arrays[0]
        if format in _BYTES_PER_PIXEL and len(first.shape) > 1:
            first = _dense_pixels(planes[0], first, format)
            self._keep = [first]
            height, width, stride = first.shape[0], first.shape[1], first.strides[0]
        if not width or not height:
            raise bad_argument(f"a frame in {format} needs width and height")
        self.width, self.height, self.format = int(width), int(height), format
        self.on_gpu = first.on_gpu
        self._struct = _abi.ocellus_frame(format=number_of("pixel_format", format), width=self.width,
                                          height=self.height, full_range=int(full_range),
                                          color_matrix=number_of("color_matrix", matrix))
        if depth is not None:
            self._struct.depth_near, self._struct.depth_far = depth
        self._set_planes([first] + arrays[1:], stride)

    def _set_planes(self, arrays: list[Array], stride: int | None) -> None:
        shapes = _plane_shapes(self.format, self.width, self.height, stride)
        if len(arrays) == 1:  # all planes in one buffer
            left = _byte_count(arrays[0])
            addresses = []
            at = arrays[0].address
            for rows, row_bytes, used in shapes:
                addresses.append(at)
                at += rows * row_bytes
                left -= (rows - 1) * row_bytes + used if rows == shapes[-1][0] else rows * row_bytes
            if left < 0:
                raise _bad_image(f"{_byte_count(arrays[0])} bytes are too few for {self.width} x {self.height} pixels "
                                 f"in {self.format}")
        elif len(arrays) == len(shapes):
            addresses = [array.address for array in arrays]
            for array, (rows, row_bytes, used) in zip(arrays, shapes):
                if _byte_count(array) < (rows - 1) * row_bytes + used:
                    raise _bad_image(f"a plane of {_byte_count(array)} bytes is too small for {self.width} x "
                                     f"{self.height} pixels in {self.format}")
        else:
            raise _bad_image(f"{self.format} has {len(shapes)} planes, not {len(arrays)}")
        for i, (address, (_, row_bytes, _)) in enumerate(zip(addresses, shapes)):
            self._struct.plane[i] = ctypes.cast(ctypes.c_void_p(address), ctypes.POINTER(ctypes.c_uint8))
            self._struct.stride_bytes[i] = row_bytes

    def to_rgb(self) -> bytes:
        """The pixels as a model sees them: RGB, 3 * width * height bytes. Not of frames on a GPU."""
        if self.on_gpu:
            raise bad_argument("a frame on a GPU cannot be converted here")
        out = (ctypes.c_uint8 * (3 * self.width * self.height))()
        check(lib.ocellus_frame_convert(ctypes.byref(self._struct), out, len(out)))
        return bytes(out)


def _byte_count(array: Array) -> int:
    if not array.shape:
        return 0
    return array.strides[0] * (array.shape[0] - 1) + (_byte_count(
        Array(0, array.shape[1:], array.strides[1:], array.dtype, False, None)) if len(array.shape) > 1
        else abs(array.strides[0]))


def _plane_shapes(format: str, width: int, height: int, stride: int | None) -> list[tuple[int, int, int]]:
    """Rows, bytes from row to row and used bytes of a row, of each plane."""
    if format in _BYTES_PER_PIXEL:
        used = width * _BYTES_PER_PIXEL[format]
        return [(height, stride or used, used)]
    line = stride or width
    half, half_line, half_rows = (width + 1) // 2, (line + 1) // 2, (height + 1) // 2
    if format == "nv12":
        return [(height, line, width), (half_rows, line, width)]
    chroma = {"i420": (half_rows, half_line, half), "i422": (height, half_line, half), "i444": (height, line, width)}
    return [(height, line, width), chroma[format], chroma[format]]


def _dense_pixels(source: Any, array: Array, format: str) -> Array:
    """The array with the channels of a pixel side by side and rows downwards, copied if it was otherwise."""
    size = 2 if format == "gray16" else 1
    channels = _BYTES_PER_PIXEL[format] // size
    if array.dtype != ("uint16" if size == 2 else "uint8"):
        raise _bad_image(_dtype_sentence(array))
    shape = array.shape
    if len(shape) == 2 and channels == 1:
        shape = (*shape, 1)
    if len(shape) != 3 or shape[2] != channels:
        raise _bad_image(f"an array of shape {array.shape} has no pixels in {format}: {channels} channels are wanted, "
                         "(height, width, channels)")
    strides = (array.strides[0], array.strides[1], array.strides[2] if len(array.strides) == 3 else size)
    is_dense = strides[2] == size or channels == 1
    if is_dense and strides[1] == size * channels and (strides[0] >= strides[1] * shape[1] or shape[0] == 1):
        return Array(array.address, shape, (max(strides[0], strides[1] * shape[1]), strides[1], size), array.dtype,
                     array.on_gpu, array.owner)
    if array.on_gpu:
        raise _bad_image(f"the pixels of a tensor with strides {array.strides} are apart: call .contiguous() on it")
    copied = _copy_dense(source)
    return _dense_pixels(copied, _address_of(copied), format)


def _copy_dense(source: Any) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(source, numpy.ndarray):
        return numpy.ascontiguousarray(source)
    if hasattr(source, "contiguous"):  # a tensor
        return source.contiguous()
    view = memoryview(source)
    return memoryview(view.tobytes()).cast("H" if view.itemsize == 2 else "B", view.shape or ())


def _dtype_sentence(array: Array) -> str:
    sentence = f"a picture is an array of uint8 (or uint16 for depth), not of {array.dtype}"
    if "float" in array.dtype:
        return sentence + ": scale its values to 0 to 255 and convert them"
    return sentence + ": convert it"


def _frame_of_array(source: Any, array: Array) -> Frame:
    """A frame of an array whose shape and type say what it is."""
    shape = array.shape
    if array.dtype == "uint16" and (len(shape) == 2 or (len(shape) == 3 and shape[2] == 1)):
        return Frame(source, "gray16")
    if array.dtype != "uint8":
        raise _bad_image(_dtype_sentence(array))
    channels = shape[2] if len(shape) == 3 else 1
    if len(shape) not in (2, 3) or channels not in _CHANNELS:
        hint = ""
        if len(shape) == 3 and shape[0] in _CHANNELS:
            hint = "; this one has its channels first: turn it by .transpose(1, 2, 0) or .permute(1, 2, 0)"
        elif len(shape) == 4:
            hint = "; give the pictures of a batch as a list"
        raise _bad_image(f"a picture has the shape (height, width), or (height, width, channels) with 1, 3 or 4 "
                         f"channels, not {shape}{hint}")
    return Frame(source, _CHANNELS[channels])


_PIL_FORMATS = {"RGB": "rgb8", "RGBA": "rgba8", "L": "gray8", "I;16": "gray16"}
# Modes with a conversion that shows what the file shows.
_PIL_CONVERSIONS = {"1": "L", "P": "RGBA", "PA": "RGBA", "LA": "RGBA", "La": "RGBA", "RGBa": "RGBA", "RGBX": "RGB",
                    "CMYK": "RGB", "YCbCr": "RGB", "LAB": "RGB", "HSV": "RGB"}


def _frame_of_pil(image: Any) -> Frame:
    """A frame of a PIL image, turned as its EXIF says, like a file."""
    if image.getexif().get(0x0112, 1) != 1:
        from PIL import ImageOps
        image = ImageOps.exif_transpose(image)
    mode = image.mode
    if mode in _PIL_CONVERSIONS:
        image = image.convert(_PIL_CONVERSIONS[mode])
    elif mode == "I;16B":
        image = image.convert("I;16")
    elif mode == "I" and image.format == "PNG":  # what some versions make of 16 bits
        image = image.convert("I;16")
    if image.mode not in _PIL_FORMATS:
        raise _bad_image(f"a PIL image of mode {mode} has no fixed range of values: convert it to RGB, L or I;16")
    return Frame(image.tobytes(), _PIL_FORMATS[image.mode], image.width, image.height)


class Entry:
    """An image of the image library in use, by its key, without its pixels."""

    def __init__(self, key: str):
        self.key = key


class Clip:
    """Frames of a video with their times, for models that take clips.

    `frames`: pictures, 1 to 999. `fps`: frames in a second, or `seconds`: the time of each since the video's start, never
    decreasing. `duration`: seconds of the video, less than a day; 0: the time of the last frame."""

    def __init__(self, frames: Sequence[Any], *, fps: float | None = None, seconds: Iterable[float] | None = None,
                 duration: float = 0.0):
        self.frames = list(frames)
        if (fps is None) == (seconds is None):
            raise bad_argument("a clip has either fps or seconds")
        if fps is not None and not fps > 0:
            raise bad_argument(f"fps is more than 0, not {fps}")
        times = [i / fps for i in range(len(self.frames))] if fps is not None else list(seconds or [])
        self.seconds = [float(time) for time in times]
        self.duration = float(duration)
        if not self.frames or len(self.seconds) != len(self.frames):
            raise bad_argument(f"a clip of {len(self.frames)} frames has {len(self.seconds)} times")


Picture = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, Frame, Entry, Clip, Any]
"""A file's path or content, an array (NumPy, PyTorch, anything with the buffer protocol, DLPack or
`__cuda_array_interface__`: uint8 RGB, RGBA or grey, uint16 as depth), a PIL image, a Frame, a Clip or an Entry."""


class Parts:
    """Parts of a prompt as the C API takes them, with all that they point to."""

    def __init__(self) -> None:
        self._parts: list[_abi.ocellus_part] = []
        self._keep: list[Any] = []
        self._pictures: list[tuple[int, Any]] = []  # part and picture
        self.on_gpu = False  # one of them

    def __len__(self) -> int:
        return len(self._parts)

    def add_text(self, text: str, flags: int = 0) -> None:
        self._add_bytes(_abi.OCELLUS_PART_TEXT, _utf8(text), flags)

    def add_picture(self, picture: Picture, flags: int = 0) -> None:
        """Reads files; takes arrays as they are."""
        self._pictures.append((len(self._parts), picture))
        self._add_picture(picture, flags, self._parts)

    @property
    def picture_count(self) -> int:
        """Pictures and clips."""
        return len(self._pictures)

    def picture_number(self, part: int) -> int:
        """The number, from 1, of the picture that a part is; 0: it is none."""
        return next((i + 1 for i, (index, _) in enumerate(self._pictures) if index == part), 0)

    def only_size(self) -> tuple[int, int] | None:
        """Width and height of the only picture; None if there are several, or it is an entry or a clip."""
        if len(self._pictures) != 1:
            return None
        part = self._parts[self._pictures[0][0]]
        if part.kind == _abi.OCELLUS_PART_FRAME:
            return part.frame.contents.width, part.frame.contents.height
        facts = _abi.ocellus_image_facts()
        if part.kind != _abi.OCELLUS_PART_IMAGE or lib.ocellus_image_probe(part.bytes, part.byte_count,
                                                                           ctypes.byref(facts)) != 0:
            return None
        return facts.width, facts.height

    def _add_bytes(self, kind: int, data: Any, flags: int, to: list[_abi.ocellus_part] | None = None) -> None:
        array = _address_of(data)
        self._keep.append((data, array))
        (self._parts if to is None else to).append(
            _abi.ocellus_part(kind=kind, flags=flags, bytes=array.address, byte_count=array.shape[0]))

    def _add_picture(self, picture: Picture, flags: int, to: list[_abi.ocellus_part]) -> None:
        if isinstance(picture, Clip):
            return self._add_clip(picture, flags, to)
        if isinstance(picture, Entry):
            return self._add_bytes(_abi.OCELLUS_PART_ENTRY, _utf8(picture.key), flags, to)
        if isinstance(picture, (str, os.PathLike)):
            return self._add_bytes(_abi.OCELLUS_PART_IMAGE, read_file(picture), flags, to)
        frame = picture if isinstance(picture, Frame) else frame_of(picture)
        if frame is None:
            return self._add_bytes(_abi.OCELLUS_PART_IMAGE, picture, flags, to)
        self._keep.append(frame)
        self.on_gpu |= frame.on_gpu
        to.append(_abi.ocellus_part(kind=_abi.OCELLUS_PART_FRAME, flags=flags, frame=ctypes.pointer(frame._struct)))

    def _add_clip(self, clip: Clip, flags: int, to: list[_abi.ocellus_part]) -> None:
        frames: list[_abi.ocellus_part] = []
        for frame in clip.frames:
            if isinstance(frame, (Clip, Entry)):
                raise bad_argument(f"a frame of a clip is a picture, no {type(frame).__name__}")
            self._add_picture(frame, 0, frames)
        array = (_abi.ocellus_part * len(frames))(*frames)
        seconds = (ctypes.c_double * len(frames))(*clip.seconds)
        clip_struct = _abi.ocellus_clip(frame_count=len(frames), frames=array, seconds=seconds, duration=clip.duration)
        self._keep += [array, seconds, clip_struct]
        to.append(_abi.ocellus_part(kind=_abi.OCELLUS_PART_CLIP, flags=flags,
                                    clip=ctypes.addressof(clip_struct)))

    def array(self) -> Any:
        """The parts, for ocellus_session_add_parts. Alive as long as this object."""
        array = (_abi.ocellus_part * max(len(self._parts), 1))(*self._parts)
        self._keep.append(array)
        return array


def _utf8(text: Any) -> bytes:
    if not isinstance(text, str):
        raise bad_argument(f"text is a str, not {type(text).__name__}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise bad_argument(f"text cannot be written as UTF-8: {error.reason} at {error.start}") from None


def read_file(path: str | os.PathLike[str]) -> bytes:
    """The content of a picture file. Raises Error where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Error(Status.BAD_IMAGE, f"{os.fspath(path)!s}: {reason}") from None


def frame_of(picture: Any) -> Frame | None:
    """The frame of an array or a PIL image; None: it is the content of a picture file."""
    if isinstance(picture, (bytes, bytearray)):
        return None
    if hasattr(picture, "getexif") and hasattr(picture, "tobytes") and hasattr(picture, "mode"):
        return _frame_of_pil(picture)
    try:
        array = read_array(picture)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise _bad_image(f"{type(picture).__name__} cannot be read: {error}") from None
    if array is None:
        raise _bad_image(f"a {type(picture).__name__} is no picture: give a path, bytes, an array, a PIL image, a Frame, "
                         "a Clip or an Entry")
    if len(array.shape) == 1 and array.dtype == "uint8" and array.strides == (1,) and not array.on_gpu:
        return None
    return _frame_of_array(picture, array)


def encode_picture(picture: Any) -> bytes:
    """The content of a picture file: its own, or PNG of an array's or a frame's pixels."""
    if isinstance(picture, (str, os.PathLike)):
        return read_file(picture)
    frame = picture if isinstance(picture, Frame) else frame_of(picture)
    if frame is None:
        return bytes(picture)
    rgb, line = frame.to_rgb(), 3 * frame.width
    lines = b"".join(b"\0" + rgb[at:at + line] for at in range(0, len(rgb), line))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", frame.width, frame.height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 1)) +
            chunk(b"IEND", b""))


def as_pictures(pictures: Any) -> list[Any]:
    """A list of pictures out of one or several."""
    if pictures is None:
        return []
    return list(pictures) if isinstance(pictures, (list, tuple)) else [pictures]
