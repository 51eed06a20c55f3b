"""Which pairs are shown: balanced rounds, information by brute force, connected batches, the same from the same log."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from examples import examples
from planned_study import answer, study_of
from uol.order.order import Order
from uol.ratings.numerics import connected_sets
from uol.study import pairs
from uol.study.pairs import adaptive_pairs, batch, fisher_weight, information_gain, round_robin
from uol.study.simulate import draw_values, simulate_answers
from uol.study.trials import choose_sets

NOBODY = np.empty((0, 2), np.intp)


@given(st.integers(2, 25), st.integers(0, 2**31))
@settings(max_examples=examples(60), deadline=None)
def test_rounds_have_every_pair_once_and_every_image_in_turn(images, seed):
    found = round_robin(images, np.random.default_rng(seed))
    assert {frozenset(pair) for pair in found} == {frozenset(pair) for pair in combinations(range(images), 2)}
    assert len(found) == images * (images - 1) // 2
    counts = np.zeros(images, int)
    for place, pair in enumerate(found, 1):
        counts[list(pair)] += 1
        if place % (images // 2) == 0:
            assert np.ptp(counts) <= (1 if images % 2 == 0 else 2)
    assert len(set(connected_sets(np.array(found[:images]), images))) == 1 or images == 2


def votes(images, number, seed, ties=False):
    rng = np.random.default_rng(seed)
    first = rng.integers(images, size=number)
    second = (first + rng.integers(1, images, size=number)) % images
    outcome = rng.choice([0, 1, 2] if ties else [0, 2], size=number)
    return first, second, outcome


@given(st.integers(2, 12), st.integers(0, 40), st.integers(1, 30), st.integers(0, 1000), st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_batches_hold_each_pair_once_and_connect(images, number, wanted, seed, ties):
    shown = votes(images, number, seed, ties)
    found = batch(*shown, images, NOBODY, wanted, seed)
    every = images * (images - 1) // 2
    assert len(found) == min(wanted, every)
    assert len({frozenset(pair) for pair in found.tolist()}) == len(found)
    before = np.stack(shown[:2], 1)
    missing = len(set(connected_sets(before, images))) - 1
    joined = np.concatenate([before, found])
    if wanted >= images + missing:
        assert len(set(connected_sets(joined, images))) == 1
    np.testing.assert_array_equal(found, batch(*shown, images, NOBODY, wanted, seed))


@pytest.mark.parametrize("delta", [0.0, 0.7])
def test_information_is_that_of_the_slow_integral(delta):
    mean = np.array([0.3, -0.8, 2.0])
    root = np.random.default_rng(1).normal(size=(3, 3))
    covariance = root @ root.T

    def outcome_probabilities(d):
        less, greater = expit(-d - delta), expit(d - delta)
        return np.array([less, 1 - less - greater, greater])

    def entropy(p):
        return -sum(x * np.log(x) for x in p if x > 0)

    for a, b in combinations(range(3), 2):
        m, sd = mean[a] - mean[b], np.sqrt(covariance[a, a] + covariance[b, b] - 2 * covariance[a, b])

        def average(of, m=m, sd=sd):
            return quad(lambda d: norm.pdf(d, m, sd) * of(d), m - 9 * sd, m + 9 * sd, limit=200)[0]

        whole = entropy([average(lambda d, k=k: outcome_probabilities(d)[k]) for k in range(3)])
        slow = whole - average(lambda d: entropy(outcome_probabilities(d)))
        fast = information_gain(mean, covariance, delta, np.array([[a, b]]))[0]
        assert fast == pytest.approx(slow, abs=2e-3)


def test_information_is_greatest_where_the_outcome_is_open():
    mean, covariance = np.array([0.0, 0.1, 4.0, 0.0]), np.diag([1.0, 1.0, 1.0, 0.01])
    near, far, sure = information_gain(mean, covariance, 0.0, np.array([[0, 1], [0, 2], [0, 3]]))
    assert near > sure > far


@pytest.mark.parametrize("delta", [0.0, 0.4, 1.5])
def test_weight_is_the_expected_curvature(delta):
    for d in (-2.0, 0.0, 0.7):

        def log_p(x):
            less, greater = expit(-x - delta), expit(x - delta)
            return np.log(np.array([less, max(1 - less - greater, 1e-300), greater]))

        h = 1e-4
        curvature = -(log_p(d + h) - 2 * log_p(d) + log_p(d - h)) / h**2
        p = np.exp(log_p(d))
        kept = p > 1e-200
        assert fisher_weight(d, delta) == pytest.approx(float((p * curvature)[kept].sum()), rel=1e-4)


def test_expected_votes_shrink_the_covariance_as_in_the_slow_inverse():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(5, 5))
    covariance, mean = root @ root.T + np.eye(5), rng.normal(size=5)
    chosen = np.array([[0, 1], [3, 2], [0, 1]])
    precision = np.linalg.inv(covariance)
    for a, b in chosen:
        x = np.zeros(5)
        x[a], x[b] = 1, -1
        precision += fisher_weight(mean[a] - mean[b], 0.3) * np.outer(x, x)
    np.testing.assert_allclose(pairs._expect(covariance, mean, 0.3, chosen), np.linalg.inv(precision), rtol=1e-9)


def test_a_tree_is_the_best_of_all_trees():
    rng = np.random.default_rng(3)
    every = np.array(list(combinations(range(5), 2)))
    gain = rng.random(len(every))
    joined = np.array([[0, 1], [1, 2], [2, 3], [3, 4]])
    tree = pairs._tree(every, gain, 5, joined, rng)
    by_pair = {frozenset(pair): value for pair, value in zip(every.tolist(), gain, strict=True)}

    def spans(chosen):
        return len(set(connected_sets(np.array(chosen), 5))) == 1

    best = max(
        sum(by_pair[frozenset(pair)] for pair in chosen) for chosen in combinations(every.tolist(), 4) if spans(chosen)
    )
    assert sum(by_pair[frozenset(pair)] for pair in tree.tolist()) == pytest.approx(best)
    order = [by_pair[frozenset(pair)] for pair in tree.tolist()]
    assert order == sorted(order, reverse=True)


def test_pairs_that_join_sets_come_first():
    every = np.array(list(combinations(range(4), 2)))
    gain = np.where((every < 2).all(1), 9.0, 1.0)  # 0 and 1 would say most, and are joined already
    tree = pairs._tree(every, gain, 4, np.array([[0, 1]]), np.random.default_rng(0))
    assert not any(set(pair) == {0, 1} for pair in tree[:2].tolist())


def test_pairs_that_others_judge_are_not_given_out_twice_at_once():
    study = study_of(30, trials=15, pairs={"choice": "adaptive"})
    answers = simulate_answers(study, draw_values(30, 1.0, np.random.default_rng(0)), 6)
    first = choose_sets(study, 6, answers)
    second = choose_sets(study, 7, answers, pending=first)
    both = {frozenset(pair) for pair in first} & {frozenset(pair) for pair in second}
    assert len(both) < 5
    assert choose_sets(study, 7, answers, pending=first) == second


def test_sides_are_balanced_by_the_log():
    study = study_of(12, trials=11, pairs={"choice": "adaptive"})
    answers = simulate_answers(study, np.linspace(-1, 1, 12), 30)
    left = np.bincount([study.places[one.images[0]] for one in answers], minlength=12)
    right = np.bincount([study.places[one.images[1]] for one in answers], minlength=12)
    assert np.abs(left - right).max() <= 3


def test_many_images_have_few_candidates():
    many = pairs._MOST_IMAGES + 10
    candidates = pairs._candidates(np.random.default_rng(0).normal(size=many), np.random.default_rng(1))
    assert len(candidates) < 70 * many
    assert len(set(connected_sets(candidates, many))) == 1
    assert (candidates[:, 0] < candidates[:, 1]).all()


def test_the_log_alone_decides():
    log = [answer((0, 1), 0, participant="a"), answer((2, 1), 1, participant="b"), answer((3, 4), "similar")]
    ids = tuple(f"i{k:03d}" for k in range(6))
    once = adaptive_pairs(ids, log, [], 12, 7)
    assert once == adaptive_pairs(ids, list(log), (), 12, 7)
    assert once != adaptive_pairs(ids, log, [], 12, 8)
    assert int(Order.SIMILAR) == 1
