"""Scale values from votes, choices and ratings: arrays in, values with standard errors and 95 % intervals out.

Bradley-Terry (with ties) gives values in logits, Thurstone's Case V and Case III in units of the standard deviation of
a comparison. Values are centred on zero. The prior on values is a Gaussian whose standard deviation is estimated from
the votes: with a fixed wide prior, pairs that were chosen adaptively stretch the scale, and the intervals miss.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

from uol.order.order import Order
from uol.order.scale_values import ScaleValues, scale_values
from uol.ratings.numerics import connected_sets
from uol.study.thurstone import ThurstoneFit, centred, fit_thurstone, normal_slope

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

NORMAL = 1.959963984540054
_FIRST_PRIOR = 2.0
_PRIORS = (0.05, 10.0)  # within which the prior's standard deviation is searched
_ROUNDS, _CLOSE, _MOST_RATE = 30, 0.005, 0.9
_NUDGE = 1.1  # of the prior, for the derivative by it
_DRAWS = 32  # of the values of a choice, and as many mirrored
_LONGEST = 1.0  # step, in logits
_NODES, _SHARES = np.polynomial.hermite_e.hermegauss(9)  # of the quadrature over a difference
_STEPS = 30  # of the search for the mean


class ScaleFit(NamedTuple):
    """Values of n images with standard errors, (n,) each, their covariance (n, n), and what else was fitted.

    The covariance is that of values whose prior is known; standard errors include that it was estimated.
    `delta` is the threshold of ties (0 without ties), `prior` the standard deviation of values that the votes suggest,
    `islands` the number of sets of images that share no vote, and `dispersion` (n,) Case III's standard deviations,
    whose squares add up to 1 in a comparison of two average images.
    """

    value: Floats
    standard_error: Floats
    covariance: Floats
    delta: float
    prior: float
    islands: int
    dispersion: Floats | None = None

    @property
    def low(self) -> Floats:
        """Lower end of the 95 % interval of each value."""
        return self.value - NORMAL * self.standard_error

    @property
    def high(self) -> Floats:
        """Upper end of the 95 % interval of each value."""
        return self.value + NORMAL * self.standard_error

    @property
    def width(self) -> float:
        """Mean width of the 95 % intervals."""
        return float(2 * NORMAL * self.standard_error.mean())


class RatingMeans(NamedTuple):
    """Mean rating of each image and its standard error, (n,) each; NaN where an image has no rating."""

    mean: Floats
    standard_error: Floats


def bradley_terry(first: npt.ArrayLike, second: npt.ArrayLike, outcome: npt.ArrayLike, images: int) -> ScaleFit:
    """Bradley-Terry values of votes; `outcome` is an `Order` from the first image's side, with or without ties."""
    i, j, order = (np.asarray(part, np.intp) for part in (first, second, outcome))
    mode: ScaleValues | None = None
    last: ScaleFit | None = None

    def fit(prior: float) -> ScaleFit:
        nonlocal last, mode
        if last is None or mode is None or mode.delta:  # without ties, only the first search needs the mode
            mode = scale_values(i, j, order, images, prior, None if last is None else last.value)
        start = mode if last is None else last
        slope = partial(_logistic_slope, outcome=order, delta=mode.delta)
        last = _averaged(slope, i, j, start.value, start.covariance, prior, mode.delta, mode.islands)
        return last

    return _with_fitted_prior(fit)


def thurstone(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    outcome: npt.ArrayLike,
    images: int,
    *,
    case: int = 5,
    ratings: RatingMeans | None = None,
) -> ScaleFit:
    """Thurstone's values of votes, with or without ties: Case V (5: equal dispersions) or III (3: one per image).

        P(greater) = Φ((s_i − s_j − δ) / √(σ_i² + σ_j²)),   P(less) with the images exchanged,   2σ² = 1 in Case V.

    With `ratings`, mean ratings are a line in the same values, m_i ~ N(a + b·s_i, e_i²): votes and ratings are fitted
    together, as in Pérez-Ortiz et al. (2020, From pairwise comparisons and rating to a unified quality scale).
    """
    if case not in (3, 5):
        raise ValueError(f"Thurstone's case {case}: choose 3 or 5")
    i, j, order = (np.asarray(part, np.intp) for part in (first, second, outcome))
    islands = int(connected_sets(np.stack([i, j], 1), images).max()) + 1
    mode: ThurstoneFit | None = None
    last: ScaleFit | None = None

    def fit(prior: float) -> ScaleFit:
        nonlocal last, mode
        if last is None or mode is None or mode.delta:
            mode = fit_thurstone(i, j, order, images, prior, start=mode)
        start = mode if last is None else last
        slope = partial(normal_slope, outcome=order, delta=mode.delta)
        last = _averaged(slope, i, j, start.value, start.covariance, prior, mode.delta, islands)
        return last

    found = _with_fitted_prior(fit)
    if case == 5 and ratings is None:
        return found
    rated = None if ratings is None else (ratings.mean, ratings.standard_error)
    more = fit_thurstone(i, j, order, images, found.prior, dispersions=case == 3, ratings=rated)
    error = np.sqrt(np.maximum(np.diag(more.covariance), 0.0))
    return ScaleFit(more.value, error, more.covariance, more.delta, found.prior, islands, more.dispersion)


def best_of(images: npt.ArrayLike, best: npt.ArrayLike, number: int) -> ScaleFit:
    """Values of choices of the best of several images, by Luce's rule: P(i) = e^(s_i) / Σ_j e^(s_j).

    images (n, k) number the images of each choice and best (n,) is the place of the chosen one. With k = 2 this is
    Bradley-Terry. A choice among k says of k − 1 pairs which image is greater, and these are not independent: the
    likelihood of the choice as a whole counts what they say together once.
    """
    shown, chosen = np.asarray(images, np.intp), np.asarray(best, np.intp)
    if chosen.size == 0:
        raise ValueError("scale values need at least one choice")
    winner = shown[np.arange(len(chosen)), chosen]
    beaten = np.stack([np.repeat(winner, shown.shape[1]), shown.ravel()], 1)
    islands = int(connected_sets(beaten, number).max()) + 1
    normal = np.random.default_rng(0).standard_normal((_DRAWS, shown.shape[1]))
    normal = np.concatenate([normal, -normal])
    last: ScaleFit | None = None

    def fit(prior: float) -> ScaleFit:
        nonlocal last
        value, covariance = (np.zeros(number), 0.01 * np.eye(number)) if last is None else (last.value, last.covariance)
        for _ in range(_STEPS):
            p, products = _average_choice(value, covariance, shown, normal)
            information = np.diag(np.bincount(shown.ravel(), p.ravel(), number) + prior**-2)
            for a in range(shown.shape[1]):
                for b in range(shown.shape[1]):
                    np.add.at(information, (shown[:, a], shown[:, b]), -products[:, a, b])
            covariance = np.linalg.inv(information)
            pull = np.bincount(winner, minlength=number) - np.bincount(shown.ravel(), p.ravel(), number)
            step = covariance @ (pull - value / prior**2)
            value = value + np.clip(step, -_LONGEST, _LONGEST)
            if np.abs(step).max() <= 1e-3:
                break
        covariance = centred(covariance)
        error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        last = ScaleFit(value - value.mean(), error, covariance, 0.0, prior, islands)
        return last

    return _with_fitted_prior(fit)


def _average_choice(value: Floats, covariance: Floats, shown: Indices, normal: Floats) -> tuple[Floats, Floats]:
    """Means of p (n, k) and p pᵀ (n, k, k) of each choice over the Gaussian of its values, by fixed draws."""
    parts = covariance[shown[:, :, None], shown[:, None, :]] + 1e-9 * np.eye(shown.shape[1])
    values = value[shown][:, None] + normal @ np.linalg.cholesky(parts).transpose(0, 2, 1)
    p = softmax(values, axis=2)
    return p.mean(axis=1), np.einsum("ndi,ndj->nij", p, p) / len(normal)


def rating_means(matrix: npt.ArrayLike) -> RatingMeans:
    """Mean rating of each image and its standard error from images × raters with gaps.

    The spread of ratings is pooled over images: of a few ratings, an image's own spread says little.
    """
    ratings = np.asarray(matrix, np.float64)
    count = np.sum(~np.isnan(ratings), axis=1)
    mean = np.divide(np.nansum(ratings, axis=1), count, out=np.full(len(ratings), np.nan), where=count > 0)
    squares = np.nansum((ratings - mean[:, None]) ** 2)
    freedom = count.sum() - np.count_nonzero(count)
    variance = squares / freedom if freedom > 0 and squares > 0 else np.nan
    error = np.sqrt(np.divide(variance, count, out=np.full(len(ratings), np.nan), where=count > 0))
    return RatingMeans(mean, error)


def _logistic_slope(difference: Floats, outcome: Indices, delta: float) -> Floats:
    """Derivative of each vote's log-likelihood by the difference of values, Bradley-Terry with ties: (…, votes)."""
    greater, similar, less = (outcome == kind for kind in (Order.GREATER, Order.SIMILAR, Order.LESS))
    if delta == 0:
        return np.asarray(greater - expit(difference))
    rising = greater - (greater | similar) * expit(difference - delta)
    return np.asarray(rising + similar - (similar | less) * expit(difference + delta))


def _averaged(
    slope: Callable[[Floats], Floats], i: Indices, j: Indices, value: Floats, covariance: Floats, prior: float,
    delta: float, islands: int,
) -> ScaleFit:  # fmt: skip
    """The Gaussian nearest to the posterior of the values (variational), from the mode and its covariance.

    Slope and curvature of the log-likelihood are averages over the difference d of each vote, not taken at one point;
    the curvature follows from the slope by Stein's lemma, E ℓ″ = E[ℓ′ z] / sd(d). With few votes the posterior is
    skewed: its mode is too near to zero, the prior estimated from modes is too narrow, and intervals miss.
    """
    nodes, shares = _NODES, _SHARES / _SHARES.sum()
    images = len(value)
    for _ in range(_STEPS):
        spread = np.sqrt(np.maximum(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j], 1e-12))
        slopes = slope(value[i] - value[j] + nodes[:, None] * spread)
        gradient, weight = shares @ slopes, -(shares * nodes) @ slopes / spread
        information = np.diag(np.bincount(i, weight, images) + np.bincount(j, weight, images) + prior**-2)
        np.add.at(information, (i, j), -weight)
        np.add.at(information, (j, i), -weight)
        covariance = np.linalg.inv(information)
        pull = np.bincount(i, gradient, images) - np.bincount(j, gradient, images) - value / prior**2
        step = covariance @ pull
        value = value + step
        if np.abs(step).max() <= 1e-3 * spread.min():
            break
    covariance = centred(covariance)
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return ScaleFit(value - value.mean(), error, covariance, delta, prior, islands)


def _with_fitted_prior(fit: Callable[[float], ScaleFit]) -> ScaleFit:
    """The fit whose prior agrees with its values: MacKay's fixed point σ² = Σ s² / γ, γ = n − 1 − Σ C_ii / σ².

    γ is how many values the votes determine. The error of σ is part of the errors of the values: its logarithm has a
    variance of about 1 / 2γ, and moves the values by ∂s/∂log σ (Kass and Steffey 1989).
    """
    prior, step = _FIRST_PRIOR, 0.0
    found = fit(prior)
    for _ in range(_ROUNDS):
        before, step = step, _next_prior(found) - np.log(prior)
        if abs(step) <= _CLOSE:
            break
        rate = step / before if before else 0.0
        jump = step / (1 - rate) if 0 < rate < _MOST_RATE else step  # where steps shrink evenly, their sum is known
        prior = float(np.clip(prior * np.exp(np.clip(jump, -1, 1)), *_PRIORS))
        found = fit(prior)
    moved = (fit(_NUDGE * prior).value - found.value) / np.log(_NUDGE)
    variance = np.diag(found.covariance) + np.square(moved) / (2 * max(_determined(found), 2.0))
    return found._replace(standard_error=np.sqrt(np.maximum(variance, 0.0)))


def _determined(found: ScaleFit) -> float:
    """How many values the votes determine: γ = n − 1 − Σ C_ii / σ²."""
    return len(found.value) - 1 - float(np.trace(found.covariance)) / found.prior**2


def _next_prior(found: ScaleFit) -> float:
    """The logarithm of the prior that the values suggest; that of the fit where the votes determine nothing."""
    freedom, squares = _determined(found), float(np.square(found.value).sum())
    if freedom <= 1e-6 or squares == 0:
        return float(np.log(found.prior))
    return float(np.log(np.clip(np.sqrt(squares / freedom), *_PRIORS)))
