"""Plain JPEG files: the pixels that Pillow gives, and everything else left to it."""

from __future__ import annotations

import io
import os

import numpy as np
import pytest
from PIL import Image

from uol.errors import ImageError
from uol.images import fast_jpeg
from uol.images.fast_jpeg import decoded, plain_jpeg_size, read_plain_jpeg
from uol.images.read import ImageBytes, read_image


def picture(height=61, width=61):
    y, x = np.mgrid[:height, :width]
    noise = np.random.default_rng(0).integers(0, 60, (height, width, 3))
    waves = 90 + 60 * np.stack([np.sin(x / 5), np.cos(y / 7), np.sin((x + y) / 9)], -1)
    return Image.fromarray((waves + noise).clip(0, 255).astype(np.uint8))


def encoded(image, **options):
    file = io.BytesIO()
    image.save(file, "JPEG", **options)
    return file.getvalue()


KINDS = [
    {"quality": 95, "subsampling": 0}, {"quality": 80, "subsampling": 1}, {"quality": 60}, {"quality": 100},
    {"quality": 5}, {"optimize": True}, {"restart_marker_blocks": 2}, {"restart_marker_rows": 1}, {"keep_rgb": True},
    {"icc_profile": b"colours" * 99}, {"comment": b"a comment"}, {"dpi": (72, 72)},
]  # fmt: skip


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("options", KINDS, ids=str)
def test_the_same_pixels(tmp_path, mode, options):
    path = tmp_path / "a.jpg"
    for side in (61, 64, 8, 1):
        path.write_bytes(encoded(picture(side, side).convert(mode), **options))
        assert np.array_equal(read_plain_jpeg(str(path), side), np.asarray(read_image(path)))
    path.write_bytes(encoded(picture(400, 400).convert(mode), quality=100))  # longer than what is read first
    assert np.array_equal(read_plain_jpeg(str(path), 400), np.asarray(read_image(path)))


def test_what_is_not_plain_is_left_alone(tmp_path):
    image = picture()
    exif = image.getexif()
    exif[0x0112] = 6
    whole = encoded(image)
    scan = whole.index(b"\xff\xda")
    contents = {
        "turned": encoded(image, exif=exif), "xmp": encoded(image, xmp=b"<x:xmpmeta/>"), "empty": b"",
        "several scans": encoded(image, progressive=True), "four colours": encoded(image.convert("CMYK")),
        "another size": encoded(picture(61, 62)), "after the end": whole + b"more",
        "a marker in the scan": whole[: scan + 90] + b"\xff\xc4" + whole[scan + 90 :],
        **{f"cut at {length}": whole[:length] for length in (2, 3, 30, 200, len(whole) // 2, len(whole) - 1)},
        **{f"ended at {length}": whole[:length] + b"\xff\xd9" for length in (2, 3, 30, 200)},
    }  # fmt: skip
    image.save(tmp_path / "png.jpg", "PNG")
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    os.mkfifo(tmp_path / "pipe.jpg")
    for path in [*tmp_path.iterdir(), tmp_path / "missing.jpg", tmp_path, "a\0b"]:
        assert read_plain_jpeg(str(path), 61) is None, path


@pytest.mark.slow
def test_damage_that_pillow_reports_is_left_to_it():
    rng = np.random.default_rng(0)
    whole = [
        encoded(picture(side, side).convert(mode), **kind)
        for side in (17, 61)
        for mode in ("L", "RGB")
        for kind in KINDS
    ]
    agreed = 0
    for _ in range(4000):
        content = bytearray(whole[rng.integers(len(whole))])
        at, length = rng.integers(len(content)), rng.integers(1, 20)
        kind = rng.integers(3)
        content[at : at + (length if kind else 0)] = b"" if kind == 1 else rng.bytes(length)
        if plain_jpeg_size(bytes(content)) is None or (pixels := decoded(bytes(content))) is None:
            continue
        try:
            assert np.array_equal(read_image(ImageBytes("a", bytes(content))), pixels)
            agreed += 1
        except ImageError as error:
            pytest.fail(f"{error}: {bytes(content)!r}")
    assert agreed > 1000


def test_a_decoder_with_other_pixels_is_not_asked(tmp_path, monkeypatch):
    picture().save(tmp_path / "a.jpg")
    assert fast_jpeg.same_as_pillow()
    real = decoded
    monkeypatch.setattr(fast_jpeg, "decoded", lambda content: real(content) ^ 1)
    fast_jpeg.same_as_pillow.cache_clear()
    try:
        assert read_plain_jpeg(str(tmp_path / "a.jpg"), 61) is None
    finally:
        fast_jpeg.same_as_pillow.cache_clear()
