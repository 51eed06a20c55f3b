"""Plain JPEG files: the pixels that Pillow gives, and everything else left to it."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from uol.images.fast_jpeg import is_plain_jpeg, read_plain_jpeg, resize_square
from uol.images.framing import fit_square
from uol.images.read import read_image


@pytest.fixture
def picture():
    y, x = np.mgrid[:61, :83]
    noise = np.random.default_rng(0).integers(0, 60, (61, 83, 3))
    waves = 90 + 60 * np.stack([np.sin(x / 5), np.cos(y / 7), np.sin((x + y) / 9)], -1)
    return Image.fromarray((waves + noise).clip(0, 255).astype(np.uint8))


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("options", [{"quality": 95, "subsampling": 0}, {"quality": 60}, {"progressive": True}])
def test_the_same_pixels(picture, tmp_path, mode, options):
    path = tmp_path / "a.jpg"
    picture.convert(mode).save(path, "JPEG", **options)
    pixels = read_plain_jpeg(path)
    assert pixels.shape == (61, 83, 3)
    assert np.array_equal(pixels, np.asarray(read_image(path)))


@pytest.mark.parametrize("side", [61, 24, 16, 100])
def test_resized_nearly_as_pillow_does(picture, side):
    square = fit_square(picture, side).astype(int)
    difference = np.abs(resize_square(np.array(picture), side) - square)
    assert difference.max() <= 2
    assert (difference > 0).mean() < 0.01
    assert np.array_equal(resize_square(square.astype(np.uint8), side), square)


def test_what_is_not_plain_is_left_alone(picture, tmp_path):
    exif = picture.getexif()
    exif[0x0112] = 6
    picture.save(tmp_path / "turned.jpg", exif=exif)
    picture.save(tmp_path / "xmp.jpg", xmp=b"<x:xmpmeta/>")
    picture.convert("CMYK").save(tmp_path / "cmyk.jpg")
    picture.save(tmp_path / "png.jpg", "PNG")
    picture.save(tmp_path / "a.jpg")
    whole = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "empty.jpg").write_bytes(b"")
    for length in (2, 3, 30, 200, len(whole) // 2):
        (tmp_path / f"cut-{length}.jpg").write_bytes(whole[:length])
    (tmp_path / "a.jpg").unlink()
    for path in [*tmp_path.iterdir(), tmp_path / "missing.jpg", tmp_path]:
        assert read_plain_jpeg(path) is None, path


def test_sizes_beyond_what_is_allowed(picture):
    file = io.BytesIO()
    picture.save(file, "JPEG")
    header = bytearray(file.getvalue())
    assert is_plain_jpeg(bytes(header))
    frame = header.index(b"\xff\xc0")
    header[frame + 5 : frame + 9] = b"\xff\xff\xff\xff"
    assert not is_plain_jpeg(bytes(header))
