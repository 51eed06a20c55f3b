"""Bootstrap over test images: intervals of figures, and paired differences, without keeping a rating.

Which images a replicate draws follows from the data set, the split and the number of images alone: replicate b of two
methods on the same fold has the same images, so that differences of replicates are differences on the same images.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from uol.ratings import metrics

Floats = npt.NDArray[np.float64]

REPLICATES = 500  # B
LEAST_P = 2 / (REPLICATES + 1)  # two-sided: no replicate on the other side of zero
DIGITS = 5
_LEAST_SPREAD = 1e-12  # of a replicate's variance, as a share of the whole set's: below it the replicate is constant


class Replicated(NamedTuple):
    """B replicates of each figure; None for a correlation that is undefined in one of them."""

    pc: list[float] | None
    mae: list[float]
    rmse: list[float]


class Difference(NamedTuple):
    """A difference of two figures on the same images: its interval, and how often chance alone gives the other sign."""

    difference: float
    low: float
    high: float
    p: float


def draws(data: str, split: str, images: int, replicates: int = REPLICATES) -> Floats:
    """How often each replicate draws each image, (B, N): each row sums to N.

    `data` is the data set's fingerprint, or its name where that is all that is known.
    """
    digest = hashlib.sha256(f"{data}\n{split}\n{images}".encode()).digest()
    # RandomState, not Generator: NumPy promises that its numbers stay the same in all versions to come.
    random = np.random.RandomState(np.frombuffer(digest, "<u4"))
    chosen = random.randint(0, images, size=(replicates, images), dtype=np.int64)
    places = chosen + images * np.arange(replicates)[:, None]
    return np.bincount(places.ravel(), minlength=replicates * images).reshape(replicates, images).astype(np.float64)


def replicated(truth: npt.ArrayLike, predicted: npt.ArrayLike, weights: Floats) -> Replicated:
    """Replicates of PC, MAE and RMSE, rounded: weights (B, N) times the moments (N, 7) of truth and prediction."""
    t, p = np.asarray(truth, np.float64), np.asarray(predicted, np.float64)
    error = np.abs(t - p)
    t, p = t - t.mean(), p - p.mean()  # correlations do not change, and rounding of squares hurts least
    moments = weights @ np.stack([t, p, t * t, p * p, t * p, error, error**2], axis=1) / len(t)
    mean_t, mean_p, square_t, square_p, product, mae, square = moments.T
    variance_t, variance_p = square_t - mean_t**2, square_p - mean_p**2
    known = bool(np.isfinite(metrics.pearson(t, p)))
    known = known and bool((variance_t > _LEAST_SPREAD * (t @ t) / len(t)).all())
    known = known and bool((variance_p > _LEAST_SPREAD * (p @ p) / len(p)).all())
    pc = (product - mean_t * mean_p) / np.sqrt(variance_t * variance_p) if known else None
    return Replicated(None if pc is None else _rounded(np.clip(pc, -1, 1)), _rounded(mae), _rounded(np.sqrt(square)))


def interval(replicates: npt.ArrayLike, level: float = 0.95) -> tuple[float, float]:
    """The percentile interval of replicates (B,)."""
    low, high = np.quantile(np.asarray(replicates, np.float64), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def mean_of(folds: Sequence[Sequence[float] | None]) -> Floats | None:
    """Replicates of a mean over folds: the mean of the folds' replicates b; None where a fold has none."""
    known = [np.asarray(fold, np.float64) for fold in folds if fold is not None]
    if not known or len(known) < len(folds) or len({fold.size for fold in known}) > 1:
        return None
    mean: Floats = np.mean(known, axis=0)
    return mean


def paired(figure: float, other: float, replicates: Floats, others: Floats) -> Difference:
    """The difference of two figures with the interval of their paired replicates.

    p is two-sided, 2·(n + 1)/(B + 1) with n the replicates on the rarer side of zero: at least 2/(B + 1), which is all
    that B of them can show.
    """
    gaps = replicates - others
    rarer = min(int((gaps <= 0).sum()), int((gaps >= 0).sum()))
    return Difference(figure - other, *interval(gaps), p=min(2 * (rarer + 1) / (gaps.size + 1), 1.0))


def _rounded(values: Floats) -> list[float]:
    return [float(value) for value in np.round(values, DIGITS)]
