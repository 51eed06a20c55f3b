"""What drawn faces are made of: the parameters of a face, colours, and filled shapes painted on a canvas.

Coordinates of the head: x to the right, y down, the whole picture from −1 to 1; eyes near y = 0, chin near y = 0.56.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

Floats = npt.NDArray[np.float64]


class Face(NamedTuple):
    """One drawn face. Shapes are in standard deviations from the average face, the rest as stated."""

    skin: float  # 0 fair … 1 dark
    undertone: float  # −1 cool … 1 warm
    face_width: float
    jaw: float
    chin: float
    eye_size: float
    eye_spacing: float
    eye_height: float
    eye_tilt: float
    iris: str  # a key of IRISES
    brow_height: float
    brow_thickness: float
    nose_width: float
    nose_length: float
    mouth_width: float
    lip_fullness: float
    smile: float  # −1 frown … 1 laugh
    bend: float  # chin, mouth and nose pulled to one side
    lopsidedness: float  # one eye, brow and mouth corner higher than the other
    unevenness: float  # 0 smooth skin … 1 blotches, spots and rings under the eyes
    blush: float  # 0 … 1
    freckles: float  # 0 none … 1
    hair: str  # one of HAIR_STYLES
    hair_colour: str  # a key of HAIR_COLOURS
    hair_length: float  # 0 … 1
    beard: float  # 0 none … 1 full
    makeup: float  # 0 none … 1 bold
    glasses: float  # 0 none … 1 heavy frames
    accent: float  # 0 … 1: hue of lipstick, eye shadow and frames
    background: int  # an index of BACKGROUNDS
    clothes: int  # an index of CLOTHES
    light: float  # −1 from the left … 1 from the right
    rotation: float  # degrees
    shift_x: float  # in head coordinates
    shift_y: float
    zoom: float  # 1 = as is
    grain: int  # seed of the spots and of the pixel noise


def _rgb(codes: str) -> list[tuple[int, ...]]:
    return [tuple(bytes.fromhex(code)) for code in codes.split()]


HAIR_STYLES = ("shaved", "crop", "quiff", "parted", "curls", "bob", "long", "bun", "mohawk")
NATURAL, DYED = ("black", "brown", "chestnut", "blond", "red", "grey"), ("blue", "pink", "green", "violet")
_HAIR_CODES = "2c252a 603e2c 8e5030 e2b870 c45c30 b0b0b6 4678d2 ee74a6 40a680 8e62c4"
HAIR_COLOURS = dict(zip(NATURAL + DYED, _rgb(_HAIR_CODES), strict=True))
IRISES = dict(zip(("brown", "hazel", "green", "blue", "grey"), _rgb("684026 946c34 528a5a 4a84bc 748290"), strict=True))
BACKGROUNDS = _rgb("bcd8d6 f3debb f6cdbc d2cbe6 cbdcc0 bed4ec f0c8d0 f6e8b0")
CLOTHES = _rgb("344a6e dea444 c8644c 48765c 7a507a eee2ce 4a4e58 3e8a92")
_SKINS = np.array(_rgb("ffe2ca f6cda8 e4b084 c1885e 925e3e 623e2c"), np.float64)
WHITE = np.array([255.0, 255.0, 255.0])
INK = np.array([44.0, 30.0, 34.0])


def _circle(n: int) -> Floats:
    angles = np.linspace(0, 2 * np.pi, n, endpoint=False)
    return np.column_stack([np.cos(angles), np.sin(angles)])


CIRCLE, _DOT = _circle(36), _circle(12)
ACROSS = np.linspace(-1, 1, 21)  # along a mouth, an eyelid, a brow
TAPER = np.sqrt(1 - 0.97 * ACROSS**2)
EAR_TO_EAR = np.linspace(-1, 1, 41)  # from ear to ear


class Shapes:
    """Filled shapes in head coordinates, from back to front; they are moved and painted all at once."""

    def __init__(self) -> None:
        self.points: list[Floats] = []
        self.colours: list[Floats] = []
        self.alphas: list[float] = []

    def fill(self, points: Floats, colour: Floats, alpha: float = 1.0) -> None:
        """The polygon of `points` (k, 2)."""
        if alpha > 0.01:
            self.points.append(points)
            self.colours.append(colour)
            self.alphas.append(alpha)

    def ellipse(self, x: float, y: float, rx: float, ry: float, colour: Floats, alpha: float = 1.0) -> None:
        self.fill((CIRCLE if rx > 0.04 else _DOT) * (rx, ry) + (x, y), colour, alpha)

    def glow(self, x: float, y: float, rx: float, ry: float, colour: Floats, alpha: float) -> None:
        """An ellipse that fades towards its rim."""
        for reach in (1.0, 0.72, 0.44):
            self.ellipse(x, y, rx * reach, ry * reach, colour, alpha / 3)

    def stroke(self, points: Floats, width: float | Floats, colour: Floats, alpha: float = 1.0) -> None:
        """A line along `points`, `width` (one number or one per point) wide."""
        along = np.empty_like(points)
        along[1:-1] = points[2:] - points[:-2]
        along[0], along[-1] = points[1] - points[0], points[-1] - points[-2]
        reach = along[:, ::-1] * (-0.5, 0.5) / np.sqrt((along**2).sum(axis=1, keepdims=True))
        reach *= width[:, None] if isinstance(width, np.ndarray) else width
        self.fill(np.concatenate([points + reach, (points - reach)[::-1]]), colour, alpha)

    def between(self, x: Floats, top: Floats, bottom: Floats, colour: Floats, alpha: float = 1.0) -> None:
        """The area between two curves over `x`."""
        upper, lower = np.column_stack([x, top]), np.column_stack([x, bottom])
        self.fill(np.concatenate([upper, lower[::-1]]), colour, alpha)

    def paint(self, face: Face, size: int) -> npt.NDArray[np.float32]:
        """Bend, turn, scale and shift the shapes, paint them over the background, and shrink: (size, size, 3)."""
        factor = 3 if size <= 128 else 2  # supersampling: steps show less in a large picture
        wide = size * factor
        points = np.concatenate(self.points)
        below = np.clip(points[:, 1] + 0.1, 0.0, 0.7)
        points[:, 0] += 0.09 * face.bend * below**1.5  # bends what lies below the eyes to one side
        angle, half = np.deg2rad(face.rotation), wide / 2
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        placed = points @ (turn * face.zoom * 1.2 * half) + half * (1 + np.array([face.shift_x, face.shift_y + 0.03]))
        flat, start = placed.ravel().tolist(), 0

        back = BACKGROUNDS[face.background]
        image = Image.new("RGB", (wide, wide), back)
        opaque, blended = ImageDraw.Draw(image), ImageDraw.Draw(image, "RGBA")
        disc = tuple(mix(back, WHITE, 0.45).astype(int).tolist())
        opaque.ellipse((wide * 0.05, wide * 0.05, wide * 0.95, wide * 0.95), disc)
        inks = np.column_stack([np.array(self.colours), 255 * np.minimum(self.alphas, 1)])
        for shape, ink in zip(self.points, np.clip(inks, 0, 255).astype(int).tolist(), strict=True):
            stop = start + 2 * len(shape)
            (opaque if ink[3] == 255 else blended).polygon(flat[start:stop], tuple(ink))
            start = stop
        return np.asarray(image.reduce(factor), np.float32)


def mix(a: npt.ArrayLike, b: npt.ArrayLike, weight: float) -> Floats:
    return (1 - weight) * np.asarray(a, np.float64) + weight * np.asarray(b, np.float64)


def hue(turn: float, saturation: float, value: float) -> Floats:
    """HSV to RGB, 0–255."""
    ramp = np.clip(np.abs((turn * 6 + np.array([0.0, 4.0, 2.0])) % 6 - 3) - 1, 0, 1)
    return np.asarray(255 * value * (1 - saturation + saturation * ramp))


def skin_of(face: Face) -> Floats:
    place = face.skin * (len(_SKINS) - 1)
    first = min(int(place), len(_SKINS) - 2)
    return mix(_SKINS[first], _SKINS[first + 1], place - first) + face.undertone * np.array([3.0, 0.0, -7.0])


def shade(skin: Floats, depth: float) -> Floats:
    """Skin in shadow: darker and redder by the same proportion for every tone."""
    return np.asarray(skin * (1 - 0.75 * depth, 1 - depth, 1 - 0.95 * depth))


def turned(points: Floats, angle: float) -> Floats:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.asarray(points @ np.array([[cos, sin], [-sin, cos]]))


def smooth(corners: Floats) -> Floats:
    """A closed Catmull-Rom curve through `corners` (k, 2), six points to a corner."""
    t = np.linspace(0, 1, 6, endpoint=False)[:, None, None]
    before, after, second = (np.roll(corners, shift, axis=0) for shift in (1, -1, -2))
    cubic = 3 * (corners - after) + second - before
    square = 2 * before - 5 * corners + 4 * after - second
    curve = corners + t / 2 * (after - before + t * (square + t * cubic))
    return np.asarray(curve.transpose(1, 0, 2).reshape(-1, 2))


def mirrored(right: Floats) -> Floats:
    """A symmetric closed contour from its right half, listed from top to bottom or bottom to top."""
    return np.concatenate([right, right[::-1] * (-1, 1)])


def half_width(face: Face) -> float:
    return 0.44 * (1 + 0.055 * face.face_width)


def outline_of(face: Face, grow: float = 0.0) -> Floats:
    """The contour of the head from the top clockwise: half an ellipse above, a tapered superellipse below."""
    angles = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    s, c = np.sin(angles), -np.cos(angles)
    power = 2 / (2.25 + 0.22 * face.jaw)
    height = 0.57 * (1 + 0.06 * face.chin)
    taper = 1 - (0.17 - 0.05 * face.jaw) * np.maximum(c, 0) ** 2
    x = np.where(c < 0, s, np.sign(s) * np.abs(s) ** power * taper) * (half_width(face) + grow)
    y = np.where(c < 0, (0.54 + grow) * c, (height + grow) * np.abs(c) ** power)
    return np.column_stack([x, y])
