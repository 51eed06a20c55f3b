"""Drawing flat-illustration faces from numbers: nobody's pixels, every feature a parameter."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.datasets.drawn_hair import add_back_hair, add_front_hair
from uol.datasets.face_shapes import (
    ACROSS,
    CIRCLE,
    CLOTHES,
    DYED,
    EAR_TO_EAR,
    HAIR_COLOURS,
    INK,
    IRISES,
    TAPER,
    WHITE,
    Face,
    Floats,
    Shapes,
    half_width,
    hue,
    mirrored,
    mix,
    outline_of,
    shade,
    skin_of,
    turned,
)


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
    shapes = Shapes()
    skin = skin_of(face)
    add_back_hair(shapes, face)
    _add_body(shapes, face, skin)
    _add_head(shapes, face, skin)
    _add_complexion(shapes, face, skin, rng)
    _add_beard(shapes, face)
    _add_nose(shapes, face, skin)
    _add_mouth(shapes, face, skin)
    for side in (-1, 1):
        _add_eye(shapes, face, skin, side)
    add_front_hair(shapes, face, skin)
    _add_glasses(shapes, face)
    return _light_and_grain(shapes.paint(face, size), face, rng)


def _light_and_grain(picture: npt.NDArray[np.float32], face: Face, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Brighten towards the light, and add a little noise."""
    size = len(picture)
    across = np.linspace(-1, 1, size, dtype=np.float32)
    lit = 1 + 0.07 * face.light * across[None, :, None] - 0.05 * across[:, None, None]
    noise = 2 * rng.standard_normal((size, size, 1), np.float32)
    return np.asarray(np.clip(picture * lit + noise, 0, 255), np.uint8)


def _root_colour(face: Face) -> Floats:
    """The colour of brows and beard: dye stays on the head."""
    return mix(HAIR_COLOURS["brown" if face.hair_colour in DYED else face.hair_colour], INK, 0.3)


def _add_body(shapes: Shapes, face: Face, skin: Floats) -> None:
    cloth = np.array(CLOTHES[face.clothes], np.float64)
    shoulder = np.array([(0.2, 0.66), (0.46, 0.78), (0.74, 0.88), (0.98, 1.2), (1.1, 2.0)])
    neck = np.array([(0.2, 0.3), (0.19, 0.6), (0.24, 0.7), (0.2, 0.76)])
    shapes.fill(mirrored(shoulder), cloth)
    shapes.ellipse(0, 0.71, 0.29, 0.15, cloth * 0.84)
    shapes.ellipse(0, 0.7, 0.245, 0.125, shade(skin, 0.1))
    shapes.fill(mirrored(neck), shade(skin, 0.1))
    shadow = outline_of(face) * (0.8, 1) + (-0.03 * face.light, 0.07)
    shapes.fill(shadow[shadow[:, 1] > 0.2], shade(skin, 0.26), 0.7)


def _add_head(shapes: Shapes, face: Face, skin: Floats) -> None:
    half = half_width(face)
    for side in (-1, 1):
        for reach, depth in ((1.0, 0.06), (0.58, 0.22)):
            ear = turned(CIRCLE * (0.07 * reach, 0.11 * reach), side * 0.15)
            shapes.fill(ear + np.array([side * (half + 0.01), 0.05]), shade(skin, depth))
    outline = outline_of(face)
    shapes.fill(outline, shade(skin, 0.2))
    for step, depth in ((0.35, 0.13), (0.7, 0.06), (1.0, 0.0)):  # the shadow fades towards the light in three steps
        inner = outline * (1 - 0.07 * step, 1 - 0.05 * step) + (0.03 * step * face.light, -0.022 * step)
        shapes.fill(inner, shade(skin, depth))
    shapes.glow(0.12 * face.light, -0.3, 0.26, 0.15, mix(skin, WHITE, 0.5), 0.28)


def _add_complexion(shapes: Shapes, face: Face, skin: Floats, rng: np.random.Generator) -> None:
    half = half_width(face)
    flush = mix(shade(skin, 0.15), (240, 90, 92), 0.5)
    for side in (-1, 1):
        shapes.glow(side * half * 0.62, 0.19, 0.15, 0.11, flush, 0.12 + 0.4 * face.blush)
        rings = np.column_stack([ACROSS * 0.1 + side * _eye_x(face), 0.085 + 0.035 * (1 - ACROSS**2)])
        shapes.stroke(rings, 0.03 * TAPER, shade(skin, 0.42), 0.8 * face.unevenness)
    reach, turn = np.sqrt(rng.random(16)) * 0.8, rng.uniform(0, 2 * np.pi, 16)
    places = np.column_stack([half * reach * np.cos(turn), 0.06 + 0.42 * reach * np.sin(turn)])
    sizes = rng.uniform(0.5, 1.0, 16)
    for (x, y), wide in zip(places[:4].tolist(), sizes[:4].tolist(), strict=True):
        shapes.glow(x * 0.8, y, 0.17 * wide, 0.13 * wide, shade(skin, 0.42), 0.75 * face.unevenness)
    for (x, y), wide in zip(places[4:].tolist(), sizes[4:].tolist(), strict=True):
        spot = 0.024 * wide * (0.4 + 0.6 * face.unevenness)
        shapes.ellipse(x, y, spot, spot, shade(skin, 0.42), face.unevenness)
    if face.freckles > 0:
        for x, y in rng.uniform(-1, 1, (20, 2)).tolist():
            spread = np.copysign(0.05 + 0.24 * abs(x), x)
            shapes.ellipse(spread, 0.15 + 0.07 * y, 0.011, 0.011, shade(skin, 0.3), 0.7 * face.freckles)


def _add_beard(shapes: Shapes, face: Face) -> None:
    if face.beard <= 0:
        return
    outline = outline_of(face, 0.1 * max(face.beard - 0.6, 0.0))  # a full beard stands off the chin
    jaw = outline[outline[:, 1] > 0.02]
    x = EAR_TO_EAR * (half_width(face) - 0.02)
    near = np.exp(-((x / 0.21) ** 4))
    cheek = 0.04 + 0.36 * (1 - np.abs(EAR_TO_EAR) ** 4)
    moustache = _mouth_y(face) - 0.09 + 0.9 * x**2
    inner = np.column_stack([x, cheek * (1 - near) + np.minimum(moustache, cheek) * near])
    shapes.fill(np.concatenate([jaw, inner]), _root_colour(face), 0.3 + 0.9 * face.beard)


def _add_nose(shapes: Shapes, face: Face, skin: Floats) -> None:
    wide, tip = 0.08 * (1 + 0.13 * face.nose_width), 0.185 + 0.024 * face.nose_length
    dark = -1.0 if face.light > 0 else 1.0
    bridge = np.array([(0.03, -0.1), (0.022, 0.02), (0.6 * wide, tip - 0.05), (wide, tip), (0.0, tip + 0.03), (0, 0)])
    shapes.fill(bridge * (dark, 1), shade(skin, 0.24), 0.4)
    shapes.glow(-dark * 0.012, tip - 0.035, 0.04, 0.05, mix(skin, WHITE, 0.6), 0.5)
    base = np.column_stack([ACROSS * wide, tip + 0.032 * (1 - ACROSS**2) - 0.018 * ACROSS**4])
    shapes.stroke(base, 0.02 * TAPER + 0.003, shade(skin, 0.4))
    for side in (-1, 1):
        shapes.ellipse(side * wide * 0.5, tip + 0.012, 0.02, 0.01, shade(skin, 0.52))


def _mouth_y(face: Face) -> float:
    return 0.35 + 0.012 * face.nose_length + 0.012 * face.chin


def _add_mouth(shapes: Shapes, face: Face, skin: Floats) -> None:
    merry = max(face.smile, 0.0)
    wide = 0.155 * (1 + 0.1 * face.mouth_width + 0.2 * merry)
    full = 0.038 * (1 + 0.2 * face.lip_fullness)
    arch = 1 - ACROSS**2
    curve = 0.09 * merry + 0.05 * min(face.smile, 0.0)
    middle = _mouth_y(face) + curve * (0.45 - ACROSS**2) - 0.02 * face.lopsidedness * ACROSS
    gap = 0.11 * max(face.smile - 0.2, 0.0) * arch
    upper = middle - full * (arch**0.8 - 0.35 * np.exp(-((ACROSS / 0.16) ** 2)))
    lower = middle + gap + full * 1.15 * arch**0.8
    lipstick = hue(0.9 + 0.13 * face.accent, 0.74, 0.8)
    lips = mix(mix(shade(skin, 0.2), (200, 76, 84), 0.42), lipstick, min(1.0, 1.2 * face.makeup))
    x = ACROSS * wide
    shapes.between(x, upper, middle + gap * 0.2, lips * 0.9)
    shapes.between(x, middle, lower, lips)
    if face.smile > 0.2:
        shapes.between(x * 0.95, middle, middle + gap, np.array([120.0, 40.0, 48.0]))
        shapes.between(x * 0.88, middle, middle + gap * 0.62, np.array([252.0, 248.0, 244.0]))
    else:
        shapes.stroke(np.column_stack([x, middle]), 0.013 * TAPER, lips * 0.58)
    shapes.glow(0, float(lower[10]) - 0.4 * full, wide * 0.4, full * 0.35, WHITE, 0.2 + 0.3 * face.makeup)
    for end in (0, -1):
        shapes.ellipse(x[end], middle[end], 0.012, 0.012, shade(skin, 0.32))


def _eye_x(face: Face) -> float:
    return 0.19 * (1 + 0.07 * face.eye_spacing)


def _eye_y(face: Face, side: int) -> float:
    return -0.02 + 0.016 * face.eye_height - 0.018 * side * face.lopsidedness


def _add_eye(shapes: Shapes, face: Face, skin: Floats, side: int) -> None:
    merry = max(face.smile, 0.0)
    grow = 1 + 0.13 * face.eye_size
    wide, tall = 0.1 * grow**0.7, 0.068 * grow**1.3
    tilt = -side * (0.06 + 0.05 * face.eye_tilt)
    centre = np.array([side * _eye_x(face), _eye_y(face, side)])
    x = ACROSS * wide
    lid = -tall * (1 - np.abs(ACROSS) ** 2.2) ** 0.8
    low = tall * (0.72 - 0.2 * merry) * (1 - ACROSS**2) ** 0.8

    def place(x: Floats, y: Floats) -> Floats:
        return np.asarray(turned(np.column_stack([x, y]), tilt) + centre)

    def area(top: Floats, bottom: Floats) -> Floats:
        return np.concatenate([top, bottom[::-1]])

    shadow = hue(0.52 + 0.42 * face.accent, 0.5, 0.78)
    shapes.fill(area(place(x * 1.2, lid * 1.7 - 0.008), place(x * 1.1, low * 0)), shadow, 0.75 * face.makeup)
    shapes.stroke(place(x * 1.02, lid * 1.25 - 0.022), 0.012 * TAPER, shade(skin, 0.34), 0.7)
    upper, lower = place(x, lid), place(x, low)
    shapes.fill(area(upper, lower), np.array([250.0, 247.0, 244.0]))
    shapes.fill(area(upper, place(x, lid * 0.72)), np.array([190.0, 180.0, 186.0]), 0.6)
    iris = np.array(IRISES[face.iris], np.float64)
    for radius, colour in ((0.84, iris * 0.6), (0.72, iris), (0.4, INK * 0.5)):
        ring = CIRCLE * (radius * tall) - (0, 0.06 * tall)
        clipped = np.clip(ring[:, 1], np.interp(ring[:, 0], x, lid), np.interp(ring[:, 0], x, low))
        shapes.fill(place(ring[:, 0], clipped), colour)
    glint = np.copysign(0.26 * tall, face.light)
    shapes.ellipse(centre[0] + glint, centre[1] - 0.32 * tall, 0.2 * tall, 0.2 * tall, WHITE, 0.95)
    shapes.stroke(upper, 0.016 + 0.014 * face.makeup, INK)
    wing = np.array([(0.8, -0.3), (1.24 + 0.22 * face.makeup, -0.45 - 0.4 * face.makeup), (1.0, 0.12)])
    shapes.fill(place(side * wide * wing[:, 0], tall * wing[:, 1]), INK)
    shapes.stroke(lower, 0.007, shade(skin, 0.42), 0.8)

    inward = -side * ACROSS
    brow_y = centre[1] - 0.175 - 0.016 * face.brow_height - 0.02 * merry
    bow = brow_y - 0.03 * (1 - (ACROSS + 0.25 * inward * ACROSS) ** 2)
    thick = 0.036 * (1 + 0.22 * face.brow_thickness) * (0.64 + 0.36 * inward) * np.sqrt(TAPER)
    shapes.stroke(np.column_stack([ACROSS * 0.12 + centre[0] * 1.02, bow]), thick, _root_colour(face))


def _add_glasses(shapes: Shapes, face: Face) -> None:
    if face.glasses <= 0:
        return
    frame = mix(INK, hue(face.accent, 0.7, 0.6), 0.6)
    width = 0.014 + 0.03 * face.glasses
    x, y = _eye_x(face) * 1.02, _eye_y(face, 0) + 0.01
    rim = np.concatenate([CIRCLE, CIRCLE[:1]])
    rim = np.sign(rim) * np.abs(rim) ** 0.85 * (0.16, 0.14)
    for side in (-1, 1):
        lens = rim + np.array([side * x, y])
        shapes.fill(lens, np.array([235.0, 245.0, 255.0]), 0.14)
        shapes.stroke(lens, width, frame)
        temple = np.array([(side * (x + 0.15), y - 0.03), (side * (half_width(face) - 0.01), y - 0.045)])
        shapes.stroke(temple, width, frame)
    shapes.stroke(np.column_stack([ACROSS * (x - 0.155), y - 0.03 - 0.02 * (1 - ACROSS**2)]), width, frame)
