"""Ratings for tests: published, simulated, and drawn by hypothesis."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from uol.ratings.ratings import Ratings

NAN = float("nan")
SHROUT_FLEISS = np.array([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]], float)


@st.composite
def gappy(draw: st.DrawFn) -> np.ndarray:
    """Whole ratings 1 to 5 with gaps, at least one rating of every image."""
    shape = draw(st.tuples(st.integers(1, 8), st.integers(1, 6)))
    matrix = draw(arrays(np.float64, shape, elements=st.integers(1, 5).map(float)))
    rated = draw(arrays(np.bool_, shape, elements=st.booleans()))
    rated[np.arange(shape[0]), draw(arrays(np.intp, shape[0], elements=st.integers(0, shape[1] - 1)))] = True
    return np.where(rated, matrix, np.nan)


def as_ratings(matrix: np.ndarray) -> Ratings:
    images, raters = matrix.shape
    return Ratings(matrix, tuple(f"i{n}" for n in range(images)), tuple(f"r{n}" for n in range(raters)))


def simulate(images: int, raters: int, gaps: float, seed: int, variances: tuple[float, float, float]) -> np.ndarray:
    rng = np.random.default_rng(seed)
    image, rater, residual = np.sqrt(variances)
    matrix = 3 + image * rng.normal(size=(images, 1)) + rater * rng.normal(size=raters)
    matrix = matrix + residual * rng.normal(size=(images, raters))
    matrix[rng.random(matrix.shape) < gaps] = np.nan
    return matrix
