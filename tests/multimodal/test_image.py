"""Images to upright RGB pixels: orientation, modes, limits, broken files (B77, B80)."""

import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from app.errors import InvalidRequest
from app.multimodal.image import decode_image, read_header

LIMIT = 10**6
FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "AVIF")


def encoded(image, format, **options):
    out = io.BytesIO()
    image.save(out, format, **options)
    return out.getvalue()


def pixels(data, **options):
    return np.asarray(decode_image(data, max_pixels=LIMIT, param="p", **options))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("format", FORMATS)
def test_orientation_is_applied_to_size_and_pixels(format, orientation):
    quadrants = np.zeros((16, 24, 3), np.uint8)
    quadrants[:8, :12] = 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(Image.fromarray(quadrants), format, exif=exif)
    header = read_header(data, max_pixels=LIMIT, param="p")
    got = pixels(data)
    assert (header.height, header.width) == got.shape[:2] == ((24, 16) if orientation > 4 else (16, 24))
    bright = {1: (0, 0), 2: (0, -1), 3: (-1, -1), 4: (-1, 0), 5: (0, 0), 6: (0, -1), 7: (-1, -1), 8: (-1, 0)}
    assert got[bright[orientation]].min() > 200
    assert sum(got[y, x].min() > 200 for y in (0, -1) for x in (0, -1)) == 1


def test_orientation_behind_a_pngs_pixels_counts_in_the_header_too():
    data = encoded(Image.new("RGB", (24, 16)), "PNG")
    exif = Image.Exif()
    exif[0x0112] = 6
    block = exif.tobytes()[6:]
    chunk = struct.pack(">I", len(block)) + b"eXIf" + block + struct.pack(">I", zlib.crc32(b"eXIf" + block))
    late = data[:-12] + chunk + data[-12:]
    header = read_header(late, max_pixels=LIMIT, param="p")
    assert (header.width, header.height) == (16, 24)
    assert pixels(late).shape == (24, 16, 3)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparency_is_laid_on_the_background(mode):
    data = encoded(Image.new(mode, (4, 4)), "PNG")
    assert pixels(data).min() == 255
    assert pixels(data, background=(1, 2, 3))[0, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("format", ["PNG", "GIF"])
def test_transparent_palettes(format):
    assert pixels(encoded(Image.new("P", (4, 4)), format, transparency=0)).min() == 255


def test_deep_grey_is_scaled_not_clipped():
    ramp = np.linspace(0, 65535, 400).astype(np.uint16).reshape(20, 20)
    got = pixels(encoded(Image.fromarray(ramp), "PNG"))[..., 0]
    np.testing.assert_array_equal(got, np.rint(ramp / 257.0).astype(np.uint8))


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@pytest.mark.parametrize(("kind", "channels"), [(0, 1), (2, 3), (4, 2), (6, 4)], ids=["grey", "RGB", "LA", "RGBA"])
def test_sixteen_bits_of_every_kind_are_scaled(kind, channels):
    ramp = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    values = np.repeat(ramp[..., None], channels, 2)
    if channels in (2, 4):
        values[..., -1] = 65535
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    head, body = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 16, kind, 0, 0, 0)), zlib.compress(rows)
    end = png_chunk(b"IDAT", body) + png_chunk(b"IEND", b"")
    got = pixels(b"\x89PNG\r\n\x1a\n" + head + end)
    assert np.abs(got[..., 0].astype(int) - np.rint(ramp / 257.0)).max() <= 1
    if kind == 0:  # one grey that counts as transparent
        clear = pixels(b"\x89PNG\r\n\x1a\n" + head + png_chunk(b"tRNS", struct.pack(">H", int(ramp[0, 1]))) + end)
        assert (clear[0, 1] == 255).all() and (clear[0, 0] == got[0, 0]).all() and (clear[7, 7] == got[7, 7]).all()


def test_other_modes():
    assert pixels(encoded(Image.new("1", (4, 4), 1), "PNG")).min() == 255
    assert pixels(encoded(Image.new("CMYK", (4, 4), (0, 0, 0, 255)), "JPEG")).max() < 10
    assert pixels(encoded(Image.fromarray(np.full((4, 4), 0.5, np.float32)), "TIFF")).shape == (4, 4, 3)


def test_an_animation_gives_its_first_frame():
    frames = [Image.new("RGB", (8, 8), color) for color in ("red", "blue")]
    for format in ("GIF", "WEBP", "PNG"):
        got = pixels(encoded(frames[0], format, save_all=True, append_images=frames[1:]))
        assert got.shape == (8, 8, 3) and got[0, 0, 0] > 200 > 50 > got[0, 0, 2]


def test_a_bomb_is_refused_from_its_header():
    header = struct.pack(">IIBBBBB", 20000, 20000, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    idat = zlib.compress(b"")
    data += struct.pack(">I", len(idat)) + b"IDAT" + idat + struct.pack(">I", zlib.crc32(b"IDAT" + idat))
    for read in (read_header, decode_image):
        with pytest.raises(InvalidRequest, match="20000 x 20000") as caught:
            read(data, max_pixels=178_956_970, param="messages[0]")
        assert caught.value.param == "messages[0]"


@given(st.sampled_from([*FORMATS, "GIF", "BMP"]), st.integers(0, 10**6), st.binary(max_size=4))
@settings(max_examples=200)
def test_broken_files_are_refused_by_name(format, at, noise):
    data = encoded(Image.effect_noise((24, 16), 50).convert("RGB"), format)
    at %= len(data)
    for broken in (data[:at], data[:at] + noise + data[at + len(noise) :]):
        try:
            decode_image(broken, max_pixels=LIMIT, param="p")
        except InvalidRequest as error:
            assert error.param == "p"


def test_other_decoders_are_not_reached():
    with pytest.raises(InvalidRequest, match="known format"):
        read_header(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", max_pixels=LIMIT, param="p")
