"""Functions that scipy has too, which would add a quarter to the size of an installation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Slopes: TypeAlias = tuple[float, Floats, Floats]
"""A function's value, its gradient (p,) and a positive definite Hessian (p, p), exact or near it."""

_HALVINGS = 40  # of a step that does not descend
_FAR_OUT = 2.0  # from where a continued fraction of so many terms has a Student's tail to 12 digits
_TERMS = 150
_GOLDEN = (math.sqrt(5) - 1) / 2


def expit(x: npt.ArrayLike) -> Floats:
    """1 / (1 + e^−x), without an overflow."""
    x = np.asarray(x, np.float64)
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1.0, small) / (1 + small))


def log_expit(x: npt.ArrayLike) -> Floats:
    """log(1 / (1 + e^−x)), without an overflow."""
    x = np.asarray(x, np.float64)
    return np.asarray(np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x))))


def normal_quantile(p: npt.ArrayLike) -> Floats:
    """The standard normal's quantiles; −∞ at 0, ∞ at 1, NaN elsewhere outside.

    >>> normal_quantile([0.5, 0.975, 1]).round(4)
    array([0.  , 1.96,  inf])
    """
    from statistics import NormalDist  # slow to import, and not needed to score

    inverse, ends = NormalDist().inv_cdf, {0.0: -math.inf, 1.0: math.inf}
    values = np.asarray(p, np.float64)
    found = [inverse(one) if 0 < one < 1 else ends.get(one, math.nan) for one in values.ravel().tolist()]
    return np.array(found).reshape(values.shape)


def student_quantile(freedom: npt.ArrayLike, p: float) -> Floats:
    """The quantile p, from 0.5 to 1, of Student's distributions of whole, or infinitely many, degrees of freedom.

    NaN where there are none.

    >>> student_quantile([1, 9, 1000], 0.975).round(3)
    array([12.706,  2.262,  1.962])
    """
    degrees = np.asarray(freedom, np.float64)
    if not 0.5 <= p < 1:
        raise ValueError(f"p must be from 0.5 to below 1, not {p}")
    found = np.full(degrees.shape, np.nan)
    for count in np.unique(degrees[degrees >= 1]):
        found[degrees == count] = normal_quantile(p) if np.isinf(count) else _student_quantile(int(count), p)
    return found


def _student_quantile(freedom: int, p: float) -> float:
    """By Newton's steps from the normal's quantile: the tail is convex, so each stays below the root."""
    log_peak = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(math.pi * freedom) / 2
    t = float(normal_quantile(p))
    for _ in range(100):
        density = math.exp(log_peak - (freedom + 1) / 2 * math.log1p(t * t / freedom))
        step = (_student_tail(t, freedom, density) - (1 - p)) / density
        t += step
        if abs(step) <= 1e-13 * max(t, 1.0):
            break
    return t


def _student_tail(t: float, freedom: int, density: float) -> float:
    """The probability of more than t, from the density there, to the same digits however small it is.

    Far out it is the continued fraction of the incomplete beta function (Abramowitz and Stegun 1964, 26.5.8).
    """
    if t < _FAR_OUT:
        return (1 - _within(t, freedom)) / 2
    a, x = freedom / 2, freedom / (freedom + t * t)
    fraction = 1.0
    for m in range(_TERMS, -1, -1):
        even = (m + 1) * (-0.5 - m) / ((a + 2 * m + 1) * (a + 2 * m + 2))
        odd = -(a + m) * (a + m + 0.5) / ((a + 2 * m) * (a + 2 * m + 1))
        fraction = 1 + odd * x / (1 + even * x / fraction)
    return density * t / freedom / fraction


def _within(t: float, freedom: int) -> float:
    """The probability that a Student's variable is within ±t (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
    cosine_squared = freedom / (freedom + t * t)
    odd = freedom % 2
    k = np.arange(1, (freedom - odd) // 2)
    terms = np.cumprod(cosine_squared * (2 * k - 1 + odd) / (2 * k + odd))
    sine = t / math.sqrt(freedom + t * t)
    if not odd:
        return sine * (1 + float(terms.sum()))
    series = math.sqrt(cosine_squared) * (1 + float(terms.sum())) if freedom > 1 else 0.0
    return 2 / math.pi * (math.atan(t / math.sqrt(freedom)) + sine * series)


def connected_sets(pairs: npt.ArrayLike, count: int) -> npt.NDArray[np.intp]:
    """The number of the set that each of `count` things is in: pairs (n, 2) connect the things of a set.

    Sets are counted as they appear.

    >>> connected_sets([[4, 2], [1, 3]], 5)
    array([0, 1, 2, 1, 2])
    """
    a, b = np.asarray(pairs, np.intp).reshape(-1, 2).T
    root = np.arange(count)
    while not np.array_equal(root[a], root[b]):
        low, high = np.minimum(root[a], root[b]), np.maximum(root[a], root[b])
        np.minimum.at(root, high, low)
        while not np.array_equal(above := root[root], root):
            root = above
    return np.unique(root, return_inverse=True)[1].astype(np.intp)


def minimise(slopes: Callable[[Floats], Slopes], start: Floats, low: Floats, high: Floats, steps: int = 200) -> Floats:
    """Where a convex function is least between bounds (p,), by Newton's steps that are halved until they descend."""
    x = np.clip(start, low, high)
    value, gradient, hessian = slopes(x)
    for _ in range(steps):
        free = np.flatnonzero(~(((x <= low) & (gradient > 0)) | ((x >= high) & (gradient < 0))))
        if np.abs(gradient[free]).max(initial=0.0) <= 1e-10:
            break
        step = np.zeros_like(x)
        step[free] = -np.linalg.solve(hessian[np.ix_(free, free)] + 1e-12 * np.eye(len(free)), gradient[free])
        for _ in range(_HALVINGS):
            moved = np.clip(x + step, low, high)
            there = slopes(moved)
            if there[0] <= value + 1e-4 * float(gradient @ (moved - x)) + 1e-14 * abs(value):
                break
            step /= 2
        else:
            break
        far = float(np.abs(moved - x).max())
        x, (value, gradient, hessian) = moved, there
        if far <= 1e-11:
            break
    return x


def least_between(of: Callable[[float], float], low: float, high: float, near: float) -> float:
    """Where a function with one valley is least between two ends, to within `near`, by golden sections."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = of(left), of(right)
    while high - low > near:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = of(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = of(right)
    return (low + high) / 2
