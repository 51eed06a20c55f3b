"""What a model says: scores, comparisons and rankings. Nothing here needs a network to be loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from uol.images.read import ImageLike


@dataclass(frozen=True)
class Score:
    """What the panel would say of one image: its mean score, an interval for it, and how widely raters would differ.

    `low` and `high` hold the panel's mean with the calibrated level (95 %); `dispersion` is the expected standard
    deviation of single ratings; `standard_error` is the likelihood's own, before calibration.
    """

    value: float
    low: float
    high: float
    dispersion: float
    standard_error: float


@dataclass(frozen=True)
class EnsembleScore(Score):
    """What the panel would say of one image by the mean of several models; `disagreement` is their deviation.

    It is told in the panel's units, and is no part of the interval.
    """

    disagreement: float


class Comparison(NamedTuple):
    """How the first of two images stands to the second; the three probabilities sum to 1."""

    less: float
    similar: float
    greater: float


@dataclass(frozen=True)
class Ranked:
    """One place in a ranking: images whose interval overlaps that of the best of their rank share the rank."""

    rank: int
    index: int
    image: ImageLike
    score: Score
    tied: bool


def rank_with_ties(scores: Sequence[Score]) -> list[int]:
    """Competition ranks (1, 1, 3, …) of scores sorted from best to worst, tied while intervals overlap the leader's."""
    ranks: list[int] = []
    leader = 0
    for place, score in enumerate(scores):
        if score.high < scores[leader].low:
            leader = place
        ranks.append(leader + 1)
    return ranks
