"""The likelihood of votes under Thurstone's law of comparative judgement, and its maximum."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import log_ndtr, ndtr

from uol.order.order import Order

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

_LOG_DELTA = (-6.0, 2.0)
_SPREAD_OF_DISPERSIONS = 0.35  # prior standard deviation of the logarithm of Case III's dispersions
_TINY = 1e-300
_LOG_ROOT = 0.5 * np.log(2 * np.pi)


class ThurstoneFit(NamedTuple):
    """Centred values (n,), their covariance (n, n), δ, Case III's dispersions (n,), and all parameters."""

    value: Floats
    covariance: Floats
    delta: float
    dispersion: Floats | None
    parameters: Floats


class _Layout(NamedTuple):
    """Where parameters are: values, log δ, log dispersions, and intercept and slope of ratings."""

    images: int
    dispersions: bool
    ratings: bool

    @property
    def log_delta(self) -> int:
        return self.images

    @property
    def log_dispersions(self) -> slice:
        return slice(self.images + 1, self.images + 1 + self.images * self.dispersions)

    @property
    def line(self) -> slice:
        start = self.log_dispersions.stop
        return slice(start, start + 2 * self.ratings)


def fit_thurstone(
    first: Indices,
    second: Indices,
    outcome: Indices,
    images: int,
    prior: float,
    *,
    dispersions: bool = False,
    ratings: tuple[Floats, Floats] | None = None,
    start: ThurstoneFit | None = None,
) -> ThurstoneFit:
    """Values that make votes (and mean ratings with their standard errors) most likely, under a prior on values.

    With u = (s_i − s_j − δ)/τ and v = (s_i − s_j + δ)/τ, P(greater) = Φ(u), P(less) = Φ(−v), and similar is the rest.
    Case V has τ = 1, and Case III τ² = σ_i² + σ_j². The covariance is the inverse of the expected information of all
    parameters together.
    """
    if outcome.size == 0:
        raise ValueError("scale values need at least one vote")
    ties = bool((outcome == Order.SIMILAR).any())
    layout = _Layout(images, dispersions, ratings is not None)
    known = np.zeros(images, bool) if ratings is None else np.isfinite(ratings[0]) & np.isfinite(ratings[1])

    def negative(parameters: Floats) -> tuple[float, Floats]:
        votes = _Votes(parameters, first, second, outcome, layout, ties)
        value = parameters[:images]
        log_likelihood, by_u, by_v = votes.log_likelihood()
        gradient = votes.jacobian_u.T @ by_u + votes.jacobian_v.T @ by_v
        log_likelihood -= 0.5 * np.square(value / prior).sum()
        gradient[:images] -= value / prior**2
        spread = parameters[layout.log_dispersions]
        log_likelihood -= 0.5 * np.square(spread / _SPREAD_OF_DISPERSIONS).sum()
        gradient[layout.log_dispersions] -= spread / _SPREAD_OF_DISPERSIONS**2
        if ratings is not None:
            intercept, slope = parameters[layout.line]
            residual = (ratings[0] - intercept - slope * value)[known] / ratings[1][known] ** 2
            log_likelihood -= 0.5 * np.sum(residual * (ratings[0] - intercept - slope * value)[known])
            gradient[:images][known] += slope * residual
            gradient[layout.line] += residual.sum(), (residual * value[known]).sum()
        return -float(log_likelihood), -gradient

    begin = np.zeros(layout.line.stop) if start is None else start.parameters
    if start is None:
        begin[layout.log_delta] = np.log(0.3)
        if ratings is not None:
            begin[layout.line] = ratings[0][known].mean(), 0.5 * max(float(ratings[0][known].std()), 1e-3)
    bounds: list[tuple[float | None, float | None]] = [(None, None)] * layout.line.stop
    bounds[layout.log_delta] = _LOG_DELTA
    result = minimize(
        negative, begin, jac=True, method="L-BFGS-B", bounds=bounds,
        options={"maxiter": 2000, "maxfun": 10_000, "ftol": 1e-12, "gtol": 1e-7},
    )  # fmt: skip
    votes = _Votes(result.x, first, second, outcome, layout, ties)
    information = votes.information()
    information[np.arange(images), np.arange(images)] += prior**-2
    spread = np.arange(images + 1, layout.log_dispersions.stop)
    information[spread, spread] += _SPREAD_OF_DISPERSIONS**-2
    if not ties:
        information[layout.log_delta, layout.log_delta] = 1.0
    if ratings is not None:
        _add_ratings(information, result.x, layout, ratings[1], known)
    covariance: Floats = np.linalg.inv(information)[:images, :images].astype(np.float64)
    value = result.x[:images]
    delta = float(np.exp(result.x[layout.log_delta])) if ties else 0.0
    sigma = np.sqrt(0.5) * np.exp(result.x[layout.log_dispersions]) if dispersions else None
    return ThurstoneFit(value - value.mean(), centred(covariance), delta, sigma, result.x)


def centred(covariance: Floats) -> Floats:
    """The covariance of values less their mean: what moves all values together is no error of theirs."""
    mean = covariance.mean(axis=0)
    return np.asarray(covariance - mean - mean[:, None] + covariance.mean())


def normal_slope(difference: Floats, outcome: Indices, delta: float) -> Floats:
    """Derivative of each vote's log-likelihood by the difference of values, in Case V with ties: (…, votes)."""
    u, v = difference - delta, difference + delta
    log_u, log_v = -0.5 * u**2 - _LOG_ROOT, -0.5 * v**2 - _LOG_ROOT
    slope = np.where(outcome == Order.GREATER, np.exp(log_u - log_ndtr(u)), -np.exp(log_v - log_ndtr(-v)))
    if delta == 0:
        return np.asarray(slope)
    tied = (np.exp(log_v) - np.exp(log_u)) / _between(u, v)
    return np.asarray(np.where(outcome == Order.SIMILAR, tied, slope))


def _between(u: Floats, v: Floats) -> Floats:
    """P(similar) = Φ(v) − Φ(u), from the tail in which it keeps its digits."""
    low, high = np.where(u > 0, -v, u), np.where(u > 0, -u, v)
    return np.asarray(np.maximum(ndtr(high) - ndtr(low), _TINY))


class _Votes:
    """u and v of each vote at some parameters, with their derivatives."""

    def __init__(
        self, parameters: Floats, i: Indices, j: Indices, outcome: Indices, layout: _Layout, ties: bool
    ) -> None:
        value = parameters[: layout.images]
        delta = float(np.exp(parameters[layout.log_delta])) if ties else 0.0
        half = np.full(layout.images, 0.5)
        if layout.dispersions:
            half = 0.5 * np.exp(2 * parameters[layout.log_dispersions])
        square = half[i] + half[j]
        tau = np.sqrt(square)
        self.ties = ties
        self.greater, self.similar, self.less = (outcome == kind for kind in (Order.GREATER, Order.SIMILAR, Order.LESS))
        self.u = (value[i] - value[j] - delta) / tau
        self.v = (value[i] - value[j] + delta) / tau
        self.jacobian_u, self.jacobian_v = (
            self._jacobian(x, sign * delta, i, j, tau, half, square, layout)
            for x, sign in ((self.u, -1.0), (self.v, 1.0))
        )

    @staticmethod
    def _jacobian(
        x: Floats, by_log_delta: float, i: Indices, j: Indices, tau: Floats, half: Floats, square: Floats,
        layout: _Layout,
    ) -> csr_array:  # fmt: skip
        """∂u/∂s = ±1/τ, ∂u/∂log δ = −δ/τ, ∂u/∂log σ_i = −u σ_i²/τ²: (votes, parameters), sparse."""
        columns = [i, j, np.full(len(i), layout.log_delta)]
        entries = [1 / tau, -1 / tau, by_log_delta / tau]
        if layout.dispersions:
            columns += [layout.images + 1 + i, layout.images + 1 + j]
            entries += [-x * half[i] / square, -x * half[j] / square]
        starts = np.arange(0, len(i) * len(columns) + 1, len(columns))
        cells = np.stack(entries, 1).ravel(), np.stack(columns, 1).ravel(), starts
        return csr_array(cells, shape=(len(i), layout.line.stop))

    def log_likelihood(self) -> tuple[float, Floats, Floats]:
        """The log-likelihood of all votes, and its derivatives by u and v."""
        greater, less = log_ndtr(self.u), log_ndtr(-self.v)
        log_u, log_v = -0.5 * self.u**2 - _LOG_ROOT, -0.5 * self.v**2 - _LOG_ROOT
        total = float(greater[self.greater].sum() + less[self.less].sum())
        by_u = self.greater * np.exp(log_u - greater)
        by_v = -(self.less * np.exp(log_v - less))
        if self.ties:
            rest = _between(self.u, self.v)
            total += float(np.log(rest[self.similar]).sum())
            by_u -= self.similar * np.exp(log_u) / rest
            by_v += self.similar * np.exp(log_v) / rest
        return total, by_u, by_v

    def information(self) -> Floats:
        """Expected information of all votes on all parameters, (parameters, parameters)."""
        density_u, density_v = (np.exp(-0.5 * x**2 - _LOG_ROOT) for x in (self.u, self.v))
        greater, less = np.maximum(ndtr(self.u), _TINY), np.maximum(ndtr(-self.v), _TINY)
        rest = _between(self.u, self.v) if self.ties else np.full(len(self.u), np.inf)
        by_u = density_u**2 * (1 / greater + 1 / rest)
        by_v = density_v**2 * (1 / less + 1 / rest)
        mixed = -density_u * density_v / rest
        u, v = self.jacobian_u, self.jacobian_v
        cross = u.T @ v.multiply(mixed[:, None]).tocsr()
        total = u.T @ u.multiply(by_u[:, None]).tocsr() + v.T @ v.multiply(by_v[:, None]).tocsr() + cross + cross.T
        return np.asarray(total.toarray())


def _add_ratings(
    information: Floats, parameters: Floats, layout: _Layout, error: Floats, known: npt.NDArray[np.bool_]
) -> None:
    """Add the information of mean ratings on values, intercept and slope."""
    rows = np.flatnonzero(known)
    value, slope = parameters[rows], parameters[layout.line][1]
    weight = error[rows] ** -2.0
    jacobian = np.zeros((len(rows), layout.line.stop))
    jacobian[np.arange(len(rows)), rows] = slope
    jacobian[:, layout.line] = np.stack([np.ones(len(rows)), value], 1)
    information += jacobian.T @ (weight[:, None] * jacobian)
