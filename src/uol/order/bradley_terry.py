"""Bradley-Terry with ties: from comparisons with references of known score to a score and its standard error.

An image of score s is judged against a reference of score r with cumulative logits (equation 11, read so that a higher
image score makes "greater" likelier):

    P(greater) = σ(k(s − r) − δ),   P(less) = σ(−k(s − r) − δ),   P(similar) = the rest.

With u = k(s − r) − δ and v = k(s − r) + δ the rest factorises, P(similar) = σ(−u)·σ(v)·(1 − e^(−2δ)), so that the
log-likelihood is a sum of log-sigmoids of linear functions: concave in s, and jointly concave in k and δ. Outcomes are
always seen from the image's side, as `Order` values (N, R) or as probabilities (N, R, 3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from uol.order.config import BradleyTerry as BradleyTerry
from uol.order.order import Order
from uol.ratings.numerics import Slopes, expit, log_expit, minimise

Floats = npt.NDArray[np.float64]

GRID = 256  # cells in which the score is bracketed before Newton's steps
STEEPEST = 500.0  # k times the score range stays below this, so that no exponential overflows
_DELTA = (1e-3, 50.0)
_ONE_THREAD, _COLUMNS = 2**18, 32  # multiplications that OpenBLAS leaves to one thread, and columns of such a piece
_CHUNK = 512  # images at a time: their arrays stay in the processor's cache


class Estimates(NamedTuple):
    """Scores of N images and their standard errors from the observed information, each (N,)."""

    value: Floats
    standard_error: Floats


def probabilities(difference: npt.ArrayLike, model: BradleyTerry) -> Floats:
    """P(less), P(similar), P(greater) for score differences s − r: (...,) → (..., 3).

    >>> probabilities([-1.0, 0.0, 1.0], BradleyTerry(k=4.0, delta=0.8)).round(2)
    array([[0.96, 0.03, 0.01],
           [0.31, 0.38, 0.31],
           [0.01, 0.03, 0.96]])
    """
    x = model.k * np.asarray(difference, np.float64)
    less, greater = expit(-x - model.delta), expit(x - model.delta)
    similar = expit(model.delta - x) * expit(model.delta + x) * -np.expm1(-2 * model.delta)
    return np.stack([less, similar, greater], -1)


def log_likelihood(
    scores: npt.ArrayLike, outcomes: npt.ArrayLike, references: npt.ArrayLike, model: BradleyTerry
) -> Floats:
    """Log-likelihood (equation 12) of candidate scores (G,) for the outcomes of one image, (R,) or (R, 3): (G,)."""
    p = _outcome_probabilities(np.asarray(outcomes)[None])[0]
    x = model.k * (np.asarray(scores, np.float64)[:, None] - np.asarray(references, np.float64))
    u, v = x - model.delta, x + model.delta
    return np.asarray(_log_likelihood_terms(u, v, p, model.delta).sum(-1))


def estimate(
    outcomes: npt.ArrayLike,
    references: npt.ArrayLike,
    model: BradleyTerry,
    bounds: tuple[float, float] | None = None,
    weights: npt.ArrayLike | None = None,
) -> Estimates:
    """The maximum-likelihood score of each image within `bounds`, by safeguarded Newton steps for all at once.

    An image that wins (loses) every comparison has its maximum at infinity: it gets the upper (lower) bound. Without
    `bounds` they are the references' range widened by a tenth on either side. Standard errors are at most the width
    of the bounds. `weights` (R,) or (N, R) count each comparison; 0 leaves it out.

    >>> references = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> answers = [[Order.GREATER, Order.GREATER, Order.SIMILAR, Order.LESS, Order.LESS]]
    >>> estimate(answers, references, BradleyTerry(k=4.0, delta=0.8)).value.round(2)
    array([3.])
    """
    r = np.asarray(references, np.float64)
    if r.size == 0:
        raise ValueError("at least one reference is needed")
    low, high = default_bounds(r) if bounds is None else bounds
    outcomes = np.asarray(outcomes)
    w = np.ones(r.size) if weights is None else np.asarray(weights, np.float64)
    w = np.broadcast_to(w, outcomes.shape[:2])
    value, error = np.empty(len(outcomes)), np.empty(len(outcomes))
    for start in range(0, len(outcomes), _CHUNK):
        rows = slice(start, start + _CHUNK)
        if outcomes.ndim == 3:
            not_less, not_greater = 1 - outcomes[rows, :, Order.LESS], 1 - outcomes[rows, :, Order.GREATER]
        else:
            not_less, not_greater = outcomes[rows] != Order.LESS, outcomes[rows] != Order.GREATER
        not_less, not_greater = w[rows] * not_less, w[rows] * not_greater
        value[rows], error[rows] = _maximise(not_less, not_greater, r, model, low, high)
    return Estimates(value, error)


def fit(outcomes: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike) -> BradleyTerry:
    """k and δ by maximum likelihood on comparisons of images with known scores: outcomes (n,) or (n, 3).

    The problem is concave. Where the outcomes follow the scores without a single error k has no maximum: it stops at
    500 divided by the range of the differences, and where they carry no information, near zero.
    """
    difference = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    span = float(np.abs(difference).max(initial=0))
    if span == 0:
        raise ValueError("k and δ need comparisons between images of different scores")
    p = _outcome_probabilities(np.asarray(outcomes)[None])[0]
    less, similar, greater = p[:, 0], p[:, 1], p[:, 2]
    d = difference / span

    def negative(parameters: Floats) -> Slopes:
        k, delta = parameters
        u, v = k * d - delta, k * d + delta
        up, down = expit(u), expit(v)
        by_u = greater - (greater + similar) * up
        by_v = similar - (similar + less) * down
        value = _log_likelihood_terms(u, v, p, delta).mean()
        by_delta = (by_v - by_u + similar * 2 / np.expm1(2 * delta)).mean()
        u_weight, v_weight = (greater + similar) * up * (1 - up), (similar + less) * down * (1 - down)
        both = u_weight + v_weight
        across = (d * (v_weight - u_weight)).mean()
        hessian = np.array([[(d**2 * both).mean(), across], [across, (both + similar / np.sinh(delta) ** 2).mean()]])
        return -value, -np.array([(d * (by_u + by_v)).mean(), by_delta]), hessian

    low, high = np.transpose([(1e-3, STEEPEST), _DELTA])
    found = minimise(negative, np.array([5.0, 1.0]), low, high)
    return BradleyTerry(float(found[0] / span), float(found[1]))


def default_bounds(references: npt.ArrayLike) -> tuple[float, float]:
    """The references' range, widened by a tenth of it on either side (by one half where all are equal)."""
    r = np.asarray(references, np.float64)
    low, high = float(r.min()), float(r.max())
    margin = 0.1 * (high - low) if high > low else 0.5
    return low - margin, high + margin


def _maximise(
    not_less: Floats, not_greater: Floats, r: Floats, model: BradleyTerry, low: float, high: float
) -> tuple[Floats, Floats]:
    """Root of the score function dL/ds = k·Σ[a·(1 − σ(u)) − b·σ(v)], which falls in s; a, b are (N, R)."""
    k = min(model.k, STEEPEST / (high - low))
    grid = np.linspace(low, high, GRID + 1)
    x = k * (grid[None] - r[:, None])
    slope = _product(not_less, expit(model.delta - x)) - _product(not_greater, expit(model.delta + x))  # falls along G
    inside = (slope[:, 0] > 0) & (slope[:, -1] < 0)
    cell = np.clip((slope > 0).sum(1) - 1, 0, GRID - 1)
    below, above = grid[cell], grid[cell + 1]
    rows = np.arange(len(cell))
    drop = slope[rows, cell] - slope[rows, cell + 1]
    start = below + (above - below) * slope[rows, cell] / np.where(drop > 0, drop, 1)
    s = np.where(inside, start, np.where(slope[:, 0] <= 0, low, high))
    # e^(−k(s − r)) is an outer product: the loop needs no exponentials of N·R elements.
    centre = 0.5 * (low + high)
    by_reference = np.exp(k * (r - centre))
    for _ in range(60):
        q = np.exp(-k * (s - centre))[:, None] * by_reference
        sigma_u = 1 / (1 + q * np.exp(model.delta))
        sigma_v = 1 / (1 + q * np.exp(-model.delta))
        rising = not_less * (1 - sigma_u)
        falling = not_greater * sigma_v
        gradient = k * (rising.sum(1) - falling.sum(1))
        information = k**2 * (
            np.einsum("nr,nr->n", rising, sigma_u) + falling.sum(1) - np.einsum("nr,nr->n", falling, sigma_v)
        )
        below = np.where(gradient > 0, s, below)
        above = np.where(gradient > 0, above, s)
        proposal = s + gradient / np.maximum(information, 1e-300)
        proposal = np.where((proposal >= below) & (proposal <= above), proposal, 0.5 * (below + above))
        moved = np.where(inside, proposal - s, 0.0)
        s = s + moved
        if np.abs(moved).max(initial=0) <= 1e-9 * (high - low):
            break
    error = 1 / np.sqrt(np.maximum(information, (high - low) ** -2.0))
    return s, error


def _product(left: Floats, right: Floats) -> Floats:
    """left @ right in pieces too small for OpenBLAS to share: its waiting threads take cores from those who decode."""
    product = np.empty((len(left), right.shape[1]))
    rows = max(1, _ONE_THREAD // (_COLUMNS * right.shape[0]))
    for row in range(0, len(left), rows):
        for column in range(0, right.shape[1], _COLUMNS):
            np.matmul(
                left[row : row + rows],
                right[:, column : column + _COLUMNS],
                out=product[row : row + rows, column : column + _COLUMNS],
            )
    return product


def _outcome_probabilities(outcomes: npt.NDArray[np.generic]) -> Floats:
    """Outcomes (N, R) as one-hot (N, R, 3); probabilities (N, R, 3) as they are."""
    if outcomes.ndim == 3:
        return outcomes.astype(np.float64, copy=False)
    return np.eye(3)[outcomes.astype(np.intp)]


def _log_likelihood_terms(u: Floats, v: Floats, p: Floats, delta: float) -> Floats:
    less, similar, greater = p[..., 0], p[..., 1], p[..., 2]
    tie = log_expit(-u) + log_expit(v) + np.log(-np.expm1(-2 * delta))
    return np.asarray(greater * log_expit(u) + similar * tie + less * log_expit(-v))
