"""From votes on pairs to scale values: all images at once, by Bradley-Terry with ties.

The model is that of `bradley_terry` with k = 1, so that values are in logits: an image one unit above another is judged
greater e times as often as less. Values are centred on zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, log_expit

from uol.order.order import Order

Floats = npt.NDArray[np.float64]

PRIOR = 3.0
"""Standard deviation of the Gaussian prior on values, in logits: wide enough to leave compared images alone, and what
keeps an image that won (or lost) every vote, or was never compared with the rest, at a finite place."""


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

    def negative(parameters: Floats) -> tuple[float, Floats]:
        value, delta = parameters[:-1], float(np.exp(parameters[-1])) if ties else 0.0
        d = value[i] - value[j]
        u, v = d - delta, d + delta
        log_likelihood = (greater * log_expit(u) + less * log_expit(-v)).sum() - 0.5 * np.square(value / prior).sum()
        by_u, by_v = greater - (greater | similar) * expit(u), similar - (similar | less) * expit(v)
        by_d = by_u + by_v if ties else greater - expit(d)
        gradient = np.bincount(i, by_d, images) - np.bincount(j, by_d, images) - value / prior**2
        by_delta = 0.0
        if ties:
            log_likelihood += (similar * (log_expit(-u) + log_expit(v) + np.log(-np.expm1(-2 * delta)))).sum()
            by_delta = delta * (by_v - by_u + similar * 2 / np.expm1(2 * delta)).sum()
        return -float(log_likelihood), -np.append(gradient, by_delta)

    begin = np.zeros(images + 1)
    if start is not None:
        begin[:-1] = start
    result = minimize(
        negative, begin, jac=True, method="L-BFGS-B", bounds=[(None, None)] * images + [(-6, 3)],
        options={"maxiter": 2000, "maxfun": 10_000, "ftol": 1e-13, "gtol": 1e-8},
    )  # fmt: skip
    value, delta = result.x[:-1], float(np.exp(result.x[-1])) if ties else 0.0
    d = value[i] - value[j]
    up, down = expit(d - delta), expit(d + delta)
    weight = (greater | similar) * up * (1 - up) + (similar | less) * down * (1 - down) if ties else up * (1 - up)
    information = np.diag(np.bincount(i, weight, images) + np.bincount(j, weight, images) + prior**-2)
    np.add.at(information, (i, j), -weight)
    np.add.at(information, (j, i), -weight)
    covariance = np.linalg.inv(information)
    # Values are centred: what moves all of them together, which only the prior limits, is no error of theirs.
    covariance -= covariance.mean(axis=0) + covariance.mean(axis=1)[:, None] - covariance.mean()
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    islands = int(connected_sets(np.stack([i, j], 1), images).max()) + 1
    return ScaleValues(value - value.mean(), error, delta, islands, covariance)


def connected_sets(pairs: npt.NDArray[np.intp], images: int) -> npt.NDArray[np.int32]:
    """The number of the set that each image is in, (images,): pairs (n, 2) connect the images of a set."""
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(images, images))
    labels: npt.NDArray[np.int32] = connected_components(graph, directed=False)[1]
    return labels
