"""Which pairs to show: every pair in balanced rounds, or those whose outcome is expected to say most.

Adaptive pairs follow ASAP (Mikhailiuk et al. 2020, Active sampling for pairwise comparisons via approximate message
passing and information gain maximization): the information gain of every pair, then a batch of pairs that is a minimum
spanning tree of its inverse, which keeps all images connected.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import entr

from uol.order.bradley_terry import BradleyTerry, probabilities
from uol.ratings.numerics import connected_sets
from uol.study.answers import Answer
from uol.study.scaling import bradley_terry
from uol.study.votes import votes_of

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

_OPENING = 2  # rounds of random pairs, which connect all images
_NODES = 9  # of the quadrature over a difference
_MOST_IMAGES = 1000  # above this, partners are images of near rank and some at random
_NEAR, _ANYWHERE = 40, 20


def round_robin(images: int, rng: np.random.Generator, most: int | None = None) -> list[tuple[int, int]]:
    """Every pair of images once, in rounds in which every image occurs once (one rests if their number is odd).

    The circle method on images in random order: after each round every image has been shown equally often, and two
    rounds connect all images. With `most`, only that many, the first.
    """
    seats = rng.permutation(images).tolist()
    seats += [-1] * (images % 2)  # the partner of the image that rests
    found: list[tuple[int, int]] = []
    for _ in range(len(seats) - 1):
        if most is not None and len(found) >= most:
            break
        pairs = [(seats[k], seats[-1 - k]) for k in range(len(seats) // 2)]
        found += [pairs[k] for k in rng.permutation(len(pairs)) if -1 not in pairs[k]]
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return found[:most]


def adaptive_pairs(
    ids: Sequence[str],
    answers: Sequence[Answer],
    pending: Sequence[tuple[str, ...]],
    number: int,
    seed: int,
) -> list[tuple[str, ...]]:
    """A batch of different pairs with the largest expected information, by ids in the places in which to show them.

    `answers` are the votes so far; `pending` are pairs that somebody is about to judge: their information is expected,
    not known. The same log gives the same batch. Pairs that join images which no chain of pairs joins yet come first.
    The image that was on the left more often goes to the right.
    """
    votes = votes_of(answers, ids)
    place = {name: row for row, name in enumerate(ids)}
    waiting = np.array([[place[name] for name in pair] for pair in pending], np.intp).reshape(-1, 2)
    shown = np.concatenate([np.stack([votes.first, votes.second], 1), waiting])
    chosen = batch(*votes[:3], len(ids), waiting, number, seed)
    rng = np.random.default_rng([seed, len(shown), 1])
    lean = np.bincount(shown[:, 0], minlength=len(ids)) - np.bincount(shown[:, 1], minlength=len(ids))
    found: list[tuple[str, ...]] = []
    for a, b in chosen.tolist():
        swap = lean[a] > lean[b] if lean[a] != lean[b] else bool(rng.integers(2))
        left, right = (b, a) if swap else (a, b)
        lean[left] += 1
        lean[right] -= 1
        found.append((ids[left], ids[right]))
    return found


def batch(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    outcome: npt.ArrayLike,
    images: int,
    pending: Indices,
    number: int,
    seed: int,
) -> Indices:
    """The next `number` pairs (number, 2), no pair twice: an opening, then trees of the largest expected information.

    The opening are rounds of random pairs, in which every image is shown equally often: before that, nothing is known
    that could be expected of a pair.
    """
    i, j = np.asarray(first, np.intp), np.asarray(second, np.intp)
    joined = np.concatenate([np.stack([i, j], 1), pending])
    number = min(number, images * (images - 1) // 2)
    rounds = round_robin(images, np.random.default_rng([seed, 0]), _OPENING * images // 2)
    found = _without(np.array(rounds, np.intp).reshape(-1, 2), joined, images)[:number]
    if len(found) == number:
        return found
    rng = np.random.default_rng([seed, len(i), len(pending)])
    mean, covariance, delta = _posterior(i, j, np.asarray(outcome), images)
    covariance = _expect(covariance, mean, delta, np.concatenate([pending, found]))
    joined = np.concatenate([joined, found])
    candidates = _without(_candidates(mean, rng), found, images)
    while len(found) < number:
        if not len(candidates):  # of many images, only near ones were candidates
            candidates = _without(np.stack(np.triu_indices(images, 1), 1), found, images)
        gain = information_gain(mean, covariance, delta, candidates)
        tree = _tree(candidates, gain, images, joined, rng)[: number - len(found)]
        found, joined = np.concatenate([found, tree]), np.concatenate([joined, tree])
        covariance = _expect(covariance, mean, delta, tree)
        candidates = _without(candidates, tree, images)
    return found


def information_gain(mean: Floats, covariance: Floats, delta: float, pairs: Indices) -> Floats:
    """Expected information, in nats, that a vote gives on the difference of two images: pairs (n, 2) → (n,).

    I = H(E p) − E H(p) over the difference d ~ N(m_i − m_j, S_ii + S_jj − 2 S_ij), by Gauss-Hermite quadrature; p are
    the probabilities of less, similar and greater.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    weights = weights / weights.sum()
    a, b = pairs[:, 0], pairs[:, 1]
    spread = np.sqrt(np.maximum(covariance[a, a] + covariance[b, b] - 2 * covariance[a, b], 0.0))
    model = BradleyTerry(1.0, delta)
    average, entropy = np.zeros((len(pairs), 3)), np.zeros(len(pairs))
    for node, weight in zip(nodes, weights, strict=True):
        p = probabilities(mean[a] - mean[b] + node * spread, model)
        average += weight * p
        entropy += weight * entr(p).sum(1)
    return np.asarray(np.maximum(entr(average).sum(1) - entropy, 0.0))


def _posterior(i: Indices, j: Indices, outcome: npt.NDArray[np.generic], images: int) -> tuple[Floats, Floats, float]:
    if not i.size:
        return np.zeros(images), np.eye(images), 0.0
    found = bradley_terry(i, j, outcome, images)
    return found.value, found.covariance, found.delta


def _expect(covariance: Floats, mean: Floats, delta: float, pairs: Indices) -> Floats:
    """The covariance after votes on these pairs, whatever their outcomes: S − w S x xᵀ S / (1 + w xᵀ S x) for each."""
    covariance = covariance.copy()
    difference = mean[pairs[:, 0]] - mean[pairs[:, 1]]
    for (a, b), weight in zip(pairs, fisher_weight(difference, delta), strict=True):
        column = covariance[:, a] - covariance[:, b]
        variance = column[a] - column[b]
        covariance -= np.outer(column, column) * (weight / (1 + weight * variance))
    return covariance


def fisher_weight(difference: npt.ArrayLike, delta: float) -> Floats:
    """Expected information of a vote on a difference, in logits: (n,); p(1 − p) if there are no ties."""
    p = probabilities(difference, BradleyTerry(1.0, delta))
    less, greater = p[..., 0], p[..., 2]
    slope_less, slope_greater = -less * (1 - less), greater * (1 - greater)
    slope_similar = -slope_less - slope_greater
    similar = np.divide(slope_similar**2, p[..., 1], out=np.zeros_like(less), where=p[..., 1] > 0)
    return np.asarray(less * (1 - less) ** 2 + greater * (1 - greater) ** 2 + similar)


def _tree(pairs: Indices, gain: Floats, images: int, joined: Indices, rng: np.random.Generator) -> Indices:
    """The spanning tree of the most informative pairs: first those that join separate sets, then by information."""
    order = rng.permutation(len(pairs))  # of equal pairs, any
    pairs, gain = pairs[order], np.round(gain[order], 9)
    ranks = np.empty(len(pairs))
    ranks[np.argsort(-gain, kind="stable")] = np.arange(1, len(pairs) + 1)  # a tree depends on the order alone
    sets = connected_sets(joined, images)
    ranks[sets[pairs[:, 0]] == sets[pairs[:, 1]]] += len(pairs)
    tree = minimum_spanning_tree(coo_array((ranks, (pairs[:, 0], pairs[:, 1])), shape=(images, images))).tocoo()
    best = np.argsort(tree.data)
    return np.stack([tree.row[best], tree.col[best]], 1).astype(np.intp)


def _candidates(mean: Floats, rng: np.random.Generator) -> Indices:
    """All pairs; of many images, those of near rank and some others."""
    images = len(mean)
    if images <= _MOST_IMAGES:
        return np.stack(np.triu_indices(images, 1), 1)
    ranked = np.argsort(mean + 1e-9 * rng.random(images))
    near = [np.stack([ranked[:-gap], ranked[gap:]], 1) for gap in range(1, _NEAR + 1)]
    others = np.stack([np.repeat(np.arange(images), _ANYWHERE), rng.integers(images, size=images * _ANYWHERE)], 1)
    pairs = np.concatenate([*near, others[others[:, 0] != others[:, 1]]])
    return np.unique(np.sort(pairs, 1), axis=0)


def _without(pairs: Indices, gone: Indices, images: int) -> Indices:
    low, high = np.sort(gone, 1).T
    ends = np.sort(pairs, 1)
    return pairs[~np.isin(ends[:, 0] * images + ends[:, 1], low * images + high)]
