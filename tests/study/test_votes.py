"""Answers as arrays."""

from __future__ import annotations

import numpy as np
import pytest

from planned_study import answer
from uol.errors import UolError
from uol.study.votes import choices_of, pairs_of_choices, ratings_of, votes_of

IDS = tuple(f"i{k:03d}" for k in range(6))


def test_votes_are_seen_from_the_left():
    votes = votes_of([answer((3, 1), 3, "a"), answer((0, 2), 2, "b"), answer((4, 5), "similar", "a")], IDS)
    np.testing.assert_array_equal(votes.first, [3, 0, 4])
    np.testing.assert_array_equal(votes.second, [1, 2, 5])
    np.testing.assert_array_equal(votes.outcome, [2, 0, 1])
    assert votes.participant == ("a", "b", "a")


def test_choices_and_their_pairs():
    choices = choices_of([answer((0, 1, 2, 3), 2, "a"), answer((5, 4, 1, 0), 5, "b")], IDS)
    np.testing.assert_array_equal(choices.best, [2, 0])
    pairs = pairs_of_choices(choices)
    found = list(zip(pairs.first.tolist(), pairs.second.tolist(), pairs.participant, strict=True))
    assert found == [(2, 0, "a"), (2, 1, "a"), (2, 3, "a"), (5, 4, "b"), (5, 1, "b"), (5, 0, "b")]
    assert set(pairs.outcome) == {2}


def test_nothing_answered():
    assert len(votes_of([], IDS).outcome) == 0
    assert len(pairs_of_choices(choices_of([], IDS)).outcome) == 0
    with pytest.raises(UolError):
        ratings_of([])


def test_ratings():
    ratings = ratings_of([answer((1,), 3, "a"), answer((1,), 5, "b"), answer((0,), 2, "a")])
    assert (ratings.images, ratings.raters) == (("i001", "i000"), ("a", "b"))
    np.testing.assert_array_equal(ratings.matrix, [[3, 5], [2, np.nan]])
