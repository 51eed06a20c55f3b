"""Rows of scored files: one for each image or face, as `uol score --json` and `uol rank --json` print them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypedDict

from uol.images.framing import FaceRecord, FramedFile
from uol.scoring.base import Score, rank_with_ties

FIGURES = ("value", "low", "high", "dispersion")


class ScoreRow(TypedDict):
    """The score of an image or face; `face` is None for images taken whole, and figures are None if `error` is set."""

    image: str
    face: FaceRecord | None
    value: float | None
    low: float | None
    high: float | None
    dispersion: float | None
    error: str | None


class RankedRow(ScoreRow):
    """A row with its rank, None if it has no score."""

    rank: int | None
    tied: bool


def score_row(framed: FramedFile, score: Score | None) -> ScoreRow:
    """The row of a framed file."""
    return {
        "image": framed.image,
        "face": framed.face,
        "value": None if score is None else _known(score.value),
        "low": None if score is None else _known(score.low),
        "high": None if score is None else _known(score.high),
        "dispersion": None if score is None else _known(score.dispersion),
        "error": framed.error,
    }


def score_of(row: ScoreRow) -> Score:
    """The score in a row without an error; rows do not include the standard error."""
    value, low, high, dispersion = row["value"], row["low"], row["high"], row["dispersion"]
    if value is None or low is None or high is None:
        raise ValueError(f"{row['image']}: a row without a score")
    return Score(value, low, high, float("nan") if dispersion is None else dispersion, float("nan"))


def rank_rows(rows: Iterable[ScoreRow]) -> list[RankedRow]:
    """Rows from best to worst with their ranks; rows with an error come last."""
    rows = list(rows)
    scored = sorted((row for row in rows if row["error"] is None), key=lambda row: -score_of(row).value)
    ranks = rank_with_ties([score_of(row) for row in scored])
    count = Counter(ranks)
    ranked: list[RankedRow] = [
        {"rank": rank, "tied": count[rank] > 1, **row} for rank, row in zip(ranks, scored, strict=True)
    ]
    return ranked + [{"rank": None, "tied": False, **row} for row in rows if row["error"] is not None]


def _known(value: float) -> float | None:
    return value if value == value else None  # a hundredth of the time that np.isnan takes for a single value
