"""Where the parts of each face are, by a data set's landmarks: what the method co-attention is given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from uol.datasets import scut_fbp5500
from uol.images.faces import TEMPLATE, WEIGHTS, similarity, transform
from uol.ratings.rated_images import RatedImages

Floats = npt.NDArray[np.float64]

# Of SCUT-FBP5500's 86 landmarks, as seen in the picture: the points of six parts, and the five of the template.
_PARTS = (
    range(42, 50),  # left eye
    range(50, 58),  # right eye
    range(22, 42),  # brows
    range(60, 73),  # nose
    range(73, 86),  # mouth
    range(8, 15),  # jaw
)
_FIVE = (58, 59, 66, 79, 73)
_LEAST = 0.015  # the smallest radius of a part, in parts of the frame: lines of landmarks have no height


def parts_of(rated: RatedImages, aligned: bool) -> Floats:
    """Centre x, y and radii x, y of six parts in the frame, (N, 6, 4), as fractions of it; NaN where unknown.

    Known are those of SCUT-FBP5500 where its folder `facial landmark` is in place. `aligned` frames show faces at the
    template's place: the landmarks are moved there by the transform that aligns them. A radius is that of the ellipse
    with the spread of a part's points.
    """
    unknown: Floats = np.full((len(rated), len(_PARTS), 4), np.nan)
    if rated.name != scut_fbp5500.DATASET.name or not isinstance(rated.images[0], Path):
        return unknown
    root = rated.images[0].parent.parent
    if not (root / "facial landmark").is_dir():
        return unknown
    points = scut_fbp5500.landmarks(root, rated.names)
    for number, face in enumerate(points):
        if np.isfinite(face).all():
            moved = transform(similarity(face[list(_FIVE)], TEMPLATE, WEIGHTS), face) if aligned else face
            unknown[number] = [_ellipse(moved[list(part)]) for part in _PARTS]
    return unknown


def _ellipse(points: Floats) -> Floats:
    """Centre and radii of points (n, 2): an ellipse's outline has a spread of its radius / √2 along each axis."""
    middle = (points.min(0) + points.max(0)) / 2
    return np.concatenate([middle, np.maximum(points.std(0) * np.sqrt(2), _LEAST)])
