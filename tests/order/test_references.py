"""Which images become references."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from uol.errors import CallError
from uol.order.references import choose_balanced_references, choose_references


@given(st.lists(st.integers(-180, 600), min_size=1, max_size=300), st.integers(1, 12))
@settings(max_examples=examples(50), deadline=None)
def test_each_bin_gives_what_it_has_up_to_the_limit(values, per_bin):
    scores = np.array(values) / 60
    chosen = choose_references(scores, 0.1, per_bin)
    assert len(set(chosen)) == len(chosen)
    assert (np.diff(chosen) > 0).all()
    bins = [int(np.floor(value / 6)) for value in values]  # of sixtieths, in whole numbers: no rounding
    for name in set(bins):
        members = {i for i, b in enumerate(bins) if b == name}
        assert len(members & set(chosen)) == min(len(members), per_bin)


def test_seeded():
    scores = np.random.default_rng(0).uniform(1, 5, 2000)
    assert np.array_equal(choose_references(scores, seed=3), choose_references(scores, seed=3))
    assert not np.array_equal(choose_references(scores, seed=3), choose_references(scores, seed=4))


@pytest.mark.parametrize(("low", "high", "width"), [(1, 5, 0.1), (-3, 3, 0.15), (0, 100, 2.5)])
def test_any_range_of_scores(low, high, width):
    scores = np.random.default_rng(0).uniform(low, high, 4000)
    assert len(choose_references(scores, width, 10)) == pytest.approx(400, abs=10)


def test_a_score_on_the_edge_of_a_bin_belongs_to_the_bin_above():
    assert 3.3 / 0.1 < 33  # as computed
    assert len(choose_references([3.3, 3.35], 0.1, per_bin=1)) == 1


def test_balanced_references_have_no_gap_and_as_many_of_each_bin():
    scores = np.repeat([1.05, 1.15, 1.45, 1.55, 1.65, 1.75, 1.95], [9, 9, 5, 7, 3, 2, 9])
    assert sorted(scores[choose_balanced_references(scores, 0.1, 3)]) == [1.45] * 3 + [1.55] * 3 + [1.65] * 3
    assert sorted(scores[choose_balanced_references(scores, 0.1, 5)]) == [1.05] * 5 + [1.15] * 5
    with pytest.raises(CallError, match="no bin of 0.1 has 10 images"):
        choose_balanced_references(scores, 0.1, 10)
