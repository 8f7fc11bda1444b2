"""Every way of giving a picture shows the model the same pixels, and what is no picture is refused in a sentence."""
import array
import io
import pathlib

import numpy
import ocellus
import pytest
from ocellus._pictures import Parts, frame_of
from PIL import Image


class Dlpack:
    """An array that is known by DLPack alone."""

    def __init__(self, source):
        self._source = source

    def __dlpack__(self, **options):
        return self._source.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._source.__dlpack_device__()


def rgb(picture) -> bytes:
    return (picture if isinstance(picture, ocellus.Frame) else frame_of(picture)).to_rgb()


def test_all_kinds_of_pictures_have_one_caption(session, board, pixels):
    want = session.caption(board).text
    content = board.read_bytes()
    for picture in (str(board), content, bytearray(content), memoryview(content), numpy.frombuffer(content, numpy.uint8),
                    pixels, Image.open(board), Dlpack(pixels.copy()), ocellus.Frame(pixels),
                    ocellus.Frame(pixels[..., ::-1].copy(), "bgr8")):
        assert session.caption(picture).text == want, type(picture)


def test_arrays_are_read_as_they_lie(pixels):
    want = pixels.tobytes()
    padded = numpy.zeros((256, 300, 3), numpy.uint8)
    padded[:, :256] = pixels
    read_only = pixels.copy()
    read_only.flags.writeable = False
    flipped = pixels[::-1].copy()
    planar = numpy.ascontiguousarray(pixels.transpose(2, 0, 1))
    for same in (pixels, padded[:, :256], read_only, flipped[::-1], planar.transpose(1, 2, 0), pixels[..., ::-1][..., ::-1],
                 Dlpack(padded[:, :256]), memoryview(pixels)):
        assert rgb(same) == want
    assert rgb(pixels[:, :, :1]) == numpy.repeat(pixels[:, :, :1], 3, axis=2).tobytes()
    assert rgb(pixels[:, :, 0]) == numpy.repeat(pixels[:, :, :1], 3, axis=2).tobytes()
    alpha = numpy.dstack([pixels, numpy.full((256, 256), 255, numpy.uint8)])
    assert rgb(alpha) == want


def test_the_memory_of_an_array_is_not_copied(pixels):
    frame = ocellus.Frame(pixels)
    assert frame._keep[0].address == pixels.ctypes.data


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"])
def test_pil_modes_show_what_the_file_shows(mode, board):
    if mode in ("RGBX", "LAB"):  # which no file of ours has
        image = Image.open(board).convert("RGB")
        if mode == "LAB":
            from PIL import ImageCms
            profile = ImageCms.buildTransform(ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB")
            image = ImageCms.applyTransform(image, profile)
        else:
            image = image.convert("RGBX")
    else:
        image = Image.open(board).convert("RGB").convert(mode)
    want = numpy.asarray(image.convert("RGBA").convert("RGB") if mode in ("LA", "P") else image.convert("RGB"))
    assert numpy.abs(numpy.frombuffer(rgb(image), numpy.uint8).astype(int) - want.ravel()).max() <= 1


def test_pil_transparency_lies_on_white():
    image = Image.new("RGBA", (8, 8), (255, 0, 0, 0))
    assert set(rgb(image)) == {255}
    palette = image.convert("RGB").convert("P")
    palette.info["transparency"] = palette.getpixel((0, 0))
    assert set(rgb(palette)) == {255}


def test_pil_images_turn_as_their_files_do(session, board):
    turned = Image.open(board).convert("RGB").transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright
    file = io.BytesIO()
    turned.save(file, "PNG", exif=exif)
    assert rgb(Image.open(io.BytesIO(file.getvalue()))) == rgb(Image.open(board).convert("RGB"))


def test_depth_comes_from_sixteen_bits(pixels):
    depth = numpy.linspace(0, 65535, 64, dtype=numpy.uint16).reshape(8, 8)
    image = Image.fromarray(depth)
    assert image.mode == "I;16"
    assert rgb(image) == rgb(depth)
    near = ocellus.Frame(depth, "gray16", depth=(300, 5000)).to_rgb()
    assert near[0] == 0 and near != rgb(depth)  # no reading is black


def luma_chroma(pixels):
    """BT.601 planes of an RGB array, by the standard's formula."""
    red, green, blue = (pixels[..., i].astype(float) for i in range(3))
    luma = 16 + 65.481 / 255 * red + 128.553 / 255 * green + 24.966 / 255 * blue
    cb = 128 - 37.797 / 255 * red - 74.203 / 255 * green + 112 / 255 * blue
    cr = 128 + 112 / 255 * red - 93.786 / 255 * green - 18.214 / 255 * blue
    return [numpy.clip(numpy.rint(plane), 0, 255).astype(numpy.uint8) for plane in (luma, cb, cr)]


def test_frames_of_cameras():
    flat = numpy.empty((16, 24, 3), numpy.uint8)
    flat[:] = (200, 60, 30)
    luma, cb, cr = luma_chroma(flat)
    half_cb, half_cr = cb[::2, ::2], cr[::2, ::2]
    nv12 = luma.tobytes() + numpy.dstack([half_cb, half_cr]).tobytes()
    i420 = luma.tobytes() + half_cb.tobytes() + half_cr.tobytes()
    yuyv = numpy.empty((16, 48), numpy.uint8)
    yuyv[:, 0::2], yuyv[:, 1::4], yuyv[:, 3::4] = luma, cb[:, ::2], cr[:, ::2]
    frames = [ocellus.Frame(nv12, "nv12", 24, 16), ocellus.Frame(i420, "i420", 24, 16),
              ocellus.Frame(yuyv.tobytes(), "yuyv", 24, 16),
              ocellus.Frame([luma, half_cb.copy(), half_cr.copy()], "i420", 24, 16),
              ocellus.Frame(luma.tobytes() + cb.tobytes() + cr.tobytes(), "i444", 24, 16),
              ocellus.Frame(luma.tobytes() + cb[:, ::2].tobytes() + cr[:, ::2].tobytes(), "i422", 24, 16)]
    for frame in frames:
        assert numpy.abs(numpy.frombuffer(frame.to_rgb(), numpy.uint8).astype(int) - flat.ravel()).max() <= 3, frame.format


def test_rows_with_a_stride():
    rows = numpy.zeros((4, 32), numpy.uint8)
    rows[:, :24] = numpy.arange(96).reshape(4, 24)
    assert ocellus.Frame(rows.tobytes(), "rgb8", 8, 4, stride=32).to_rgb() == rows[:, :24].tobytes()


BAD = [
    (lambda: numpy.zeros((4, 4, 3), numpy.float32), "scale its values to 0 to 255"),
    (lambda: numpy.zeros((4, 4, 3), numpy.int64), "not of int64"),
    (lambda: numpy.zeros((4, 4, 3), bool), "not of bool"),
    (lambda: numpy.zeros((3, 40, 40), numpy.uint8), "channels first"),
    (lambda: numpy.zeros((2, 4, 4, 3), numpy.uint8), "as a list"),
    (lambda: numpy.zeros((4, 4, 2), numpy.uint8), "1, 3 or 4 channels"),
    (lambda: numpy.zeros((4, 4, 3), numpy.uint16), "not of uint16"),
    (lambda: numpy.zeros((0, 4, 3), numpy.uint8), None),
    (lambda: numpy.array([["a"]]), None),
    (lambda: numpy.array([object()]), None),
    (lambda: Dlpack(numpy.zeros((4, 4, 3), numpy.float32)), "float32"),
    (lambda: Image.new("F", (4, 4)), "mode F"),
    (lambda: Image.new("I", (4, 4)), "mode I"),
    (lambda: array.array("d", [1.0]), "not of"),
    (lambda: 17, "a int is no picture"),
    (lambda: {"a": 1}, "a dict is no picture"),
    (lambda: "/no/such/file.png", "/no/such/file.png"),
    (lambda: pathlib.Path("/"), "directory"),
    (lambda: "a\0b", None),
    (lambda: b"", None),
    (lambda: b"no picture", None),
]


@pytest.mark.parametrize("make, words", BAD, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_no_picture_is_refused(session, make, words):
    with pytest.raises(ocellus.Error) as raised:
        session.caption(make())
    assert raised.value.status in (ocellus.Status.BAD_IMAGE, ocellus.Status.BAD_ARGUMENT)
    assert "\n" not in raised.value.sentence and (words is None or words in raised.value.sentence)


def test_a_bad_picture_among_several_is_named(session, board):
    with pytest.raises(ocellus.Error, match="picture 2: "):
        session.ask([board, b"no picture"], "Which?")


@pytest.mark.parametrize("make", [
    lambda: ocellus.Frame(bytes(10), "rgb8", 8, 8), lambda: ocellus.Frame(bytes(10), "nv12", 8, 8),
    lambda: ocellus.Frame(bytes(10), "rgb9", 8, 8), lambda: ocellus.Frame(bytes(192), "rgb8"),
    lambda: ocellus.Frame([bytes(64), bytes(3)], "nv12", 8, 8), lambda: ocellus.Frame([bytes(64)] * 3, "nv12", 8, 8),
    lambda: ocellus.Frame(5, "rgb8", 8, 8), lambda: ocellus.Clip([]), lambda: ocellus.Clip([b""], fps=0),
    lambda: ocellus.Clip([b""]), lambda: ocellus.Clip([b"", b""], seconds=[0.0]),
])
def test_frames_and_clips_that_hold_too_little(make):
    with pytest.raises(ocellus.Error):
        make()


def test_parts_count_pictures(board):
    parts = Parts()
    parts.add_text("a")
    parts.add_picture(str(board))
    assert parts.picture_count == 1 and parts.picture_number(1) == 1 and parts.only_size() == (256, 256)
