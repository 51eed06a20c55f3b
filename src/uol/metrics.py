"""How good predictions are: correlation, errors, order and coverage, as pure functions of arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from uol.order import order_of


def pearson(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Pearson correlation (PC); NaN where either side is constant."""
    a, b = np.asarray(truth, np.float64), np.asarray(predicted, np.float64)
    if a.size < 2 or any(np.ptp(x) <= 1e-12 * np.abs(x).max() for x in (a, b)):
        return float("nan")
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b) / float(np.sqrt((a @ a) * (b @ b)))


def spearman(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Spearman rank correlation; NaN where either side is constant."""
    return pearson(rankdata(np.asarray(truth)), rankdata(np.asarray(predicted)))


def mae(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Mean absolute error."""
    return float(np.abs(np.asarray(truth, np.float64) - np.asarray(predicted, np.float64)).mean())


def rmse(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Root mean square error."""
    return float(np.sqrt(np.square(np.asarray(truth, np.float64) - np.asarray(predicted, np.float64)).mean()))


def order_accuracy(truth: npt.ArrayLike, predicted: npt.ArrayLike, threshold: float) -> float:
    """Share of all pairs whose predicted scores stand in the right ternary order; NaN for a single image."""
    a, b = np.asarray(truth, np.float64), np.asarray(predicted, np.float64)
    first, second = np.triu_indices(len(a), 1)
    if first.size == 0:
        return float("nan")
    return float((order_of(a[first], a[second], threshold) == order_of(b[first], b[second], threshold)).mean())


def coverage(truth: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike) -> float:
    """Share of the truth inside its interval."""
    truth = np.asarray(truth, np.float64)
    return float(((np.asarray(low) <= truth) & (truth <= np.asarray(high))).mean())
