"""Find, align and crop a face, so that any photograph is framed like those of SCUT-FBP5500.

photograph → detected faces, five points each → the main one → similarity transform to `TEMPLATE` → square crop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from uol.errors import CallError, ImageError
from uol.images.detector import Floats, Pixels, detect, look_again
from uol.images.packages import opencv
from uol.images.read import ImageLike, image_name, read_image

# The median over SCUT-FBP5500's 5500 images of the detector's own five points, as fractions of the frame
# (`template_from_points` repeats it): left eye, right eye, nose, left and right corner of the mouth, as seen in the
# picture. The data set's own landmarks put the pupils within 0.3 % and the mouth within 0.8 % of the width of these.
TEMPLATE: Floats = np.array([[0.3820, 0.4477], [0.6258, 0.4461], [0.5055, 0.6023], [0.4008, 0.7117], [0.6102, 0.7102]])
TEMPLATE.setflags(write=False)

# With equal weights a turned or long face is fitted at the cost of its eyes. On 400 photographs of MEBeauty, eye
# weights 4, 8, 16, 32 leave 4, 2, 1, 0 of them with an eye over 3 % away, and the mouth 1.6, 1.7, 1.9, 2.2 % away.
WEIGHTS: Floats = np.array([64.0, 64.0, 1.0, 1.0, 1.0])

SURE = 0.95  # below it the detector's second faces are mostly ornaments, above it mostly people
BYSTANDER = 0.25  # a face under a quarter of the main one's size is background, not a second sitter
NEARLY_LARGEST = 0.8  # faces this near to the largest are equals: the one nearest the centre is meant
TINY_EYES = 20.0  # pixels between the eyes; at 256 the template has 62, so less is enlarged more than threefold
TURNED = 0.35  # nose off the middle of the eyes, in eye distances: 7 % of MEBeauty's heads, one of SCUT-FBP5500's
TILTED = 45.0  # degrees off upright: the photograph lies on its side, no head is tilted so far (MEBeauty: 34°)
CUT_OFF = 0.10  # part of the face outside the photograph; below it only hair or an ear is missing
SETTLED = 0.018  # eyes found this near to the template need no second look: one look errs by 0.5 %, at most by 2 %
# Eyes this near to the median of the first pass's answers are not looked at again, if the face is beyond doubt and
# seen from the front: two of three faces. Without these conditions 8 of MEBeauty's faces, not 5, are over 3 % away.
AGREED, BEYOND_DOUBT, FRONTAL = 0.012, 0.9995, 0.2
MISPLACED = 0.03  # eyes found further away than this are reported
MAX_LOOKS = 4
LOOK = 144  # pixels of the crop for another look: its face has twice those of the last network
ELLIPSE_CENTRE, ELLIPSE_RADII = (0.50, 0.56), (0.31, 0.42)  # a face in its aligned frame, in parts of the frame
_WARP_LIMIT = 30_000  # OpenCV's warp counts source pixels in 16 bits


class FaceError(ImageError):
    """An image in which no face was found; a run over many images reports it and continues."""


@dataclass(frozen=True, eq=False)
class Face:
    """A face in pixels of the upright photograph: `box` (left, top, width, height) and `points` (5, 2).

    Coordinates are continuous: the top left pixel covers 0 to 1, so a resized photograph's are simply scaled.
    """

    box: tuple[float, float, float, float]
    points: Floats
    confidence: float
    steady: bool = True  # the eyes were found again where the points put them
    usual: Floats | None = None  # the median of the detector's several answers, where it had enough

    @property
    def size(self) -> float:
        """The geometric mean of the box's sides, in pixels."""
        return float(np.sqrt(self.box[2] * self.box[3]))

    @property
    def eye_distance(self) -> float:
        """Pixels between the eyes."""
        return float(np.hypot(*(self.points[1] - self.points[0])))


@dataclass(frozen=True, eq=False)
class AlignedFace:
    """A face framed by the template: `image` (size, size, 3) uint8, where it was, and what is doubtful about it."""

    image: npt.NDArray[np.uint8]
    face: Face
    problems: tuple[str, ...] = ()


def find_face(image: ImageLike, size: int = 256) -> AlignedFace:
    """Decode an image, find its main face and align it; `FaceError` where there is none."""
    photo = np.asarray(read_image(image))
    faces = _unsettled(photo, BYSTANDER)
    if not faces:
        raise FaceError(no_face(image))
    main = choose_main(faces, _size(photo))
    aligned = _align(photo, _settle(photo, main), size)
    people = sum(face.confidence >= SURE and face.size >= BYSTANDER * main.size for face in faces)
    if people > 1:
        return replace(aligned, problems=(f"{people} faces: largest taken", *aligned.problems))
    return aligned


def find_faces(image: ImageLike, size: int = 256) -> list[AlignedFace]:
    """Decode an image and align every face that is surely one, the largest first; `FaceError` where there is none."""
    photo = np.asarray(read_image(image))
    faces = _settled(photo)
    if not faces:
        raise FaceError(no_face(image))
    sure = [face for face in faces if face.confidence >= SURE] or [choose_main(faces, _size(photo))]
    return [_align(photo, face, size) for face in sorted(sure, key=lambda face: -face.size)]


def no_face(image: ImageLike) -> str:
    """The error text for an image without a face, with its name if it is a file."""
    name = image_name(image)
    return f"{'' if name is None else f'{name}: '}no face found; use a photograph that shows a face from the front"


def detect_faces(image: ImageLike) -> list[Face]:
    """All faces of an image, surest first; empty where there are none, even at other scales and orientations.

    Each that is not far smaller than the largest, and on which the detector's answers for several squares do not
    agree, is looked at again in its aligned crop: where the detector, now seeing it upright and at the usual size,
    finds an eye more than `SETTLED` away from the template, its new points are tried, and the best of `MAX_LOOKS`
    are kept.
    """
    return _settled(np.asarray(read_image(image)))


def _settled(photo: Pixels) -> list[Face]:
    faces = _unsettled(photo)
    largest = max((face.size for face in faces), default=0.0)
    faces = [_settle(photo, face) if face.size >= BYSTANDER * largest else face for face in faces]
    return sorted(faces, key=lambda face: -face.confidence)


def choose_main(faces: Sequence[Face], photo: tuple[int, int] | None = None) -> Face:
    """The largest face among the sure ones (among all, where none is sure).

    Faces of at least `NEARLY_LARGEST` times its size are its equals: of these, the one nearest the centre of the
    photograph (width, height) is taken, if its size is given.
    """
    if not faces:
        raise CallError("no faces to choose from")
    sure = [face for face in faces if face.confidence >= SURE] or list(faces)
    largest = max(sure, key=lambda face: face.size)
    if photo is None:
        return largest
    centre = np.array(photo) / 2
    equals = [face for face in sure if face.size >= NEARLY_LARGEST * largest.size]
    return min(
        equals, key=lambda face: float(np.hypot(*(np.array(face.box[:2]) + np.array(face.box[2:]) / 2 - centre)))
    )


def align_face(image: ImageLike, face: Face, size: int = 256) -> AlignedFace:
    """Warp the photograph so that the face's points lie on the template's, in a square of `size` pixels.

    Where the square reaches beyond the photograph, the photograph's outermost pixels are repeated.
    """
    if size < 1:
        raise CallError(f"the size of an aligned face must be at least 1 pixel; got {size}")
    return _align(np.asarray(read_image(image)), face, size)


def _align(photo: Pixels, face: Face, size: int) -> AlignedFace:
    matrix = similarity(face.points, TEMPLATE * size, WEIGHTS)
    return AlignedFace(_warp(photo, matrix, size), face, face_problems(face, _size(photo)))


def _size(photo: Pixels) -> tuple[int, int]:
    """Width and height."""
    return photo.shape[1], photo.shape[0]


def face_problems(face: Face, photo: tuple[int, int]) -> tuple[str, ...]:
    """What is doubtful about a face in a photograph of (width, height) pixels, judged by its points."""
    problems = []
    if face.eye_distance < TINY_EYES:
        problems.append(f"tiny face ({face.eye_distance:.0f} px between the eyes)")
    if abs(nose_offset(face.points)) > TURNED:
        problems.append("turned away")
    dx, dy = face.points[1] - face.points[0]
    tilt = float(np.degrees(np.arctan2(dy, dx)))
    if abs(tilt) > TILTED:
        problems.append(f"photograph turned {round(tilt / 90) % 4 * 90}°")
    if outside(face, photo) > CUT_OFF:
        problems.append("cut off at the border")
    if not face.steady:
        problems.append("eyes uncertain (not found again where they should be)")
    return tuple(problems)


def nose_offset(points: Floats) -> float:
    """How far the nose lies to the right of the middle between the eyes, along their line, in eye distances.

    About 0 when seen from the front (SCUT-FBP5500: 95 % within 0.13), about ±0.5 when it hides the cheek behind it.
    """
    eyes = points[1] - points[0]
    return float((points[2] - (points[0] + points[1]) / 2) @ eyes / (eyes @ eyes))


def outside(face: Face, photo: tuple[int, int]) -> float:
    """The part of the face's ellipse in the aligned frame that lies outside the photograph of (width, height)."""
    places = transform(invert(similarity(face.points, TEMPLATE, WEIGHTS)), _ellipse())
    return float(1 - np.all((places >= 0) & (places <= np.array(photo)), axis=1).mean())


@cache
def _ellipse() -> Floats:
    """Points spread evenly over a face in its aligned frame."""
    angles, radii = np.meshgrid(np.arange(0, 2 * np.pi, np.pi / 24), np.sqrt((np.arange(12) + 0.5) / 12))
    disc = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=-1).reshape(-1, 2)
    places: Floats = np.array(ELLIPSE_CENTRE) + disc * np.array(ELLIPSE_RADII)
    return places


def template_from_points(points: npt.ArrayLike, sizes: npt.ArrayLike) -> Floats:
    """The median face of n images: `points` (n, 5, 2) in pixels, `sizes` (n, 2) as width and height → (5, 2)."""
    fractions = np.asarray(points, np.float64) / np.asarray(sizes, np.float64)[:, None, :]
    return np.median(fractions, axis=0)


def similarity(source: Floats, target: Floats, weights: Floats | None = None) -> Floats:
    """The rotation R, scale s > 0 and shift t, as the matrix [sR | t] (2, 3), that fit `target` to `source` best.

    Minimises Σ wᵢ |s R sourceᵢ + t − targetᵢ|² without reflection (Umeyama 1991), by singular value decomposition
    of the weighted covariance.
    """
    w = np.ones(len(source)) if weights is None else np.asarray(weights, np.float64)
    w = w / w.sum()
    source_mean, target_mean = w @ source, w @ target
    centred, aim = source - source_mean, target - target_mean
    spread = float(w @ (centred**2).sum(axis=1))
    if spread <= 1e-12 * (1 + float(np.abs(source).max()) ** 2):
        raise ImageError("a face's five points coincide: it cannot be aligned")
    U, singular, Vt = np.linalg.svd((aim * w[:, None]).T @ centred)
    sign = np.array([1.0, 1.0 if np.linalg.det(U @ Vt) >= 0 else -1.0])
    linear = (U * sign) @ Vt * float(singular @ sign) / spread
    return np.column_stack([linear, target_mean - linear @ source_mean])


def transform(matrix: Floats, points: Floats) -> Floats:
    """Apply an affine matrix (2, 3) to points (n, 2)."""
    return points @ matrix[:, :2].T + matrix[:, 2]


def invert(matrix: Floats) -> Floats:
    """The affine matrix (2, 3) that undoes another."""
    linear = np.linalg.inv(matrix[:, :2])
    return np.column_stack([linear, -linear @ matrix[:, 2]])


def _unsettled(photo: Pixels, least: float = 0.0) -> list[Face]:
    return [Face(found.box, found.points, found.confidence, usual=found.usual) for found in detect(photo, least)]


def _agreed(face: Face) -> bool:
    """Whether the first pass leaves no doubt where the eyes are."""
    if face.usual is None or face.confidence < BEYOND_DOUBT or abs(nose_offset(face.points)) > FRONTAL:
        return False
    moved = transform(similarity(face.points, TEMPLATE, WEIGHTS), np.concatenate([face.points, face.usual]))
    return bool(np.hypot(*(moved[5:7] - moved[:2]).T).max() <= AGREED)


def _settle(photo: Pixels, face: Face) -> Face:
    """The face with its points where the detector's answers agree.

    Unless its first answers do, it is looked at again in its aligned crop, and the points are taken whose crop has its
    eyes nearest the template.
    """
    if _agreed(face):
        return face
    best, best_away = face, np.inf
    for _ in range(MAX_LOOKS):
        matrix = similarity(face.points, TEMPLATE * LOOK, WEIGHTS)
        points = look_again(_warp(photo, matrix, LOOK))
        if points is None:
            break
        away = float(np.hypot(*(points / LOOK - TEMPLATE)[:2].T).max())
        if away < best_away:
            best, best_away = face, away
        if away <= SETTLED:
            break
        face = replace(face, points=transform(invert(matrix), points))
    return replace(best, steady=best_away <= MISPLACED)


def _warp(photo: Pixels, matrix: Floats, size: int) -> Pixels:
    cv2: Any = opencv()
    width, height = _size(photo)
    # Shrinking is done first, by averaging areas: the warp's own interpolation would skip pixels and alias.
    scale = min(1.0, float(np.hypot(*matrix[:, 0])), _WARP_LIMIT / max(width, height))
    if scale < 1:
        shrunk = max(1, round(width * scale)), max(1, round(height * scale))
        photo = cv2.resize(photo, shrunk, interpolation=cv2.INTER_AREA)
        matrix = matrix @ np.diag([width / shrunk[0], height / shrunk[1], 1.0])
    # OpenCV puts a pixel's centre at its index, our coordinates half a pixel further.
    centred = np.column_stack([matrix[:, :2], matrix[:, 2] + matrix[:, :2] @ [0.5, 0.5] - 0.5])
    # Half of SCUT-FBP5500's frames reach more than 5 % beyond the photograph, a third of MEBeauty's: black there would
    # distinguish the two, and reflection gives tight portraits a second pair of eyes. A repeated edge leaves streaks.
    warped: Pixels = cv2.warpAffine(
        photo, centred, (size, size), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    return warped
