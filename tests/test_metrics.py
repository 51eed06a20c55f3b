"""Figures against numpy, scipy and loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from uol import metrics
from uol.order import order_of

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
    assert metrics.order_accuracy(TRUTH, PREDICTED, 0.2) == pytest.approx(np.mean(right))
    assert metrics.order_accuracy(TRUTH, TRUTH, 0.2) == 1
    assert math.isnan(metrics.order_accuracy([1.0], [1.0], 0.2))


def test_coverage_includes_the_ends():
    assert metrics.coverage([1, 2, 3, 4], [1, 1, 3.5, 2], [2, 2, 4, 3]) == 0.5
