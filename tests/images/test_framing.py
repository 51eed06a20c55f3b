"""Framing: whole images as they are; faces found, aligned and cropped, the same way in training and in scoring."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from PIL import Image

from uol.errors import ImageError, UolError
from uol.images import cache as image_cache
from uol.images import framing, packages
from uol.images.cache import cached_images
from uol.images.face_cache import FaceCache
from uol.images.faces import TEMPLATE, AlignedFace, Face, FaceError
from uol.images.framing import Framer, fit_square, frame_each, pack_images
from uol.images.read import read_image
from uol.order.config import ModelConfig
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale
from uol.training.packed import PackedImages

pytest.importorskip("cv2")


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(0)
    paths = []
    for k in range(3):
        paths.append(tmp_path / f"{k}.png")
        Image.fromarray(rng.integers(0, 256, (40, 30, 3), dtype=np.uint8)).save(paths[-1])
    return paths


@pytest.fixture
def detector(monkeypatch):
    """A detector that takes the upper left square for the face, and counts how often it is asked."""
    asked = []

    def find(image, size=256):
        asked.append(image)
        square = np.array(Image.open(image).convert("RGB").crop((0, 0, 20, 20)).resize((size, size)))
        return AlignedFace(square, Face((0.0, 0.0, 20.0, 20.0), np.ones((5, 2)), 1.0))

    monkeypatch.setattr(framing, "find_face", find)
    monkeypatch.setattr("uol.images.face_cache.find_face", find)
    return asked


def test_whole_images_are_not_searched(pictures, detector):
    assert np.array_equal(Framer(24).pixels(pictures[0]), fit_square(read_image(pictures[0]), 24))
    assert detector == []


def test_training_and_scoring_see_the_same_face(pictures, detector):
    trained = cached_images(pictures, 24, framing="face")
    assert np.array_equal(trained, pack_images(pictures, 24, framing="face"))
    assert not np.array_equal(trained, cached_images(pictures, 24))


@pytest.mark.parametrize("framing", ["face", "whole"])
def test_every_way_to_frame_an_image_gives_the_same_pixels(pictures, detector, tmp_path, framing):
    config = ModelConfig(backbone="test_byobnet", resize=24, crop=20, framing=framing)
    rated = RatedImages("faces", pictures, [path.name for path in pictures], np.arange(3.0), Scale(0, 2))
    trained = PackedImages.pack(rated, config).centre.numpy()
    assert np.array_equal(trained, pack_images(pictures, 24, 20, framing))
    for cache in (None, FaceCache(tmp_path / "faces")):
        framer = config.framer(cache)
        assert np.array_equal(trained, [framer.frame(path)[0].pixels for path in pictures])
        assert np.array_equal(trained, [framer.pixels(path).transpose(2, 0, 1) for path in pictures])


def test_packs_of_the_same_detector_alone_are_found_again(pictures, detector, tmp_path):
    def key(paths, resize, face_version):
        digest = hashlib.sha256(f"1 {resize} face {face_version}\n".encode())
        for path in paths:
            state = path.stat()
            known = f"{path.parent.resolve()}\0{path.name}\0{state.st_size} {state.st_mtime_ns}\n"
            digest.update(known.encode())
        return digest.hexdigest()

    cached_images(pictures, 24, tmp_path / "cache", framing="face")
    (kept,) = (tmp_path / "cache" / "images").glob("*.npy")
    assert kept.stem == key(pictures, 24, 3)
    assert kept.stem != key(pictures, 24, 2)


def test_faces_are_looked_for_once(pictures, detector, tmp_path):
    cached_images(pictures, 24, tmp_path / "cache", framing="face")
    count = len(detector)
    cached_images(pictures, 32, tmp_path / "cache", framing="face")  # another size: pixels anew, faces kept
    cached_images(pictures, 24, tmp_path / "cache", framing="face")
    assert len(detector) == count


def test_an_image_without_a_face_is_named(pictures, monkeypatch, tmp_path):
    def none(image, size=256):
        raise FaceError(f"{image}: no face found")

    monkeypatch.setattr("uol.images.face_cache.find_face", none)
    monkeypatch.setattr(image_cache, "FaceCache", lambda: FaceCache(tmp_path))
    with pytest.raises(UolError, match=r"3 of 3 images .* show no face; the first: .*0.png: no face found"):
        cached_images(pictures, 24, tmp_path / "cache", framing="face")


@pytest.mark.parametrize("cores", [1, 4])
def test_many_images_are_framed_at_once_and_stay_in_order(monkeypatch, cores):
    monkeypatch.setattr(framing, "available_cores", lambda: cores)
    monkeypatch.setattr(framing, "_TOGETHER", 5)
    images = [np.full((6, 6, 3), number, np.uint8) for number in range(23)]
    images[7] = np.zeros((6, 6), np.float32)
    framed = list(frame_each(images, Framer(4), first=100))
    assert [one if isinstance(one, ImageError) else int(one.max()) for one in framed[:7]] == list(range(7))
    assert isinstance(framed[7], ImageError)
    assert str(framed[7]).startswith("image 107: ")
    assert [int(one.max()) for one in framed[8:]] == list(range(8, 23))


@pytest.mark.parametrize("kind", ["png", "jpg"])
def test_an_opened_file_may_be_given_several_times(monkeypatch, tmp_path, kind):
    monkeypatch.setattr(framing, "available_cores", lambda: 4)
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 400, 3), np.uint8)).save(tmp_path / f"a.{kind}")
    expected = Framer(64).pixels(tmp_path / f"a.{kind}").transpose(2, 0, 1)
    for _ in range(5):
        with Image.open(tmp_path / f"a.{kind}") as opened:
            for framed in frame_each([opened] * 6, Framer(64)):
                np.testing.assert_array_equal(framed, expected)


def test_without_threads_images_are_framed_one_by_one(monkeypatch):
    class NoThreads(ThreadPoolExecutor):
        def submit(self, *given: object, **settings: object) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(framing, "ThreadPoolExecutor", NoThreads)
    monkeypatch.setattr(framing, "available_cores", lambda: 2)
    images = [np.full((6, 6, 3), number, np.uint8) for number in range(5)]
    assert [int(one.max()) for one in frame_each(images, Framer(4))] == list(range(5))


def test_threads_that_cannot_all_be_started_frame_no_image_twice(monkeypatch):
    framed = []

    class TwoThreads(ThreadPoolExecutor):
        def submit(self, work: Any, *given: Any, **settings: Any) -> Any:
            if given[2] >= 6:
                raise RuntimeError("can't start new thread")
            return super().submit(work, *given, **settings)

    original = framing._framed

    def noted(framer: Framer, image: Any, number: int) -> Any:
        framed.append(number)
        return original(framer, image, number)

    monkeypatch.setattr(framing, "_framed", noted)
    monkeypatch.setattr(framing, "ThreadPoolExecutor", TwoThreads)
    monkeypatch.setattr(framing, "available_cores", lambda: 2)
    images = [np.full((6, 6, 3), number, np.uint8) for number in range(12)]
    assert [int(one.max()) for one in frame_each(images, Framer(4))] == list(range(12))
    assert sorted(framed) == list(range(12))


def test_an_interruption_leaves_no_thread(monkeypatch):
    class Interrupted(ThreadPoolExecutor):
        def submit(self, work: Any, *given: Any, **settings: Any) -> Any:
            if given[2] == 6:
                raise KeyboardInterrupt
            return super().submit(work, *given, **settings)

    monkeypatch.setattr(framing, "ThreadPoolExecutor", Interrupted)
    monkeypatch.setattr(framing, "available_cores", lambda: 2)
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        list(frame_each([np.zeros((6, 6, 3), np.uint8)] * 12, Framer(4)))
    assert threading.active_count() == before


def test_opencv_has_one_thread_for_each_image_and_its_own_again(monkeypatch, pictures):
    cv2 = packages.opencv()
    before = cv2.getNumThreads()
    cv2.setNumThreads(3)
    seen = []

    def find(image: object, size: int = 256) -> AlignedFace:
        seen.append(cv2.getNumThreads())
        return AlignedFace(np.zeros((size, size, 3), np.uint8), Face((0, 0, 1, 1), TEMPLATE, 1.0))

    monkeypatch.setattr(framing, "find_face", find)
    monkeypatch.setattr(framing, "available_cores", lambda: 2)
    try:
        first, second = (frame_each(pictures, Framer(16, framing="face")) for _ in range(2))
        next(first)
        next(second)
        first.close()  # before its end, while the other one works
        assert cv2.getNumThreads() == 1
        list(second)
        assert cv2.getNumThreads() == 3
        assert set(seen) == {1}
    finally:
        cv2.setNumThreads(before)


def test_what_is_no_fault_of_an_image_stops_all(monkeypatch, pictures):
    monkeypatch.setattr(framing, "available_cores", lambda: 2)

    def missing(image: object, size: int = 256) -> AlignedFace:
        raise UolError("a package is missing")

    monkeypatch.setattr(framing, "find_face", missing)
    with pytest.raises(UolError, match="^a package is missing$"):
        list(frame_each(pictures, Framer(16, framing="face")))
