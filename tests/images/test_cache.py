"""Images kept decoded: the same pixels as decoding gives, made anew when a file changes or the cache is damaged."""

from __future__ import annotations

import json
import os
import warnings

import numpy as np
import pytest
import torch
from PIL import Image

from uol.errors import UolError
from uol.images import cache as image_cache
from uol.images.cache import cached_images
from uol.images.framing import Framer, pack_images

SIZE = 16


@pytest.fixture
def paths(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "photos"
    folder.mkdir()
    for k in range(7):
        pixels = rng.integers(0, 256, (20 + k, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{k}.{'png' if k % 2 else 'jpg'}")
    return sorted(folder.iterdir())


@pytest.fixture
def decoded(monkeypatch):
    """The images that were decoded, in order."""
    seen = []

    class Noting(Framer):
        def pixels(self, image):
            seen.append(image)
            return super().pixels(image)

    monkeypatch.setattr(image_cache, "Framer", Noting)
    return seen


def kept(tmp_path, suffix):
    return sorted((tmp_path / "cache" / "images").glob(f"*{suffix}"))


def test_same_pixels_as_packing_and_decoded_once(paths, tmp_path, decoded):
    calls = []
    first = cached_images(paths, SIZE, tmp_path / "cache", lambda done, total: calls.append((done, total)))
    assert calls == [(k + 1, 7) for k in range(7)]
    assert len(decoded) == 7
    second = cached_images(paths, SIZE, tmp_path / "cache")
    assert len(decoded) == 7
    assert first.shape == (7, 3, SIZE, SIZE)
    assert first.dtype == np.uint8
    for pixels in (first, second):
        assert isinstance(pixels, np.memmap)
        np.testing.assert_array_equal(pixels, pack_images(paths, SIZE))


def test_many_images_keep_their_order(paths, tmp_path, monkeypatch):
    monkeypatch.setattr(image_cache, "_AT_ONCE", 3)
    shuffled = [paths[k] for k in (4, 0, 6, 2, 0)]
    np.testing.assert_array_equal(cached_images(shuffled, SIZE, tmp_path / "cache"), pack_images(shuffled, SIZE))


def test_the_array_may_be_changed_without_changing_the_file(paths, tmp_path):
    pixels = cached_images(paths, SIZE, tmp_path / "cache")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.from_numpy(pixels).fill_(0)  # torch warns of arrays that may not be written
    np.testing.assert_array_equal(cached_images(paths, SIZE, tmp_path / "cache"), pack_images(paths, SIZE))


def test_another_size_another_order_and_a_changed_file_are_decoded(paths, tmp_path, decoded):
    for images, size in ((paths, SIZE), (paths, SIZE * 2), (paths[::-1], SIZE), ([str(p) for p in paths], SIZE)):
        cached_images(images, size, tmp_path / "cache")
    assert len(decoded) == 21  # strings name the same files as paths
    Image.new("RGB", (9, 9), (200, 0, 0)).save(paths[1])
    os.utime(paths[1], ns=(1, 1))
    pixels = cached_images(paths, SIZE, tmp_path / "cache")
    assert len(decoded) == 28
    assert set(pixels[1, 0].ravel()) == {200}
    assert len(kept(tmp_path, ".npy")) == len(kept(tmp_path, ".json")) == 4


def flip_a_byte(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(bytes(raw))


DAMAGES = {
    "one byte": lambda npy, _: flip_a_byte(npy),
    "truncated": lambda npy, _: npy.write_bytes(npy.read_bytes()[:-100]),
    "longer header only": lambda npy, _: npy.write_bytes(npy.read_bytes()[:100]),
    "empty": lambda npy, _: npy.write_bytes(b""),
    "gone": lambda npy, _: npy.unlink(),
    "no checksums": lambda _, side: side.unlink(),
    "broken checksums": lambda _, side: side.write_text("{"),
    "other checksums": lambda _, side: side.write_text(json.dumps({"crc32": [1, 2]})),
    "another array": lambda npy, _: np.save(npy, np.zeros((7, 3, SIZE, SIZE))),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_made_anew(paths, tmp_path, decoded, damage):
    cached_images(paths, SIZE, tmp_path / "cache")
    (npy,), (side,) = kept(tmp_path, ".npy"), kept(tmp_path, ".json")
    DAMAGES[damage](npy, side)
    np.testing.assert_array_equal(cached_images(paths, SIZE, tmp_path / "cache"), pack_images(paths, SIZE))
    assert len(decoded) == 14
    cached_images(paths, SIZE, tmp_path / "cache")
    assert len(decoded) == 14


def test_of_a_large_file_some_rows_are_checked(paths, tmp_path, decoded, monkeypatch):
    cached_images(paths, SIZE, tmp_path / "cache")
    monkeypatch.setattr(image_cache, "_MOST_CHECKED", 4 * 3 * SIZE**2)
    flip_a_byte(kept(tmp_path, ".npy")[0])  # in row 3, and every second one is looked at
    cached_images(paths, SIZE, tmp_path / "cache")
    assert len(decoded) == 7


def test_unreadable_images_are_counted_and_nothing_is_kept(paths, tmp_path):
    paths[2].write_bytes(b"no picture")
    images = [*paths, tmp_path / "nowhere.jpg"]
    with pytest.raises(UolError, match=r"^2 of 8 images cannot be read; the first: .*2\.jpg: not a readable image"):
        cached_images(images, SIZE, tmp_path / "cache")
    assert list((tmp_path / "cache" / "images").iterdir()) == []


def test_arrays_and_pil_images_are_packed(paths, tmp_path):
    arrays = np.random.default_rng(1).integers(0, 256, (3, 20, 20, 3), dtype=np.uint8)
    for images in (arrays, list(arrays), [Image.open(paths[0]), paths[1]]):
        np.testing.assert_array_equal(cached_images(images, SIZE, tmp_path / "cache"), pack_images(images, SIZE))
    assert not (tmp_path / "cache").exists()


def test_a_folder_that_cannot_be_written_costs_a_warning(paths, tmp_path):
    (tmp_path / "cache").write_text("in the way")
    with pytest.warns(UserWarning, match="decoded images are not cached: cannot write"):
        pixels = cached_images(paths, SIZE, tmp_path / "cache")
    np.testing.assert_array_equal(pixels, pack_images(paths, SIZE))


def test_the_environment_names_the_folder(paths, tmp_path, monkeypatch):
    monkeypatch.setenv("UOL_CACHE", str(tmp_path / "cache"))
    cached_images(paths, SIZE)
    assert len(kept(tmp_path, ".npy")) == 1
