"""Drawing flat-illustration faces from numbers: nobody's pixels, every feature a parameter.

Coordinates of the head: x to the right, y down, the whole picture from −1 to 1; eyes near y = 0, chin near y = 0.56.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
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
_WHITE = np.array([255.0, 255.0, 255.0])
_INK = np.array([44.0, 30.0, 34.0])


def _circle(n: int) -> Floats:
    angles = np.linspace(0, 2 * np.pi, n, endpoint=False)
    return np.column_stack([np.cos(angles), np.sin(angles)])


_CIRCLE, _DOT = _circle(36), _circle(12)
_U = np.linspace(-1, 1, 21)  # along a mouth, an eyelid, a brow
_TAPER = np.sqrt(1 - 0.97 * _U**2)
_V = np.linspace(-1, 1, 41)  # from ear to ear


def draw_faces(parameters: pd.DataFrame, size: int = 96) -> npt.NDArray[np.uint8]:
    """Draw one face per row (columns: the fields of `Face`): uint8 array (n, size, size, 3)."""
    rows = parameters[list(Face._fields)].itertuples(index=False, name=None)
    pictures = np.empty((len(parameters), size, size, 3), np.uint8)
    for picture, row in zip(pictures, rows, strict=True):
        picture[:] = draw_face(Face(*row), size)
    return pictures


def draw_face(face: Face, size: int = 96) -> npt.NDArray[np.uint8]:
    """Draw one face from back to front on a larger canvas, shrink it, and lay light and grain over it."""
    rng = np.random.default_rng(face.grain)
    shapes = _Shapes()
    skin = _skin(face)
    _add_back_hair(shapes, face)
    _add_body(shapes, face, skin)
    _add_head(shapes, face, skin)
    _add_complexion(shapes, face, skin, rng)
    _add_beard(shapes, face)
    _add_nose(shapes, face, skin)
    _add_mouth(shapes, face, skin)
    for side in (-1, 1):
        _add_eye(shapes, face, skin, side)
    _add_front_hair(shapes, face, skin)
    _add_glasses(shapes, face)
    return _light_and_grain(shapes.paint(face, size), face, rng)


class _Shapes:
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
        self.fill((_CIRCLE if rx > 0.04 else _DOT) * (rx, ry) + (x, y), colour, alpha)

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
        disc = tuple(_mix(back, _WHITE, 0.45).astype(int).tolist())
        opaque.ellipse((wide * 0.05, wide * 0.05, wide * 0.95, wide * 0.95), disc)
        inks = np.column_stack([np.array(self.colours), 255 * np.minimum(self.alphas, 1)])
        for shape, ink in zip(self.points, np.clip(inks, 0, 255).astype(int).tolist(), strict=True):
            stop = start + 2 * len(shape)
            (opaque if ink[3] == 255 else blended).polygon(flat[start:stop], tuple(ink))
            start = stop
        return np.asarray(image.reduce(factor), np.float32)


def _light_and_grain(picture: npt.NDArray[np.float32], face: Face, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Brighten towards the light, and add a little noise."""
    size = len(picture)
    across = np.linspace(-1, 1, size, dtype=np.float32)
    lit = 1 + 0.07 * face.light * across[None, :, None] - 0.05 * across[:, None, None]
    noise = 2 * rng.standard_normal((size, size, 1), np.float32)
    return np.asarray(np.clip(picture * lit + noise, 0, 255), np.uint8)


def _mix(a: npt.ArrayLike, b: npt.ArrayLike, weight: float) -> Floats:
    return (1 - weight) * np.asarray(a, np.float64) + weight * np.asarray(b, np.float64)


def _hue(turn: float, saturation: float, value: float) -> Floats:
    """HSV to RGB, 0–255."""
    ramp = np.clip(np.abs((turn * 6 + np.array([0.0, 4.0, 2.0])) % 6 - 3) - 1, 0, 1)
    return np.asarray(255 * value * (1 - saturation + saturation * ramp))


def _skin(face: Face) -> Floats:
    place = face.skin * (len(_SKINS) - 1)
    first = min(int(place), len(_SKINS) - 2)
    return _mix(_SKINS[first], _SKINS[first + 1], place - first) + face.undertone * np.array([3.0, 0.0, -7.0])


def _shade(skin: Floats, depth: float) -> Floats:
    """Skin in shadow: darker and redder by the same proportion for every tone."""
    return np.asarray(skin * (1 - 0.75 * depth, 1 - depth, 1 - 0.95 * depth))


def _root_colour(face: Face) -> Floats:
    """The colour of brows and beard: dye stays on the head."""
    return _mix(HAIR_COLOURS["brown" if face.hair_colour in DYED else face.hair_colour], _INK, 0.3)


def _turned(points: Floats, angle: float) -> Floats:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.asarray(points @ np.array([[cos, sin], [-sin, cos]]))


def _smooth(corners: Floats) -> Floats:
    """A closed Catmull-Rom curve through `corners` (k, 2), six points to a corner."""
    t = np.linspace(0, 1, 6, endpoint=False)[:, None, None]
    before, after, second = (np.roll(corners, shift, axis=0) for shift in (1, -1, -2))
    cubic = 3 * (corners - after) + second - before
    square = 2 * before - 5 * corners + 4 * after - second
    curve = corners + t / 2 * (after - before + t * (square + t * cubic))
    return np.asarray(curve.transpose(1, 0, 2).reshape(-1, 2))


def _mirrored(right: Floats) -> Floats:
    """A symmetric closed contour from its right half, listed from top to bottom or bottom to top."""
    return np.concatenate([right, right[::-1] * (-1, 1)])


def _half_width(face: Face) -> float:
    return 0.44 * (1 + 0.055 * face.face_width)


def _outline(face: Face, grow: float = 0.0) -> Floats:
    """The contour of the head from the top clockwise: half an ellipse above, a tapered superellipse below."""
    angles = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    s, c = np.sin(angles), -np.cos(angles)
    power = 2 / (2.25 + 0.22 * face.jaw)
    height = 0.57 * (1 + 0.06 * face.chin)
    taper = 1 - (0.17 - 0.05 * face.jaw) * np.maximum(c, 0) ** 2
    x = np.where(c < 0, s, np.sign(s) * np.abs(s) ** power * taper) * (_half_width(face) + grow)
    y = np.where(c < 0, (0.54 + grow) * c, (height + grow) * np.abs(c) ** power)
    return np.column_stack([x, y])


def _add_body(shapes: _Shapes, face: Face, skin: Floats) -> None:
    cloth = np.array(CLOTHES[face.clothes], np.float64)
    shoulder = np.array([(0.2, 0.66), (0.46, 0.78), (0.74, 0.88), (0.98, 1.2), (1.1, 2.0)])
    neck = np.array([(0.2, 0.3), (0.19, 0.6), (0.24, 0.7), (0.2, 0.76)])
    shapes.fill(_mirrored(shoulder), cloth)
    shapes.ellipse(0, 0.71, 0.29, 0.15, cloth * 0.84)
    shapes.ellipse(0, 0.7, 0.245, 0.125, _shade(skin, 0.1))
    shapes.fill(_mirrored(neck), _shade(skin, 0.1))
    shadow = _outline(face) * (0.8, 1) + (-0.03 * face.light, 0.07)
    shapes.fill(shadow[shadow[:, 1] > 0.2], _shade(skin, 0.26), 0.7)


def _add_head(shapes: _Shapes, face: Face, skin: Floats) -> None:
    half = _half_width(face)
    for side in (-1, 1):
        for reach, depth in ((1.0, 0.06), (0.58, 0.22)):
            ear = _turned(_CIRCLE * (0.07 * reach, 0.11 * reach), side * 0.15)
            shapes.fill(ear + np.array([side * (half + 0.01), 0.05]), _shade(skin, depth))
    outline = _outline(face)
    shapes.fill(outline, _shade(skin, 0.2))
    for step, depth in ((0.35, 0.13), (0.7, 0.06), (1.0, 0.0)):  # the shadow fades towards the light in three steps
        inner = outline * (1 - 0.07 * step, 1 - 0.05 * step) + (0.03 * step * face.light, -0.022 * step)
        shapes.fill(inner, _shade(skin, depth))
    shapes.glow(0.12 * face.light, -0.3, 0.26, 0.15, _mix(skin, _WHITE, 0.5), 0.28)


def _add_complexion(shapes: _Shapes, face: Face, skin: Floats, rng: np.random.Generator) -> None:
    half = _half_width(face)
    flush = _mix(_shade(skin, 0.15), (240, 90, 92), 0.5)
    for side in (-1, 1):
        shapes.glow(side * half * 0.62, 0.19, 0.15, 0.11, flush, 0.12 + 0.4 * face.blush)
        rings = np.column_stack([_U * 0.1 + side * _eye_x(face), 0.085 + 0.035 * (1 - _U**2)])
        shapes.stroke(rings, 0.03 * _TAPER, _shade(skin, 0.42), 0.8 * face.unevenness)
    reach, turn = np.sqrt(rng.random(16)) * 0.8, rng.uniform(0, 2 * np.pi, 16)
    places = np.column_stack([half * reach * np.cos(turn), 0.06 + 0.42 * reach * np.sin(turn)])
    sizes = rng.uniform(0.5, 1.0, 16)
    for (x, y), wide in zip(places[:4].tolist(), sizes[:4].tolist(), strict=True):
        shapes.glow(x * 0.8, y, 0.17 * wide, 0.13 * wide, _shade(skin, 0.42), 0.75 * face.unevenness)
    for (x, y), wide in zip(places[4:].tolist(), sizes[4:].tolist(), strict=True):
        spot = 0.024 * wide * (0.4 + 0.6 * face.unevenness)
        shapes.ellipse(x, y, spot, spot, _shade(skin, 0.42), face.unevenness)
    if face.freckles > 0:
        for x, y in rng.uniform(-1, 1, (20, 2)).tolist():
            spread = np.copysign(0.05 + 0.24 * abs(x), x)
            shapes.ellipse(spread, 0.15 + 0.07 * y, 0.011, 0.011, _shade(skin, 0.3), 0.7 * face.freckles)


def _add_beard(shapes: _Shapes, face: Face) -> None:
    if face.beard <= 0:
        return
    outline = _outline(face, 0.1 * max(face.beard - 0.6, 0.0))  # a full beard stands off the chin
    jaw = outline[outline[:, 1] > 0.02]
    x = _V * (_half_width(face) - 0.02)
    near = np.exp(-((x / 0.21) ** 4))
    cheek = 0.04 + 0.36 * (1 - np.abs(_V) ** 4)
    moustache = _mouth_y(face) - 0.09 + 0.9 * x**2
    inner = np.column_stack([x, cheek * (1 - near) + np.minimum(moustache, cheek) * near])
    shapes.fill(np.concatenate([jaw, inner]), _root_colour(face), 0.3 + 0.9 * face.beard)


def _nose_y(face: Face) -> float:
    return 0.185 + 0.024 * face.nose_length


def _add_nose(shapes: _Shapes, face: Face, skin: Floats) -> None:
    wide, tip = 0.08 * (1 + 0.13 * face.nose_width), _nose_y(face)
    dark = -1.0 if face.light > 0 else 1.0
    bridge = np.array([(0.03, -0.1), (0.022, 0.02), (0.6 * wide, tip - 0.05), (wide, tip), (0.0, tip + 0.03), (0, 0)])
    shapes.fill(bridge * (dark, 1), _shade(skin, 0.24), 0.4)
    shapes.glow(-dark * 0.012, tip - 0.035, 0.04, 0.05, _mix(skin, _WHITE, 0.6), 0.5)
    base = np.column_stack([_U * wide, tip + 0.032 * (1 - _U**2) - 0.018 * _U**4])
    shapes.stroke(base, 0.02 * _TAPER + 0.003, _shade(skin, 0.4))
    for side in (-1, 1):
        shapes.ellipse(side * wide * 0.5, tip + 0.012, 0.02, 0.01, _shade(skin, 0.52))


def _mouth_y(face: Face) -> float:
    return 0.35 + 0.012 * face.nose_length + 0.012 * face.chin


def _add_mouth(shapes: _Shapes, face: Face, skin: Floats) -> None:
    merry = max(face.smile, 0.0)
    wide = 0.155 * (1 + 0.1 * face.mouth_width + 0.2 * merry)
    full = 0.038 * (1 + 0.2 * face.lip_fullness)
    arch = 1 - _U**2
    curve = 0.09 * merry + 0.05 * min(face.smile, 0.0)
    middle = _mouth_y(face) + curve * (0.45 - _U**2) - 0.02 * face.lopsidedness * _U
    gap = 0.11 * max(face.smile - 0.2, 0.0) * arch
    upper = middle - full * (arch**0.8 - 0.35 * np.exp(-((_U / 0.16) ** 2)))
    lower = middle + gap + full * 1.15 * arch**0.8
    lipstick = _hue(0.9 + 0.13 * face.accent, 0.74, 0.8)
    lips = _mix(_mix(_shade(skin, 0.2), (200, 76, 84), 0.42), lipstick, min(1.0, 1.2 * face.makeup))
    x = _U * wide
    shapes.between(x, upper, middle + gap * 0.2, lips * 0.9)
    shapes.between(x, middle, lower, lips)
    if face.smile > 0.2:
        shapes.between(x * 0.95, middle, middle + gap, np.array([120.0, 40.0, 48.0]))
        shapes.between(x * 0.88, middle, middle + gap * 0.62, np.array([252.0, 248.0, 244.0]))
    else:
        shapes.stroke(np.column_stack([x, middle]), 0.013 * _TAPER, lips * 0.58)
    shapes.glow(0, float(lower[10]) - 0.4 * full, wide * 0.4, full * 0.35, _WHITE, 0.2 + 0.3 * face.makeup)
    for end in (0, -1):
        shapes.ellipse(x[end], middle[end], 0.012, 0.012, _shade(skin, 0.32))


def _eye_x(face: Face) -> float:
    return 0.19 * (1 + 0.07 * face.eye_spacing)


def _eye_y(face: Face, side: int) -> float:
    return -0.02 + 0.016 * face.eye_height - 0.018 * side * face.lopsidedness


def _add_eye(shapes: _Shapes, face: Face, skin: Floats, side: int) -> None:
    merry = max(face.smile, 0.0)
    grow = 1 + 0.13 * face.eye_size
    wide, tall = 0.1 * grow**0.7, 0.068 * grow**1.3
    tilt = -side * (0.06 + 0.05 * face.eye_tilt)
    centre = np.array([side * _eye_x(face), _eye_y(face, side)])
    x = _U * wide
    lid = -tall * (1 - np.abs(_U) ** 2.2) ** 0.8
    low = tall * (0.72 - 0.2 * merry) * (1 - _U**2) ** 0.8

    def place(x: Floats, y: Floats) -> Floats:
        return np.asarray(_turned(np.column_stack([x, y]), tilt) + centre)

    def area(top: Floats, bottom: Floats) -> Floats:
        return np.concatenate([top, bottom[::-1]])

    shadow = _hue(0.52 + 0.42 * face.accent, 0.5, 0.78)
    shapes.fill(area(place(x * 1.2, lid * 1.7 - 0.008), place(x * 1.1, low * 0)), shadow, 0.75 * face.makeup)
    shapes.stroke(place(x * 1.02, lid * 1.25 - 0.022), 0.012 * _TAPER, _shade(skin, 0.34), 0.7)
    upper, lower = place(x, lid), place(x, low)
    shapes.fill(area(upper, lower), np.array([250.0, 247.0, 244.0]))
    shapes.fill(area(upper, place(x, lid * 0.72)), np.array([190.0, 180.0, 186.0]), 0.6)
    iris = np.array(IRISES[face.iris], np.float64)
    for radius, colour in ((0.84, iris * 0.6), (0.72, iris), (0.4, _INK * 0.5)):
        ring = _CIRCLE * (radius * tall) - (0, 0.06 * tall)
        clipped = np.clip(ring[:, 1], np.interp(ring[:, 0], x, lid), np.interp(ring[:, 0], x, low))
        shapes.fill(place(ring[:, 0], clipped), colour)
    glint = np.copysign(0.26 * tall, face.light)
    shapes.ellipse(centre[0] + glint, centre[1] - 0.32 * tall, 0.2 * tall, 0.2 * tall, _WHITE, 0.95)
    shapes.stroke(upper, 0.016 + 0.014 * face.makeup, _INK)
    wing = np.array([(0.8, -0.3), (1.24 + 0.22 * face.makeup, -0.45 - 0.4 * face.makeup), (1.0, 0.12)])
    shapes.fill(place(side * wide * wing[:, 0], tall * wing[:, 1]), _INK)
    shapes.stroke(lower, 0.007, _shade(skin, 0.42), 0.8)

    inward = -side * _U
    brow_y = centre[1] - 0.175 - 0.016 * face.brow_height - 0.02 * merry
    bow = brow_y - 0.03 * (1 - (_U + 0.25 * inward * _U) ** 2)
    thick = 0.036 * (1 + 0.22 * face.brow_thickness) * (0.64 + 0.36 * inward) * np.sqrt(_TAPER)
    shapes.stroke(np.column_stack([_U * 0.12 + centre[0] * 1.02, bow]), thick, _root_colour(face))


class _Cut(NamedTuple):
    """The front of a hair style: how far it stands off the head, where it ends, and the course of its hairline."""

    grow: float
    top: float
    low: float
    brow: float  # the hairline where the parting is
    curve: float  # large: a square hairline; small: a curtain
    parting: float = 0.0


_CUTS = {
    "shaved": _Cut(0.004, 0.0, -0.06, -0.38, 5.0),
    "crop": _Cut(0.035, 0.05, 0.02, -0.34, 5.0),
    "quiff": _Cut(0.004, 0.0, 0.0, -0.36, 5.0),
    "parted": _Cut(0.06, 0.08, 0.06, -0.42, 2.2, 0.45),
    "curls": _Cut(0.05, 0.03, 0.02, -0.33, 4.0),
    "bob": _Cut(0.075, 0.03, 0.2, -0.23, 7.0),
    "long": _Cut(0.065, 0.03, 0.2, -0.45, 2.0, 0.15),
    "bun": _Cut(0.025, 0.02, -0.02, -0.41, 2.6),
    "mohawk": _Cut(0.004, 0.0, -0.06, -0.38, 5.0),
}
_QUIFF = [(-0.36, -0.26), (-0.4, -0.43), (-0.28, -0.58), (0.02, -0.68), (0.3, -0.74), (0.47, -0.64), (0.4, -0.42)]
_QUIFF += [(0.34, -0.28), (0.16, -0.37), (-0.16, -0.34)]
_MOHAWK = [(0.08, -0.33), (0.16, -0.46), (0.14, -0.62)]


def _hair_colour(face: Face) -> Floats:
    return np.array(HAIR_COLOURS[face.hair_colour], np.float64)


def _hair_end(face: Face) -> float:
    return (0.36 if face.hair == "bob" else 0.8) + 0.25 * face.hair_length


def _hair_side(face: Face) -> float:
    """The side of the parting and of the quiff."""
    return 1.0 if face.accent > 0.5 else -1.0


def _add_back_hair(shapes: _Shapes, face: Face) -> None:
    colour = 0.76 * _hair_colour(face)
    half = _half_width(face)
    if face.hair == "curls":
        reach = 1.06 + 0.16 * face.hair_length
        for angle in np.linspace(-2.1, 2.1, 13):
            x, y = half * reach * np.sin(angle), -0.12 - 0.48 * reach * np.cos(angle)
            shapes.ellipse(x, y, 0.16, 0.16, colour * 1.18)
        shapes.ellipse(0, -0.1, half * reach, 0.48 * reach, colour * 1.18)
    elif face.hair in ("bob", "long"):
        end = _hair_end(face)
        right = [(0.0, -0.6), (half * 0.8, -0.5), (half + 0.1, -0.1), (half + 0.15, end * 0.5), (half + 0.13, end)]
        shapes.fill(_smooth(_mirrored(np.array([*right, (half * 0.5, end + 0.03)]))), colour)
    elif face.hair == "bun":
        size = 0.16 + 0.05 * face.hair_length
        shapes.ellipse(0, -0.6 - 0.4 * size, size, size, colour)
        shapes.ellipse(0.03 * face.light, -0.62 - 0.4 * size, size * 0.75, size * 0.75, colour * 1.3)
    elif face.hair == "mohawk":
        x = np.linspace(-0.19, 0.19, 15)
        crest = (0.26 + 0.12 * face.hair_length) * (1 - (x / 0.22) ** 2) * np.where(np.arange(15) % 2, 1.0, 0.82)
        shapes.between(x, -0.5 - crest, np.full(15, -0.4), colour)


def _add_front_hair(shapes: _Shapes, face: Face, skin: Floats) -> None:
    colour = _hair_colour(face)
    outer, inner = _hair_edges(face)
    cap = np.concatenate([outer, inner[::-1]])
    if face.hair in ("shaved", "mohawk", "quiff"):
        shapes.fill(cap, _mix(skin, colour, 0.6), 0.6)
        if face.hair == "mohawk":
            shapes.fill(_smooth(_mirrored(np.array(_MOHAWK))), colour)
        elif face.hair == "quiff":
            _add_quiff(shapes, face)
        return
    shadow = inner[3:-3] + np.array([0, 0.012])  # of the hair on the forehead
    shapes.stroke(shadow, 0.04, _shade(skin, 0.3), 0.5)
    if face.hair in ("bob", "long"):
        half, tip = _half_width(face), _hair_end(face)
        lock = [(half * 0.93, -0.2), (half + 0.06, -0.2), (half + 0.1, 0.1), (half + 0.12, tip * 0.7)]
        lock += [(half * 0.86, tip), (half * 0.92, tip * 0.5), (half * 0.93, 0.1)]
        for side in (-1, 1):
            shapes.fill(_smooth(np.array(lock)) * (side, 1), colour * 0.92)
    shapes.fill(cap, colour)
    if face.hair == "curls":
        for depth in (0.1, 0.75):
            for curl in (outer * (1 - depth) + inner * depth)[3:-3:5]:
                shapes.fill(_CIRCLE * 0.09 + curl, colour)
                shapes.stroke(_CIRCLE[19:30] * 0.06 + curl, 0.014, colour * 0.8)
    else:
        _add_strands(shapes, face, outer, inner)


def _hair_edges(face: Face) -> tuple[Floats, Floats]:
    """The outside of the hair over the head, and the hairline on the forehead, both from the left ear to the right."""
    cut = _CUTS[face.hair]
    half, side = _half_width(face), _hair_side(face)
    turn = (np.pi / 2 + np.arcsin(cut.low / 0.6)) * _V
    tall = np.where(np.cos(turn) > 0, 0.54 + cut.grow + cut.top, 0.6)
    outer = np.column_stack([(half + cut.grow) * np.sin(turn), -tall * np.cos(turn)])
    if face.hair == "crop":  # tousled
        outer[:, 1] -= 0.024 * np.abs(np.sin(12 * _V + side)) * (1 - _V**2)
    elif face.hair == "parted":  # fuller on the side to which it is combed
        outer[:, 1] -= 0.05 * np.exp(-(((_V + 0.3 * side) / 0.4) ** 4))
    parting = cut.parting * side
    away = (_V - parting) / (1 - parting * np.sign(_V - parting))
    line = cut.brow + (cut.low - cut.brow) * np.abs(away) ** cut.curve
    edge = 0.97 * half * np.sqrt(1 - (np.minimum(line, 0) / 0.54) ** 2)  # the side of the head at that height
    return outer, np.column_stack([_V * edge, line])


def _add_quiff(shapes: _Shapes, face: Face) -> None:
    colour = _hair_colour(face)
    tuft = np.array(_QUIFF) * (_hair_side(face) * _half_width(face) / 0.44, 1)
    tuft[2:5, 1] -= 0.12 * face.hair_length
    shapes.fill(_smooth(tuft), colour)
    for lift, ink in ((0.3, colour * 0.8), (0.5, _mix(colour, _WHITE, 0.25)), (0.7, colour * 0.8)):
        strand = _smooth(tuft[[0, 9, 8, 6]] * (1 - lift) + tuft[[1, 2, 3, 4]] * lift)[6:16]
        shapes.stroke(strand, 0.016, ink, 0.7)


def _add_strands(shapes: _Shapes, face: Face, outer: Floats, inner: Floats) -> None:
    """Dark lines from the parting to both sides, and a gleam where the light falls."""
    colour = _hair_colour(face)
    parting = 20 + round(16 * _CUTS[face.hair].parting * _hair_side(face))
    for depth in (0.35, 0.7):
        strand = outer * (1 - depth) + inner * depth
        for part in (strand[5 : parting - 1], strand[parting + 2 : 36]):
            shapes.stroke(part, 0.013, colour * 0.8, 0.6)
    gleam = 20 + int(8 * face.light)
    for depth, reach in ((0.2, 4), (0.5, 3)):
        strand = outer * (1 - depth) + inner * depth
        shapes.stroke(strand[gleam - reach : gleam + reach + 1], 0.022, _mix(colour, _WHITE, 0.3), 0.6)


def _add_glasses(shapes: _Shapes, face: Face) -> None:
    if face.glasses <= 0:
        return
    frame = _mix(_INK, _hue(face.accent, 0.7, 0.6), 0.6)
    width = 0.014 + 0.03 * face.glasses
    x, y = _eye_x(face) * 1.02, _eye_y(face, 0) + 0.01
    rim = np.concatenate([_CIRCLE, _CIRCLE[:1]])
    rim = np.sign(rim) * np.abs(rim) ** 0.85 * (0.16, 0.14)
    for side in (-1, 1):
        lens = rim + np.array([side * x, y])
        shapes.fill(lens, np.array([235.0, 245.0, 255.0]), 0.14)
        shapes.stroke(lens, width, frame)
        temple = np.array([(side * (x + 0.15), y - 0.03), (side * (_half_width(face) - 0.01), y - 0.045)])
        shapes.stroke(temple, width, frame)
    shapes.stroke(np.column_stack([_U * (x - 0.155), y - 0.03 - 0.02 * (1 - _U**2)]), width, frame)
