"""Framing: whole images as they are; faces found, aligned and cropped, the same way in training and in scoring."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from uol import framing, image_cache
from uol.errors import UolError
from uol.faces import AlignedFace, Face, FaceError
from uol.framing import framed, pack_images
from uol.image_cache import cached_images

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

    def find(image, size=256, border="edge"):
        asked.append(image)
        square = np.asarray(Image.open(image).convert("RGB").crop((0, 0, 20, 20)).resize((size, size)))
        return AlignedFace(square, Face((0.0, 0.0, 20.0, 20.0), np.ones((5, 2)), 1.0))

    monkeypatch.setattr(framing, "find_face", find)
    monkeypatch.setattr("uol.face_cache.find_face", find)
    return asked


def test_whole_images_are_not_searched(pictures, detector):
    assert framed(pictures[0], "whole").size == (30, 40)
    assert detector == []


def test_training_and_scoring_see_the_same_face(pictures, detector):
    trained = cached_images(pictures, 24, framing="face")
    assert np.array_equal(trained, pack_images(pictures, 24, framing="face"))
    assert not np.array_equal(trained, cached_images(pictures, 24))


def test_faces_are_looked_for_once(pictures, detector, tmp_path):
    cached_images(pictures, 24, tmp_path / "cache", framing="face")
    count = len(detector)
    cached_images(pictures, 32, tmp_path / "cache", framing="face")  # another size: pixels anew, faces kept
    cached_images(pictures, 24, tmp_path / "cache", framing="face")
    assert len(detector) == count


def test_an_image_without_a_face_is_named(pictures, monkeypatch, tmp_path):
    def none(image, size=256, border="edge"):
        raise FaceError(f"{image}: no face found")

    monkeypatch.setattr("uol.face_cache.find_face", none)
    monkeypatch.setattr(image_cache, "FaceCache", lambda: __import__("uol.face_cache").face_cache.FaceCache(tmp_path))
    with pytest.raises(UolError, match=r"3 of 3 images .* show no face; the first: .*0.png: no face found"):
        cached_images(pictures, 24, tmp_path / "cache", framing="face")
