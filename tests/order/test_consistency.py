"""The maximum-consistency rule against a loop over candidates and references."""

from __future__ import annotations

import numpy as np
import pytest

from uol.order.consistency import estimate_by_consistency
from uol.order.order import Order, order_of

BOUNDS = (1.0, 5.0)


def slow(outcomes, references, theta):
    candidates = np.linspace(1, 5, 401)
    votes = [sum(order_of(c, r, theta) == o for r, o in zip(references, outcomes, strict=True)) for c in candidates]
    return np.mean([c for c, v in zip(candidates, votes, strict=True) if v == max(votes)])


def test_equals_the_loop():
    rng = np.random.default_rng(0)
    references = np.round(rng.uniform(1, 5, 12), 2)
    outcomes = rng.integers(0, 3, (6, 12))
    found = estimate_by_consistency(outcomes, references, 0.2, BOUNDS)
    assert found == pytest.approx([slow(row, references, 0.2) for row in outcomes])


def test_faultless_comparisons_give_the_score_back():
    references = np.linspace(1, 5, 41)
    scores = np.array([1.45, 2.95, 4.33])
    found = estimate_by_consistency(order_of(scores[:, None], references, 0.2), references, 0.2, BOUNDS)
    assert found == pytest.approx(scores, abs=0.06)


def test_probabilities_vote_in_parts():
    references = np.linspace(1, 5, 41)
    outcomes = order_of(np.array([[3.3]]), references, 0.2)
    soft = estimate_by_consistency(np.eye(3)[outcomes] * 0.8 + 0.2 / 3, references, 0.2, BOUNDS)
    assert soft == pytest.approx(estimate_by_consistency(outcomes, references, 0.2, BOUNDS))


def test_a_gap_among_references_hides_the_scores_inside_it():
    references = np.r_[np.linspace(1, 2, 11), np.linspace(4, 5, 11)]
    scores = np.array([2.5, 3.0, 3.5])
    outcomes = order_of(scores[:, None], references, 0.2)
    assert (outcomes == outcomes[0]).all()  # nothing tells the three apart
    found = estimate_by_consistency(outcomes, references, 0.2, BOUNDS)
    assert np.ptp(found) == 0
    assert Order.SIMILAR not in outcomes
