"""Drawn faces to try the service with: nobody's photograph."""

from __future__ import annotations

import io
from functools import cache

from PIL import Image

_SEED, _SIZE = 7, 384
_CHOSEN = (34, 14, 22, 11, 6, 0, 30, 39)  # rows of the random faces: unlike each other, and found as faces
NAMES = tuple(f"face-{number}.png" for number in range(1, len(_CHOSEN) + 1))
TOGETHER = "together.png"  # the first two in one picture


@cache
def sample(name: str) -> bytes:
    """A drawn face, or two faces in one picture, as a PNG file."""
    places = (0, 1) if name == TOGETHER else (NAMES.index(name),)
    picture = Image.new("RGB", (_SIZE * len(places), _SIZE))
    for column, place in enumerate(places):
        picture.paste(_drawn(place), (_SIZE * column, 0))
    content = io.BytesIO()
    picture.save(content, format="PNG")
    return content.getvalue()


def _drawn(place: int) -> Image.Image:
    import numpy as np

    from uol.datasets.synthetic import draw_faces, sample_parameters

    parameters = sample_parameters(max(_CHOSEN) + 1, np.random.default_rng(_SEED))
    return Image.fromarray(draw_faces(parameters.iloc[[_CHOSEN[place]]], _SIZE)[0])
