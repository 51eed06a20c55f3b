"""Pairs and triplets against a literal, slow version of the paper's algorithms as they are evidently meant."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from uol.order.order import Order, balanced_pairs, hard_triplets, order_accuracy, order_of

THETA = 0.2


def slow_pairs(y, theta, limit, draws):
    """Algorithm 2 image by image, with the uniform numbers that the fast version draws."""
    M = len(y)
    partners = [[] for _ in range(M)]
    pairs, lacking = [], 1 / 3
    for i in range(M):
        step = 0
        while len(partners[i]) < limit:
            candidates = [j for j in range(M) if j != i and j not in partners[i] and len(partners[j]) < limit]
            if not candidates:
                break
            similar = [j for j in candidates if abs(y[i] - y[j]) <= theta + 1e-5]
            different = [j for j in candidates if j not in similar]
            share = min(max(lacking, 0), 1) if similar and different else float(bool(similar))
            weights = [share / len(similar) if j in similar else (1 - share) / len(different) for j in candidates]
            mark = draws[i, step] * sum(weights)
            j = candidates[next(place for place in range(len(weights)) if sum(weights[: place + 1]) > mark)]
            partners[i].append(j)
            partners[j].append(i)
            pairs.append((i, j))
            lacking += 1 / 3 - (j in similar)
            step += 1
    return pairs


def slow_triplets(y):
    """Algorithm 1 image by image, with the nearer of the two others second."""
    triplets = []
    for i in range(len(y)):
        m = (i + 1) % len(y)
        best, n = np.inf, None
        for j in range(len(y)):
            gap = abs(abs(y[i] - y[m]) - abs(y[i] - y[j]))
            if j not in (i, m) and 1e-5 < gap < best:
                best, n = gap, j
        if n is None:
            triplets.append(None)
        else:
            triplets.append((i, *sorted((m, n), key=lambda j: abs(y[i] - y[j]))))
    return triplets


def chosen(pairs, batch=()):
    """The valid pairs of a batch as a list."""
    return [
        (int(i), int(j))
        for i, j, valid in zip(pairs.first[batch], pairs.second[batch], pairs.valid[batch], strict=True)
        if valid
    ]


scores = (
    st.integers(1, 30)
    .flatmap(lambda n: st.lists(st.integers(60, 300), min_size=n, max_size=n))
    .map(lambda values: np.array(values) / 60)
)  # means of 60 ratings: ties and differences of exactly θ are common


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (3.0, 3.2, Order.SIMILAR),  # exactly θ apart counts as similar
        (3.2, 3.0, Order.SIMILAR),
        (3.366667, 3.166667, Order.SIMILAR),  # so it does after rounding to six decimals
        (3.0, 3.21, Order.LESS),
        (3.21, 3.0, Order.GREATER),
        (2.0, 2.0, Order.SIMILAR),
    ],
)
def test_order_of_scores(a, b, expected):
    assert order_of(a, b, THETA) == expected


@given(scores, st.integers(1, 9), st.integers(0, 5))
@settings(max_examples=examples(80), deadline=None)
def test_pairs_equal_the_literal_algorithm(y, limit, seed):
    pairs = balanced_pairs(y, THETA, limit, np.random.default_rng(seed))
    draws = np.random.default_rng(seed).random((1, len(y), limit))[0]
    assert chosen(pairs) == slow_pairs(y, THETA, limit, draws)


@given(scores, st.integers(1, 9))
@settings(max_examples=examples(60), deadline=None)
def test_pairs_are_lawful(y, limit):
    pairs = balanced_pairs(y, THETA, limit, np.random.default_rng(0))
    found = chosen(pairs)
    assert pairs.first.shape == (len(y) * limit // 2,)
    assert len({frozenset(pair) for pair in found}) == len(found)  # no pair twice, in either direction
    assert all(i != j for i, j in found)
    uses = np.bincount(np.array(found, int).ravel(), minlength=len(y))
    assert uses.max(initial=0) <= limit
    labels = pairs.order[pairs.valid]
    assert np.array_equal(labels, [order_of(y[i], y[j], THETA) for i, j in found])


def test_a_third_of_pairs_is_similar_and_images_are_used_equally():
    rng = np.random.default_rng(0)
    y = np.clip(rng.normal(3, 0.69, (200, 32)), 1, 5)
    pairs = balanced_pairs(y, THETA, 8, rng)
    at_random = (np.abs(y[:, :, None] - y[:, None]) <= THETA).mean() - 1 / 32
    similar = (pairs.order[pairs.valid] == Order.SIMILAR).mean()
    assert at_random < 0.2
    assert similar == pytest.approx(1 / 3, abs=0.03)
    uses = np.stack([np.bincount(np.array(chosen(pairs, b)).ravel(), minlength=32) for b in range(200)])
    assert uses.mean() > 7.9
    assert (uses == 8).mean() > 0.94
    direction = pairs.order[pairs.valid]
    assert (direction == Order.LESS).mean() == pytest.approx((direction == Order.GREATER).mean(), abs=0.02)


def test_batches_do_not_influence_each_other():
    y = np.random.default_rng(1).uniform(1, 5, (4, 12))
    together = balanced_pairs(y, THETA, 3, np.random.default_rng(2))
    draws = np.random.default_rng(2).random((4, 12, 3))
    for b in range(4):
        assert chosen(together, b) == slow_pairs(y[b], THETA, 3, draws[b])


def test_same_seed_same_pairs():
    y = np.random.default_rng(1).uniform(1, 5, (3, 20))
    first, second = (balanced_pairs(y, THETA, 4, np.random.default_rng(7)) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(("y", "count"), [([3.0], 0), ([3.0, 4.0], 1), ([3.0, 3.1, 5.0], 3)])
def test_tiny_batches(y, count):
    pairs = balanced_pairs(y, THETA, 8, np.random.default_rng(0))
    assert pairs.valid.sum() == count


def test_all_equal_scores_make_only_similar_pairs_and_no_triplet():
    pairs = balanced_pairs(np.full(10, 2.5), THETA, 4, np.random.default_rng(0))
    assert pairs.valid.sum() >= 18
    assert (pairs.order[pairs.valid] == Order.SIMILAR).all()
    assert not hard_triplets(np.full(10, 2.5)).valid.any()


def test_far_apart_scores_make_no_similar_pair():
    pairs = balanced_pairs(np.arange(10.0), THETA, 4, np.random.default_rng(0))
    assert (pairs.order[pairs.valid] != Order.SIMILAR).all()


def test_a_limit_below_one_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        balanced_pairs([1.0, 2.0], THETA, 0, np.random.default_rng(0))


@given(scores)
@settings(max_examples=examples(120), deadline=None)
def test_triplets_equal_the_literal_algorithm(y):
    found = hard_triplets(y)
    for i, expected in enumerate(slow_triplets(y)):
        assert found.valid[i] == (expected is not None)
        if expected is not None:
            anchor, near, far = found.anchor[i], found.near[i], found.far[i]
            assert anchor == i
            assert len({anchor, near, far}) == 3
            gaps = sorted(abs(y[i] - y[j]) for j in (near, far))
            assert gaps == pytest.approx(sorted(abs(y[i] - y[j]) for j in expected[1:]))
            assert abs(y[i] - y[near]) < abs(y[i] - y[far])


@pytest.mark.parametrize("n", [1, 2])
def test_fewer_than_three_images_have_no_triplet(n):
    assert not hard_triplets(np.arange(float(n))).valid.any()


def test_triplets_of_many_batches_at_once():
    y = np.random.default_rng(0).uniform(1, 5, (5, 16))
    together = hard_triplets(y)
    for b in range(5):
        alone = hard_triplets(y[b])
        assert all(np.array_equal(part[b], single) for part, single in zip(together, alone, strict=True))


def test_order_accuracy_is_the_share_of_all_pairs_in_the_same_order():
    random = np.random.default_rng(5)
    truth = np.round(random.uniform(1, 5, 1100), 2)
    predicted = truth + random.normal(0, 0.3, 1100)
    first, second = np.triu_indices(1100, 1)
    same = order_of(truth[first], truth[second], 0.2) == order_of(predicted[first], predicted[second], 0.2)
    assert order_accuracy(truth, predicted, 0.2) == same.mean()
