"""Predictions of many images as arrays; read without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from uol.scoring.base import Score

Floats = npt.NDArray[np.float64]


class Predictions(NamedTuple):
    """Predicted scores of N images with intervals, each (N,); dispersion is NaN for methods that do not predict it."""

    value: Floats
    low: Floats
    high: Floats
    dispersion: Floats

    @classmethod
    def of(cls, scores: Sequence[Score]) -> Predictions:
        """Scores as arrays."""
        return cls(*(np.array([getattr(score, name) for score in scores]) for name in cls._fields))
