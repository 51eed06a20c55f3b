"""Pairs of photographs with and without make-up: how often a method orders them as people do."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.datasets.tables import find_column, numbers, read_table, texts
from uol.errors import CallError, UolError

Takes = Literal["first", "mean"]

GREY_FERET = "feret-gray"  # a small derivative of FERET, cropped so tightly that no face is found: shown whole
BY_MAKEUP = "with make-up"
BY_VOTES = "majority of votes"
AGREEING = 5  # of seven voters: a pair counts where more than these agree


class Votes(NamedTuple):
    """How many voters preferred the photograph with make-up, and how many the one without."""

    with_makeup: int
    without: int


class Ordered(NamedTuple):
    """How many of the pairs a method orders as the answer says, and where the answers come from."""

    right: int
    pairs: int
    answer: str

    @property
    def accuracy(self) -> float:
        """The share of right pairs."""
        return self.right / self.pairs


def makeup_pairs(values: npt.ArrayLike, groups: pd.DataFrame, takes: Takes = "first") -> pd.DataFrame:
    """Scores of people who have both photographs: index person, columns `with` and `without`.

    Of several photographs of one side the first take counts, or with "mean" their mean score.
    """
    table = groups[["person", "makeup", "take"]].assign(value=np.asarray(values, np.float64))
    sides = table.sort_values("take", kind="stable").groupby(["person", "makeup"])["value"]
    scores = sides.first() if takes == "first" else sides.mean()
    return scores.unstack("makeup").reindex(columns=["with", "without"]).dropna().sort_index()


def makeup_order(pairs: pd.DataFrame, votes: Mapping[str, Votes] | None = None, agreeing: int = AGREEING) -> Ordered:
    """How many pairs are in the right order; a tie is wrong.

    With votes, the pairs count on which more than `agreeing` voters agree, and the majority is right; without, all
    pairs count and the photograph with make-up is taken to be the one preferred.
    """
    gap = pairs["with"] - pairs["without"]
    if votes is None:
        right, counted, answer = int((gap > 0).sum()), len(gap), BY_MAKEUP
    else:
        sides = {p: 1 if v.with_makeup > v.without else -1 for p, v in votes.items() if max(v) > agreeing}
        used = [person for person in gap.index if person in sides]
        right, counted = sum(bool(gap[person] * sides[person] > 0) for person in used), len(used)
        answer = BY_VOTES
    if counted == 0:
        raise UolError("no pair of photographs with and without make-up that voters agree on")
    return Ordered(right, counted, answer)


def read_votes(path: str | os.PathLike[str]) -> dict[str, Votes]:
    """Votes by person, from a table with columns person, with and without (numbers of voters)."""
    table = read_table(path)
    columns = [find_column(table, None, (name,), name) for name in ("person", "with", "without")]
    if None in columns:
        raise CallError(f"{path}: votes are a table with columns person, with and without")
    person, with_makeup, without = (table[column] for column in columns)
    counts = zip(texts(person), numbers(with_makeup, str(path)), numbers(without, str(path)), strict=True)
    found: dict[str, Votes] = {}
    for name, yes, no in counts:
        if not name or not (math.isfinite(yes) and math.isfinite(no)):
            raise UolError(f"{path}: a row without a person or without its two numbers of votes")
        found[name] = Votes(round(yes), round(no))
    return found
