"""Images of every origin become upright 8-bit RGB, or are refused in one line."""

from __future__ import annotations

import bz2
import os
import struct
import subprocess
import sys
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image

from uol.errors import CallError, ImageError
from uol.images.face_cache import FaceCache
from uol.images.framing import fit_square, pack_images
from uol.images.paths import expand_paths, find_images
from uol.images.read import SUFFIXES, read_image

RED = (255, 0, 0)


@pytest.fixture
def ramp():
    """An image whose top left is dark and whose bottom right is bright."""
    values = np.add.outer(np.arange(40), np.arange(60)) * 2
    return Image.fromarray(values.astype(np.uint8)).convert("RGB")


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "webp", "tif", "gif", "ppm", "jp2", "avif"])
def test_usual_formats(tmp_path, ramp, suffix):
    ramp.save(tmp_path / f"image.{suffix}")
    found = read_image(tmp_path / f"image.{suffix}")
    assert found.mode == "RGB"
    assert np.abs(np.asarray(found, int) - np.asarray(ramp, int)).mean() < 4


@pytest.mark.parametrize("name", ["image.heic", "named.jpg"])
def test_photographs_of_telephones(tmp_path, ramp, name):
    from pillow_heif import from_pillow

    from_pillow(ramp).save(tmp_path / "image.heic", quality=90)
    (tmp_path / "image.heic").rename(tmp_path / name)
    assert np.abs(np.asarray(read_image(tmp_path / name), int) - np.asarray(ramp, int)).mean() < 4


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
def test_a_good_picture_with_broken_exif_is_read(tmp_path, ramp, suffix):
    exif = Image.Exif()
    exif[0x0112] = 3
    exif[0x010F] = "a camera"
    whole = exif.tobytes()
    # two entries: the orientation, 3, and settings of the camera that lie outside the file
    outside = b"Exif\0\0MM\0*" + struct.pack(">IHHHIHHHHIII", 8, 2, 0x0112, 3, 1, 3, 0, 0x8769, 4, 1, 0xFFFF, 0)
    upside_down = ramp.rotate(180)
    broken = [whole[:9], whole[:-3], b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0nonsense", outside]
    for number, content in enumerate(broken):
        path = tmp_path / f"{number}.{suffix}"
        upside_down.save(path, exif=content, quality=95)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's
            found = np.asarray(read_image(path), int)
        expected = ramp if number == 4 else upside_down  # the last has its orientation still
        assert np.abs(found - np.asarray(expected, int)).mean() < 4, number


def test_what_is_no_file_has_its_name(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "folder.jpg").mkdir()
    long = tmp_path / ("x" * 300 + ".jpg")
    for path, words in {
        tmp_path / "pipe.jpg": "a pipe, not an image", tmp_path / "folder.jpg": "a folder, not an image",
        "/dev/null": "a device, not an image", tmp_path / "gone.jpg": "no such image file",
        long: "cannot be read", "nul\0.jpg": "cannot be read", tmp_path / "pipe.jpg" / "x.jpg": "no such image file",
    }.items():  # fmt: skip
        with pytest.raises(ImageError, match=words):
            read_image(path)
        with pytest.raises(ImageError, match=words):
            FaceCache(tmp_path / "cache").get(path)


def test_packed_images(tmp_path, ramp):
    ramp.save(tmp_path / "image.ppm")
    (tmp_path / "image.ppm.bz2").write_bytes(bz2.compress((tmp_path / "image.ppm").read_bytes()))
    assert np.array_equal(np.asarray(read_image(tmp_path / "image.ppm.bz2")), np.asarray(ramp))
    (tmp_path / "bad.ppm.bz2").write_bytes(b"not packed")
    with pytest.raises(ImageError, match="not a readable image"):
        read_image(tmp_path / "bad.ppm.bz2")


def test_exif_orientation_is_honoured(tmp_path, ramp):
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    ramp.rotate(180).save(tmp_path / "turned.jpg", exif=exif, quality=95)
    assert np.abs(np.asarray(read_image(tmp_path / "turned.jpg"), int) - np.asarray(ramp, int)).mean() < 3


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif"])
def test_an_image_is_turned_once(tmp_path, ramp, suffix):
    exif = Image.Exif()
    exif[0x0112] = 6
    path = tmp_path / f"turned.{suffix}"
    ramp.transpose(Image.Transpose.ROTATE_90).save(path, exif=exif)
    again = read_image(read_image(path))
    assert again.size == ramp.size
    assert np.abs(np.asarray(again, int) - np.asarray(ramp, int)).mean() < 4


def test_other_modes(tmp_path, ramp):
    grey = np.asarray(ramp.convert("L"), np.int64)
    Image.fromarray((grey * 257).astype(np.uint16)).save(tmp_path / "sixteen.png")
    ramp.convert("CMYK").save(tmp_path / "cmyk.jpg", quality=95)
    ramp.quantize(200).save(tmp_path / "palette.png")
    ramp.convert("L").save(tmp_path / "grey.png")
    for name in ("sixteen.png", "cmyk.jpg", "palette.png", "grey.png"):
        found = np.asarray(read_image(tmp_path / name), np.int64)
        assert np.abs(found.mean(-1) - grey).mean() < 5, name


def test_numbers_of_any_range_become_grey_levels(tmp_path, ramp):
    grey = np.asarray(ramp.convert("L"))
    for name, values in {"unit": grey / 255, "byte": grey * 1.0, "big": grey * 1000.0}.items():
        Image.fromarray(values.astype(np.float32)).save(tmp_path / f"{name}.tif")
        found = np.asarray(read_image(tmp_path / f"{name}.tif"), int)[..., 0]
        expected = grey if name != "big" else grey * (255 / grey.max())
        assert np.abs(found - expected).max() <= 1, name


def test_transparency_is_laid_over_white(tmp_path):
    layer = Image.new("RGBA", (4, 2), (*RED, 255))
    layer.putpixel((0, 0), (0, 0, 0, 0))
    layer.save(tmp_path / "layer.png")
    found = read_image(tmp_path / "layer.png")
    assert found.getpixel((0, 0)) == (255, 255, 255)
    assert found.getpixel((1, 0)) == RED


def test_of_an_animation_the_first_frame_is_taken(tmp_path):
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, (0, 255, 0))]
    frames[0].save(tmp_path / "film.gif", save_all=True, append_images=frames[1:])
    assert read_image(tmp_path / "film.gif").getpixel((3, 3)) == RED


def png_header(width, height):
    """A PNG that claims a size and holds no pixels."""
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))


def test_hostile_files_are_refused_in_one_line(tmp_path, ramp):
    ramp.resize((400, 400)).save(tmp_path / "whole.jpg")
    whole = (tmp_path / "whole.jpg").read_bytes()
    hostile = {
        "cut.jpg": whole[: len(whole) // 2],
        "zip.jpg": b"PK\x03\x04" + bytes(200),
        "huge.png": png_header(50_000, 50_000),
        "empty.jpg": b"",
        "text.png": b"not an image",
    }
    for name, content in hostile.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ImageError) as caught:
            read_image(tmp_path / name)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(ImageError, match="no such image file"):
        read_image(tmp_path / "missing.jpg")


def test_arrays_and_pil_images(ramp):
    assert read_image(np.asarray(ramp)).size == (60, 40)
    assert read_image(np.zeros((5, 7), np.uint8)).mode == "RGB"
    assert read_image(ramp.convert("L")).mode == "RGB"
    with pytest.raises(ImageError, match="uint8"):
        read_image(np.zeros((5, 7, 3)))


def test_packing_resizes_and_keeps_the_centre(ramp):
    packed = pack_images([ramp, np.asarray(ramp)], 32, 24)
    assert packed.shape == (2, 3, 24, 24)
    assert packed.dtype == np.uint8
    assert np.array_equal(packed[0], packed[1])
    whole = fit_square(ramp, 32)
    assert np.array_equal(packed[0].transpose(1, 2, 0), whole[4:28, 4:28])
    with pytest.raises(CallError, match="does not fit"):
        fit_square(ramp, 32, 40)


def test_finding_images(tmp_path, ramp):
    (tmp_path / "deep").mkdir()
    for name in ("b.JPG", "deep/a.png", ".hidden.png"):
        ramp.save(tmp_path / name, format="PNG")
    (tmp_path / "notes.txt").write_text("no image")
    assert [path.name for path in find_images(tmp_path)] == ["b.JPG", "a.png"]
    (tmp_path / "none").mkdir()
    with pytest.raises(CallError, match="no images"):
        find_images(tmp_path / "none")
    with pytest.raises(CallError, match="no such folder"):
        find_images(tmp_path / "nowhere")


def test_a_folder_says_what_it_passed_over(tmp_path, ramp):
    (tmp_path / ".thumbnails").mkdir()
    (tmp_path / "elsewhere").mkdir()
    for name in ("a.jpg", ".b.jpg", ".thumbnails/a.jpg"):
        ramp.save(tmp_path / name)
    for name in ("film.mov", "film2.MOV", "README", ".DS_Store", "elsewhere/notes.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "gone.png").symlink_to(tmp_path / "nowhere.png")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe.png")
    lines = []
    assert find_images(tmp_path, lines.append) == [tmp_path / "a.jpg"]
    assert lines == [
        f"{tmp_path}: 1 image; passed over 9 others: 2 .mov, 1 .txt, 1 hidden, 1 hidden folders, 1 linked folders, "
        "1 links to nothing, 1 pipes or devices, 1 without an ending"
    ]
    with pytest.raises(CallError, match=r"no images in this folder \(passed over: 1 .txt; looked for"):
        find_images(tmp_path / "elsewhere")


def test_a_folder_without_images_stops_nothing_that_others_were_named_for(tmp_path, ramp):
    ramp.save(tmp_path / "a.png")
    (tmp_path / "empty").mkdir()
    lines = []
    names = [str(tmp_path / "empty"), str(tmp_path / "a.png")]
    assert expand_paths(names, report=lines.append) == [tmp_path / "empty", tmp_path / "a.png"]
    assert lines == [f"{tmp_path / 'empty'}: no images in this folder (looked for {', '.join(sorted(SUFFIXES))})"]
    with pytest.raises(CallError, match="no images in this folder"):
        expand_paths(names[:1])
    (tmp_path / "bare").mkdir()
    with pytest.raises(CallError, match="no images were found in what was named; missing.png: no such file"):
        expand_paths([str(tmp_path / "empty"), str(tmp_path / "bare"), "missing.png"])


@pytest.mark.parametrize("wrong", [None, b"bytes", 3])
def test_what_is_no_image_is_said_in_one_line(wrong):
    with pytest.raises(ImageError, match="an image is a path, a PIL image or a uint8 array, not"):
        read_image(wrong)


def test_folders_and_transparent_arrays(tmp_path):
    with pytest.raises(ImageError, match="a folder, not an image"):
        read_image(tmp_path)
    clear = np.zeros((4, 4, 4), np.uint8)
    assert np.asarray(read_image(clear)).min() == 255  # nothing of it is seen, but the white behind


def test_the_hosts_warning_filters_stay_as_they_are():
    code = (
        "import warnings, numpy, PIL.Image; before = list(warnings.filters)\n"
        "import uol.images.read\n"
        "assert list(warnings.filters) == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_large_photograph_is_read_and_a_larger_one_refused(tmp_path, monkeypatch):
    Image.new("L", (300, 200)).save(tmp_path / "large.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 50_000)  # from here on Pillow warns
    with pytest.warns(Image.DecompressionBombWarning):
        assert read_image(tmp_path / "large.png").size == (300, 200)
    monkeypatch.setattr("uol.images.read.MAX_PIXELS", 50_000)
    with pytest.warns(Image.DecompressionBombWarning), pytest.raises(ImageError, match="more than the 50,000 allowed"):
        read_image(tmp_path / "large.png")


def test_names_given_again_are_reported_and_used_once(tmp_path):
    for name in ("a.png", "b.png"):
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    lines = []
    one = str(tmp_path / "a.png")
    assert expand_paths([one, one, str(tmp_path)], report=lines.append) == [tmp_path / "a.png", tmp_path / "b.png"]
    assert lines == ["2 repeated names passed over: each image is used once"]


def test_an_empty_name_is_not_the_current_folder():
    with pytest.raises(CallError, match="the name of an image or folder is empty"):
        expand_paths(["a.png", ""])
