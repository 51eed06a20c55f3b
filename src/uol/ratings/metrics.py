"""How good predictions are: correlation, errors, order and coverage, as pure functions of arrays."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

_NORMAL = 1.959963984540054


def pearson(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Pearson correlation (PC); NaN where either side is constant.

    >>> round(pearson([1, 2, 3], [1, 2, 4]), 3)
    0.982
    """
    a, b = np.asarray(truth, np.float64), np.asarray(predicted, np.float64)
    if a.size < 2 or any(np.ptp(x) <= 1e-12 * np.abs(x).max() for x in (a, b)):
        return float("nan")
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b) / float(np.sqrt((a @ a) * (b @ b)))


def pearson_interval(pc: float, free: int) -> tuple[float, float] | None:
    """95 % of a correlation over n images, `free` being n − 3: Fisher's, tanh(atanh PC ± 1.96/√(n − 3)).

    Of a mean over samples, `free` is the sum. None where there is no such interval.
    """
    if math.isnan(pc) or free <= 0 or abs(pc) >= 1:
        return None
    middle, half = math.atanh(pc), _NORMAL / math.sqrt(free)
    return math.tanh(middle - half), math.tanh(middle + half)


def pearson_gap(pc: float, free: int, other: float, other_free: int) -> tuple[float, float] | None:
    """95 % of the difference of two correlations, PC − other, on different images; None where there is none.

    Zou's: with (l, u) and (l', u') the intervals of both, from PC − other − √((PC − l)² + (u' − other)²) to
    PC − other + √((u − PC)² + (other − l')²).
    """
    one, two = pearson_interval(pc, free), pearson_interval(other, other_free)
    if one is None or two is None:
        return None
    gap = pc - other
    return gap - math.hypot(pc - one[0], two[1] - other), gap + math.hypot(one[1] - pc, other - two[0])


def share_interval(share: float, n: int) -> tuple[float, float]:
    """95 % of a share of n, Wilson's: (p + z²/2n ± z·√(p(1 − p)/n + z²/4n²)) / (1 + z²/n); it may be a mean share."""
    square = _NORMAL**2 / n
    half = _NORMAL * math.sqrt(share * (1 - share) / n + square / (4 * n))
    low, high = ((share + square / 2 + end) / (1 + square) for end in (-half, half))
    return max(0.0, low), min(1.0, high)


def spearman(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Spearman rank correlation; NaN where either side is constant.

    >>> spearman([1, 2, 3], [10, 20, 40])
    1.0
    """
    return pearson(_ranks(np.asarray(truth)), _ranks(np.asarray(predicted)))


def _ranks(values: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
    """Ranks from 1, equal values sharing the mean of theirs; scipy.stats has this too, but takes a second to import."""
    if np.isnan(values).any():
        return np.full(values.size, np.nan)
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: npt.NDArray[np.float64] = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks


def mae(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Mean absolute error.

    >>> mae([1, 2, 3], [1, 2, 4.5])
    0.5
    """
    return float(np.abs(np.asarray(truth, np.float64) - np.asarray(predicted, np.float64)).mean())


def rmse(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Root mean square error.

    >>> round(rmse([1, 2, 3], [1, 2, 4.5]), 3)
    0.866
    """
    return float(np.sqrt(np.square(np.asarray(truth, np.float64) - np.asarray(predicted, np.float64)).mean()))


def coverage(truth: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike) -> float:
    """Share of the truth inside its interval.

    >>> coverage([1, 2], low=[0, 3], high=[2, 4])
    0.5
    """
    truth = np.asarray(truth, np.float64)
    return float(((np.asarray(low) <= truth) & (truth <= np.asarray(high))).mean())
