"""From votes on pairs to scale values: all images at once, by Bradley-Terry with ties.

The model is that of `bradley_terry` with k = 1, so that values are in logits: an image one unit above another is judged
greater e times as often as less. Values are centred on zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from uol.order.order import Order
from uol.ratings.numerics import Slopes, connected_sets, expit, log_expit, minimise

Floats = npt.NDArray[np.float64]

PRIOR = 3.0
"""Standard deviation of the Gaussian prior on values, in logits: wide enough to leave compared images alone, and what
keeps an image that won (or lost) every vote, or was never compared with the rest, at a finite place."""

_DELTA = (float(np.exp(-6)), float(np.exp(3)))


class ScaleValues(NamedTuple):
    """Values of n images with standard errors, (n,) each; δ of the ties; how many sets share no vote.

    `covariance` (n, n) is that of the values.
    """

    value: Floats
    standard_error: Floats
    delta: float
    islands: int
    covariance: Floats


def scale_values(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    outcome: npt.ArrayLike,
    images: int,
    prior: float = PRIOR,
    start: npt.ArrayLike | None = None,
) -> ScaleValues:
    """Fit values to votes: `outcome` is an `Order` seen from the first image's side; all (votes,).

    `start` (images,) are values near the solution, which make the search shorter.

    Maximises the log-likelihood plus the log-prior, which is concave; standard errors come from the inverse of the
    observed information, whose prior keeps it regular.

    >>> found = scale_values([0, 0, 1], [1, 2, 2], [Order.GREATER] * 3, images=3)
    >>> found.value.argsort()
    array([2, 1, 0])
    """
    i, j, order = (np.asarray(part, np.intp) for part in (first, second, outcome))
    if order.size == 0:
        raise ValueError("scale values need at least one vote")
    greater, similar, less = (order == kind for kind in (Order.GREATER, Order.SIMILAR, Order.LESS))
    ties = bool(similar.any())

    def negative(parameters: Floats) -> Slopes:
        value, delta = parameters[:-1], float(parameters[-1]) if ties else 0.0
        d = value[i] - value[j]
        u, v = d - delta, d + delta
        up, down = expit(u), expit(v)
        log_likelihood = (greater * log_expit(u) + less * log_expit(-v)).sum() - 0.5 * np.square(value / prior).sum()
        by_u, by_v = greater - (greater | similar) * up, similar - (similar | less) * down
        by_d = by_u + by_v if ties else greater - up
        gradient = np.append(np.bincount(i, by_d, images) - np.bincount(j, by_d, images) - value / prior**2, 0.0)
        u_weight = (greater | similar) * up * (1 - up) if ties else up * (1 - up)
        v_weight = (similar | less) * down * (1 - down) if ties else np.zeros_like(up)
        information = np.zeros((images + 1, images + 1))
        weight = u_weight + v_weight
        np.add.at(information, (i, j), -weight)
        np.add.at(information, (j, i), -weight)
        information[np.diag_indices(images)] += np.bincount(i, weight, images) + np.bincount(j, weight, images)
        information[np.diag_indices(images)] += prior**-2
        information[-1, -1] = 1.0
        if ties:
            log_likelihood += (similar * (log_expit(-u) + log_expit(v) + np.log(-np.expm1(-2 * delta)))).sum()
            gradient[-1] = (by_v - by_u + similar * 2 / np.expm1(2 * delta)).sum()
            information[-1, -1] = (weight + similar / np.sinh(delta) ** 2).sum()
            by_both = np.bincount(i, v_weight - u_weight, images) - np.bincount(j, v_weight - u_weight, images)
            information[-1, :-1] = information[:-1, -1] = by_both
        return -float(log_likelihood), -gradient, information

    begin = np.append(np.zeros(images) if start is None else np.asarray(start, np.float64), 1.0)
    ends = np.append(np.full(images, np.inf), _DELTA[1])
    found = minimise(negative, begin, np.append(-ends[:-1], _DELTA[0]), ends)
    value, delta = found[:-1], float(found[-1]) if ties else 0.0
    information = negative(found)[2][:-1, :-1]
    covariance = np.asarray(np.linalg.inv(information), np.float64)
    # Values are centred: what moves all of them together, which only the prior limits, is no error of theirs.
    covariance -= covariance.mean(axis=0) + covariance.mean(axis=1)[:, None] - covariance.mean()
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    islands = int(connected_sets(np.stack([i, j], 1), images).max()) + 1
    return ScaleValues(value - value.mean(), error, delta, islands, covariance)
