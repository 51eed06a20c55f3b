"""Replicates by moments are those of resampled images, and methods on the same images share them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from uol.ratings import metrics
from uol.runs.bootstrap import draws, interval, mean_of, paired, replicated


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(8, 60), st.floats(-50, 50), st.floats(0.05, 20), st.integers(0, 1000))
def test_moments_give_what_resampling_gives(images, middle, spread, seed):
    rng = np.random.default_rng(seed)
    truth = middle + spread * rng.normal(size=images)
    predicted = truth + 0.5 * spread * rng.normal(size=images)
    weights = draws("data", "fold-1", images, 30)
    found = replicated(truth, predicted, weights)
    for b, row in enumerate(weights):
        chosen = np.repeat(np.arange(images), row.astype(int))
        if found.pc is not None:
            assert found.pc[b] == pytest.approx(metrics.pearson(truth[chosen], predicted[chosen]), abs=2e-5)
        assert found.mae[b] == pytest.approx(metrics.mae(truth[chosen], predicted[chosen]), abs=2e-5)
        assert found.rmse[b] == pytest.approx(metrics.rmse(truth[chosen], predicted[chosen]), abs=2e-5)


def test_draws_follow_from_data_split_and_number_alone():
    first = draws("data", "fold-1", 40)
    assert first.shape == (500, 40)
    assert (first.sum(1) == 40).all()
    assert np.array_equal(first, draws("data", "fold-1", 40))
    for other in (("other", "fold-1"), ("data", "fold-2")):
        assert not np.array_equal(first, draws(*other, 40))
    assert first[0, :12].tolist() == [0, 1, 1, 0, 0, 2, 0, 1, 1, 0, 1, 1]  # for good: results at hand were drawn so


def test_an_undefined_correlation_is_none():
    weights = draws("data", "fold-1", 20)
    constant = replicated(np.linspace(1, 5, 20), np.full(20, 3.1), weights)
    assert constant.pc is None
    assert len(constant.mae) == len(constant.rmse) == 500
    rare = replicated(
        np.eye(20)[0], np.linspace(1, 5, 20), weights
    )  # a third of the replicates miss the one that differs
    assert rare.pc is None


@pytest.mark.slow
def test_the_interval_covers_as_often_as_it_says():
    """Of 200 samples of 150 images, about 95 % of the intervals hold the true correlation, 0.8."""
    rng = np.random.default_rng(0)
    held = 0
    for sample in range(200):
        truth = rng.normal(size=150)
        predicted = 0.8 * truth + 0.6 * rng.normal(size=150)
        low, high = interval(replicated(truth, predicted, draws(str(sample), "", 150)).pc)
        held += low <= 0.8 <= high
    assert 0.89 <= held / 200 <= 0.99


def test_folds_and_pairs():
    assert mean_of([[1.0, 2.0], [3.0, 6.0]]).tolist() == [2.0, 4.0]
    assert mean_of([[1.0, 2.0], None]) is None
    assert mean_of([[1.0], [1.0, 2.0]]) is None
    assert mean_of([]) is None
    gaps = np.linspace(-1, 3, 401)
    found = paired(2.0, 1.0, gaps, np.zeros(401))
    assert (found.difference, found.low, found.high) == (1.0, pytest.approx(-0.9), pytest.approx(2.9))
    assert found.p == pytest.approx(2 * 102 / 402)
    assert paired(1.0, 0.0, np.ones(500), np.zeros(500)).p == 2 / 501
    assert paired(0.0, 0.0, np.zeros(500), np.zeros(500)).p == 1


def test_pairs_are_sharper_than_their_ends():
    """Two methods that err alike: the interval of their difference is far narrower than either's own."""
    rng = np.random.default_rng(1)
    truth = rng.normal(size=300)
    shared = truth + 0.4 * rng.normal(size=300)
    weights = draws("data", "fold-1", 300)
    one = np.array(replicated(truth, shared, weights).pc)
    two = np.array(replicated(truth, shared + 0.1 * rng.normal(size=300), weights).pc)
    gap = paired(0, 0, one, two)
    assert gap.high - gap.low < np.subtract(*interval(one)[::-1]) / 2
