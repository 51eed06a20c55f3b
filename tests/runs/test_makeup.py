"""Pairs with and without make-up, on cases one can count."""

from __future__ import annotations

import pandas as pd
import pytest

from uol.errors import CallError, UolError
from uol.runs.makeup import BY_MAKEUP, BY_VOTES, Votes, makeup_order, makeup_pairs, read_votes

GROUPS = pd.DataFrame(
    [("001", "with", 1), ("001", "with", 2), ("001", "without", 1), ("002", "without", 2), ("002", "without", 1),
     ("002", "with", 1), ("003", "with", 1)],
    columns=["person", "makeup", "take"],
)  # fmt: skip
VALUES = [3.0, 1.0, 2.5, 4.0, 2.0, 2.5, 5.0]


def test_one_pair_per_person_of_first_takes_or_means():
    first = makeup_pairs(VALUES, GROUPS)
    assert first.to_dict("index") == {"001": {"with": 3.0, "without": 2.5}, "002": {"with": 2.5, "without": 2.0}}
    mean = makeup_pairs(VALUES, GROUPS, "mean")
    assert mean.to_dict("index") == {"001": {"with": 2.0, "without": 2.5}, "002": {"with": 2.5, "without": 3.0}}
    assert makeup_order(first) == (2, 2, BY_MAKEUP)
    assert makeup_order(mean).accuracy == 0


def test_votes_choose_pairs_and_answers():
    pairs = pd.DataFrame({"with": [3.0, 3.0, 3.0, 3.0, 3.0], "without": [2.0, 4.0, 2.0, 3.0, 2.0]}, index=list("abcde"))
    votes = {"a": Votes(7, 0), "b": Votes(1, 6), "c": Votes(0, 7), "d": Votes(6, 1), "e": Votes(5, 2), "f": Votes(7, 0)}
    assert makeup_order(pairs, votes) == (2, 4, BY_VOTES)  # c is wrong, d is a tie, on e too few agree
    assert makeup_order(pairs, votes, agreeing=4) == (3, 5, BY_VOTES)
    with pytest.raises(UolError, match="no pair"):
        makeup_order(pairs, {"a": Votes(4, 3)})


def test_votes_from_a_table(tmp_path):
    (tmp_path / "votes.csv").write_text("person,with,without\n001,6,1\n002,3,4\n")
    assert read_votes(tmp_path / "votes.csv") == {"001": Votes(6, 1), "002": Votes(3, 4)}
    (tmp_path / "votes.csv").write_text("person,yes,no\n001,6,1\n")
    with pytest.raises(CallError, match="columns person, with and without"):
        read_votes(tmp_path / "votes.csv")
    (tmp_path / "votes.csv").write_text("person,with,without\n001,6,\n")
    with pytest.raises(UolError, match="without its two numbers"):
        read_votes(tmp_path / "votes.csv")
