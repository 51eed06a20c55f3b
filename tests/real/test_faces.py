"""Faces of the real data sets: the template is SCUT-FBP5500's, and aligned photographs are framed by it."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from uol.images.faces import TEMPLATE, AlignedFace, choose_main, detect_faces, find_face, template_from_points

SAMPLE = 40
PUPILS, MOUTH = [58, 59], [79, 73]  # of the data set's 86 landmarks


def spread(paths: list[Path], n: int = SAMPLE) -> list[Path]:
    return [paths[i] for i in np.linspace(0, len(paths) - 1, n).astype(int)]


def scut(shared_data: Path) -> list[Path]:
    return sorted((shared_data / "scut-fbp5500" / "Images").glob("*.jpg"))


def mebeauty(shared_data: Path) -> list[Path]:
    return sorted(path for path in (shared_data / "mebeauty" / "original_images").rglob("*") if path.is_file())


def landmarks(shared_data: Path, name: str) -> np.ndarray:
    """The 86 landmarks as fractions of the frame; an empty array where the file has none (one of 5500)."""
    data = (shared_data / "scut-fbp5500" / "facial landmark" / f"{name}.pts").read_bytes()
    (count,) = struct.unpack("<i", data[:4])
    return np.frombuffer(data[4:], "<f4").reshape(count, 2).astype(float) / 350


def test_template_is_where_the_landmarks_are(shared_data):
    marks = np.array([m for path in scut(shared_data) if len(m := landmarks(shared_data, path.stem))])
    assert len(marks) == 5499
    median = np.median(marks, axis=0)
    np.testing.assert_allclose(median[PUPILS], TEMPLATE[:2], atol=0.01)
    np.testing.assert_allclose(median[MOUTH], TEMPLATE[3:], atol=0.01)


@pytest.fixture(scope="module")
def aligned(shared_data: Path) -> dict[str, list[AlignedFace]]:
    """A sample of each set, evenly spread over its names, aligned."""
    for name in ("cv2", "onnxruntime"):
        pytest.importorskip(name, reason="no face detector: pip install uol")
    sets = {"scut-fbp5500": scut(shared_data), "mebeauty": mebeauty(shared_data)}
    return {name: [find_face(path) for path in spread(paths)] for name, paths in sets.items()}


def test_detected_points_give_the_template_again(aligned):
    points = [face.face.points for face in aligned["scut-fbp5500"]]
    template = template_from_points(points, np.full((SAMPLE, 2), 256))
    np.testing.assert_allclose(template, TEMPLATE, atol=0.02)  # the median of 40 has a standard error of 0.006


def eyes_away(image: np.ndarray) -> float:
    """How far the further eye, detected again in an aligned image, is from the template, in widths."""
    faces = detect_faces(image)
    if not faces:
        return np.inf
    points = choose_main(faces).points / image.shape[0]
    return float(np.hypot(*(points - TEMPLATE)[:2].T).max())


@pytest.mark.parametrize("name", ["scut-fbp5500", "mebeauty"])
def test_aligned_eyes_are_found_on_the_template(aligned, name):
    assert all(face.image.shape == (256, 256, 3) for face in aligned[name])
    away = np.array([eyes_away(face.image) for face in aligned[name]])
    assert (away <= 0.03).mean() >= 0.95
    assert np.median(away) < 0.015
