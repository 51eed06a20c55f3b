"""The hair of drawn faces: what is behind the head, and what covers it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from uol.datasets.face_shapes import (
    CIRCLE,
    EAR_TO_EAR,
    HAIR_COLOURS,
    WHITE,
    Face,
    Floats,
    Shapes,
    half_width,
    mirrored,
    mix,
    shade,
    smooth,
)


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


def add_back_hair(shapes: Shapes, face: Face) -> None:
    colour = 0.76 * _hair_colour(face)
    half = half_width(face)
    if face.hair == "curls":
        reach = 1.06 + 0.16 * face.hair_length
        for angle in np.linspace(-2.1, 2.1, 13):
            x, y = half * reach * np.sin(angle), -0.12 - 0.48 * reach * np.cos(angle)
            shapes.ellipse(x, y, 0.16, 0.16, colour * 1.18)
        shapes.ellipse(0, -0.1, half * reach, 0.48 * reach, colour * 1.18)
    elif face.hair in ("bob", "long"):
        end = _hair_end(face)
        right = [(0.0, -0.6), (half * 0.8, -0.5), (half + 0.1, -0.1), (half + 0.15, end * 0.5), (half + 0.13, end)]
        shapes.fill(smooth(mirrored(np.array([*right, (half * 0.5, end + 0.03)]))), colour)
    elif face.hair == "bun":
        size = 0.16 + 0.05 * face.hair_length
        shapes.ellipse(0, -0.6 - 0.4 * size, size, size, colour)
        shapes.ellipse(0.03 * face.light, -0.62 - 0.4 * size, size * 0.75, size * 0.75, colour * 1.3)
    elif face.hair == "mohawk":
        x = np.linspace(-0.19, 0.19, 15)
        crest = (0.26 + 0.12 * face.hair_length) * (1 - (x / 0.22) ** 2) * np.where(np.arange(15) % 2, 1.0, 0.82)
        shapes.between(x, -0.5 - crest, np.full(15, -0.4), colour)


def add_front_hair(shapes: Shapes, face: Face, skin: Floats) -> None:
    colour = _hair_colour(face)
    outer, inner = _hair_edges(face)
    cap = np.concatenate([outer, inner[::-1]])
    if face.hair in ("shaved", "mohawk", "quiff"):
        shapes.fill(cap, mix(skin, colour, 0.6), 0.6)
        if face.hair == "mohawk":
            shapes.fill(smooth(mirrored(np.array(_MOHAWK))), colour)
        elif face.hair == "quiff":
            _add_quiff(shapes, face)
        return
    shadow = inner[3:-3] + np.array([0, 0.012])  # of the hair on the forehead
    shapes.stroke(shadow, 0.04, shade(skin, 0.3), 0.5)
    if face.hair in ("bob", "long"):
        half, tip = half_width(face), _hair_end(face)
        lock = [(half * 0.93, -0.2), (half + 0.06, -0.2), (half + 0.1, 0.1), (half + 0.12, tip * 0.7)]
        lock += [(half * 0.86, tip), (half * 0.92, tip * 0.5), (half * 0.93, 0.1)]
        for side in (-1, 1):
            shapes.fill(smooth(np.array(lock)) * (side, 1), colour * 0.92)
    shapes.fill(cap, colour)
    if face.hair == "curls":
        for depth in (0.1, 0.75):
            for curl in (outer * (1 - depth) + inner * depth)[3:-3:5]:
                shapes.fill(CIRCLE * 0.09 + curl, colour)
                shapes.stroke(CIRCLE[19:30] * 0.06 + curl, 0.014, colour * 0.8)
    else:
        _add_strands(shapes, face, outer, inner)


def _hair_edges(face: Face) -> tuple[Floats, Floats]:
    """The outside of the hair over the head, and the hairline on the forehead, both from the left ear to the right."""
    cut = _CUTS[face.hair]
    half, side = half_width(face), _hair_side(face)
    turn = (np.pi / 2 + np.arcsin(cut.low / 0.6)) * EAR_TO_EAR
    tall = np.where(np.cos(turn) > 0, 0.54 + cut.grow + cut.top, 0.6)
    outer = np.column_stack([(half + cut.grow) * np.sin(turn), -tall * np.cos(turn)])
    if face.hair == "crop":  # tousled
        outer[:, 1] -= 0.024 * np.abs(np.sin(12 * EAR_TO_EAR + side)) * (1 - EAR_TO_EAR**2)
    elif face.hair == "parted":  # fuller on the side to which it is combed
        outer[:, 1] -= 0.05 * np.exp(-(((EAR_TO_EAR + 0.3 * side) / 0.4) ** 4))
    parting = cut.parting * side
    away = (EAR_TO_EAR - parting) / (1 - parting * np.sign(EAR_TO_EAR - parting))
    line = cut.brow + (cut.low - cut.brow) * np.abs(away) ** cut.curve
    edge = 0.97 * half * np.sqrt(1 - (np.minimum(line, 0) / 0.54) ** 2)  # the side of the head at that height
    return outer, np.column_stack([EAR_TO_EAR * edge, line])


def _add_quiff(shapes: Shapes, face: Face) -> None:
    colour = _hair_colour(face)
    tuft = np.array(_QUIFF) * (_hair_side(face) * half_width(face) / 0.44, 1)
    tuft[2:5, 1] -= 0.12 * face.hair_length
    shapes.fill(smooth(tuft), colour)
    for lift, ink in ((0.3, colour * 0.8), (0.5, mix(colour, WHITE, 0.25)), (0.7, colour * 0.8)):
        strand = smooth(tuft[[0, 9, 8, 6]] * (1 - lift) + tuft[[1, 2, 3, 4]] * lift)[6:16]
        shapes.stroke(strand, 0.016, ink, 0.7)


def _add_strands(shapes: Shapes, face: Face, outer: Floats, inner: Floats) -> None:
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
        shapes.stroke(strand[gleam - reach : gleam + reach + 1], 0.022, mix(colour, WHITE, 0.3), 0.6)
