"""Figures against numpy, scipy and loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from uol.order.order import order_accuracy, order_of
from uol.ratings import metrics

rng = np.random.default_rng(0)
TRUTH = np.round(rng.uniform(1, 5, 60), 1)
PREDICTED = np.round(TRUTH + rng.normal(0, 0.4, 60), 1)


def test_correlations():
    assert metrics.pearson(TRUTH, PREDICTED) == pytest.approx(stats.pearsonr(TRUTH, PREDICTED).statistic)
    assert metrics.spearman(TRUTH, PREDICTED) == pytest.approx(stats.spearmanr(TRUTH, PREDICTED).statistic)
    assert math.isnan(metrics.pearson(TRUTH, np.ones(60)))
    assert math.isnan(metrics.pearson(np.arange(7), np.full(7, 0.1)))  # whose mean is not exactly 0.1
    assert math.isnan(metrics.spearman(TRUTH, np.ones(60)))


def test_errors():
    assert metrics.mae([1, 2, 4], [1, 3, 1]) == pytest.approx(4 / 3)
    assert metrics.rmse([1, 2, 4], [1, 3, 1]) == pytest.approx(math.sqrt(10 / 3))
    sd = TRUTH.std()
    assert metrics.rmse(TRUTH, PREDICTED) >= sd * math.sqrt(1 - metrics.pearson(TRUTH, PREDICTED) ** 2)


def test_order_accuracy_counts_pairs():
    right = [
        order_of(TRUTH[i], TRUTH[j], 0.2) == order_of(PREDICTED[i], PREDICTED[j], 0.2)
        for i in range(60)
        for j in range(i + 1, 60)
    ]
    assert order_accuracy(TRUTH, PREDICTED, 0.2) == pytest.approx(np.mean(right))
    assert order_accuracy(TRUTH, TRUTH, 0.2) == 1
    assert math.isnan(order_accuracy([1.0], [1.0], 0.2))


def test_coverage_includes_the_ends():
    assert metrics.coverage([1, 2, 3, 4], [1, 1, 3.5, 2], [2, 2, 4, 3]) == 0.5


def test_intervals_of_correlations_are_those_of_scipy_and_hold_as_often_as_they_say():
    found = stats.pearsonr(TRUTH, PREDICTED)
    assert metrics.pearson_interval(found.statistic, 57) == pytest.approx(tuple(found.confidence_interval(0.95)))
    assert metrics.pearson_interval(0.5, 0) is metrics.pearson_interval(1.0, 50) is None
    assert metrics.pearson_interval(math.nan, 50) is metrics.pearson_gap(math.nan, 50, 0.5, 50) is None
    draw = np.random.default_rng(1)
    held = 0
    for _ in range(1000):
        pcs = []
        for pc, n in ((0.8, 40), (0.9, 120)):
            a, b = draw.normal(size=(2, n))
            pcs += [metrics.pearson(a, pc * a + math.sqrt(1 - pc**2) * b), n - 3]
        low, high = metrics.pearson_gap(*pcs)
        held += low <= -0.1 <= high
    assert held / 1000 == pytest.approx(0.95, abs=0.02)


@given(st.integers(1, 200), st.data())
def test_the_interval_of_a_share_is_scipys(n, data):
    right = data.draw(st.integers(0, n))
    wanted = stats.binomtest(right, n).proportion_ci(method="wilson")
    assert metrics.share_interval(right / n, n) == pytest.approx((wanted.low, wanted.high), abs=1e-6)
