"""The ternary order of scored images, and which images of a batch are compared: pairs and triplets.

Scores come as (..., M): one row per batch. All batches of an epoch are planned in one call, ahead of the epoch, so
the sequential choice of Algorithm 2 loops over the M images of a batch but never over batches.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

TOLERANCE = 1e-5
"""Score differences nearer than this to a threshold count as on it: scores are means, printed with six decimals,
and a difference of exactly θ must be "similar" whatever the rounding."""

_ROWS = 512  # images whose pairs with all others are compared at once


class Order(IntEnum):
    """How the first image of a pair stands to the second; also the index of the comparator's outputs."""

    LESS = 0
    SIMILAR = 1
    GREATER = 2


class Pairs(NamedTuple):
    """P places for pairs in each batch; `valid` is False where a place stayed empty."""

    first: Integers
    second: Integers
    order: Integers
    valid: Booleans


class Triplets(NamedTuple):
    """One triplet per image of each batch: `near` is nearer to `anchor` in score than `far`, where `valid`."""

    anchor: Integers
    near: Integers
    far: Integers
    valid: Booleans


def order_of(first: npt.ArrayLike, second: npt.ArrayLike, threshold: float) -> Integers:
    """The order of two scores: SIMILAR where |y₁ − y₂| ≤ θ, else LESS or GREATER (equation 1).

    >>> order_of([1.0, 3.0, 4.5], 3.1, threshold=0.2)
    array([0, 1, 2])
    """
    difference = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    similar = np.abs(difference) <= threshold + TOLERANCE
    return np.where(similar, Order.SIMILAR, np.where(difference < 0, Order.LESS, Order.GREATER)).astype(np.int64)


def order_accuracy(truth: npt.ArrayLike, predicted: npt.ArrayLike, threshold: float) -> float:
    """Share of all pairs whose predicted scores stand in the right ternary order; NaN for a single image.

    >>> order_accuracy([1, 2, 3], [1.1, 2.9, 2.0], threshold=0.2) == 2 / 3
    True
    """
    sides = np.asarray(truth, np.float64), np.asarray(predicted, np.float64)
    count, right = len(sides[0]), 0
    for start in range(0, count, _ROWS):
        first, second = np.triu_indices(min(_ROWS, count - start), 1 + start, count)
        orders = [order_of(values[start + first], values[second], threshold) for values in sides]
        right += int((orders[0] == orders[1]).sum())
    pairs = count * (count - 1) // 2
    return right / pairs if pairs else float("nan")


def balanced_pairs(scores: npt.ArrayLike, threshold: float, limit: int, rng: np.random.Generator) -> Pairs:
    """Choose pairs within each batch, a third of them "similar" where the scores allow (Algorithm 2).

    Image by image, partners are drawn until the image is in `limit` pairs: a "similar" partner with probability 1/3, a
    different one with 2/3, each equally likely within its kind; where one kind is exhausted, the other takes all. Since
    the exhausted kind is nearly always "similar", fixed probabilities would end near a quarter: the probability of
    "similar" therefore follows what is missing in the batch, (pairs + 1)/3 − similar pairs so far, kept within [0, 1].
    No pair is chosen twice and no image is in more than `limit` pairs. Batches of one image have no pairs.

    scores (..., M) → arrays (..., ⌊M · limit / 2⌋), the most pairs there can be; the valid ones come first.

    >>> pairs = balanced_pairs([1.0, 1.1, 3.0, 4.5], threshold=0.2, limit=2, rng=np.random.default_rng(0))
    >>> pairs.first.shape  # ⌊4 images · 2 pairs / 2⌋ places
    (4,)
    """
    scores = np.asarray(scores, np.float64)
    if limit < 1:
        raise ValueError("limit must be at least 1")
    M = scores.shape[-1]
    flat = scores.reshape(-1, M)
    draws = rng.random((len(flat), M, limit))
    batch = np.arange(len(flat))
    open_to = np.tile(~np.eye(M, dtype=bool), (len(flat), 1, 1))  # not yet paired with each other
    uses = np.zeros((len(flat), M), np.int64)
    lacking = np.full(len(flat), 1 / 3)
    second = np.zeros((len(flat), M, limit), np.int64)
    valid = np.zeros((len(flat), M, limit), bool)
    for i in range(M):
        similar = np.abs(flat - flat[:, i : i + 1]) <= threshold + TOLERANCE
        for step in range(limit):
            candidates = open_to[:, i] & (uses < limit) & (uses[:, i : i + 1] < limit)
            partner, found = _draw_partner(candidates, similar, lacking, draws[:, i, step])
            lacking += found * (1 / 3 - similar[batch, partner])
            second[:, i, step] = partner
            valid[:, i, step] = found
            rows, partners = batch[found], partner[found]
            open_to[rows, i, partners] = open_to[rows, partners, i] = False
            uses[rows, i] += 1
            uses[rows, partners] += 1
    first = np.broadcast_to(np.arange(M)[:, None], second.shape)
    label = order_of(flat[batch[:, None, None], first], flat[batch[:, None, None], second], threshold)
    places = np.argsort(~valid.reshape(len(flat), -1), axis=-1, kind="stable")[:, : M * limit // 2]

    def packed(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        chosen = np.take_along_axis(values.reshape(len(flat), -1), places, -1)
        return chosen.reshape(*scores.shape[:-1], -1)

    return Pairs(packed(first), packed(second), packed(label), packed(valid))


def _draw_partner(candidates: Booleans, similar: Booleans, lacking: Floats, draw: Floats) -> tuple[Integers, Booleans]:
    """Draw one candidate per batch by inverting the cumulative probabilities at `draw` in [0, 1)."""
    alike, different = candidates & similar, candidates & ~similar
    n_alike, n_different = alike.sum(-1), different.sum(-1)
    share = np.where(n_different == 0, 1.0, np.where(n_alike == 0, 0.0, np.clip(lacking, 0, 1)))
    weight = alike * (share / np.maximum(n_alike, 1))[:, None]
    weight += different * ((1 - share) / np.maximum(n_different, 1))[:, None]
    cumulative = weight.cumsum(-1)
    partner = (cumulative <= (draw * cumulative[:, -1])[:, None]).sum(-1)
    return np.minimum(partner, candidates.shape[-1] - 1), n_alike + n_different > 0


def hard_triplets(scores: npt.ArrayLike) -> Triplets:
    """Choose one hard triplet per image of each batch (Algorithm 1).

    Image i is compared with its neighbour i + 1 and with the third image whose score distance to i differs least, but
    does differ, from the neighbour's. The nearer of the two is `near`. Where no such third image exists (fewer than
    three images, or all distances equal) the triplet is not valid.

    scores (..., M) → arrays (..., M).

    >>> triplets = hard_triplets([1.0, 2.0, 4.0])
    >>> triplets.near, triplets.far
    (array([1, 0, 1]), array([2, 2, 0]))
    """
    scores = np.asarray(scores, np.float64)
    M = scores.shape[-1]
    anchor = np.broadcast_to(np.arange(M), scores.shape)
    neighbour = (anchor + 1) % M
    distance = np.abs(scores[..., :, None] - scores[..., None, :])
    to_neighbour = np.take_along_axis(distance, neighbour[..., None], -1)[..., 0]
    gap = np.abs(distance - to_neighbour[..., None])
    excluded = (gap <= TOLERANCE) | np.eye(M, dtype=bool) | (np.arange(M) == neighbour[..., None])
    gap = np.where(excluded, np.inf, gap)
    third = gap.argmin(-1)
    valid = np.isfinite(gap.min(-1))
    third_is_near = np.take_along_axis(distance, third[..., None], -1)[..., 0] < to_neighbour
    near = np.where(third_is_near, third, neighbour)
    far = np.where(third_is_near, neighbour, third)
    return Triplets(anchor.copy(), near, far, valid)
