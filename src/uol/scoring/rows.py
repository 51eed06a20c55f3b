"""Rows of scored files: one for each image or face, as `uol score --json` and `uol rank --json` print them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NotRequired, TypedDict

from uol.images.framing import FaceRecord, FramedFile
from uol.scoring.base import NO_NUMBER, Score, rank_with_ties

FIGURES = ("value", "low", "high", "dispersion")


class PanelFigures(TypedDict):
    """The score of an image or face on one panel's scale; figures are None if there is no score."""

    value: float | None
    low: float | None
    high: float | None
    dispersion: float | None


class ScoreRow(TypedDict):
    """The score of an image or face; `face` is None for images taken whole, and figures are None if `error` is set.

    `panels` has the score on the scale of each panel, by name, if all were asked for; the figures are the first's.
    """

    image: str
    face: FaceRecord | None
    value: float | None
    low: float | None
    high: float | None
    dispersion: float | None
    error: str | None
    panels: NotRequired[dict[str, PanelFigures]]


class RankedRow(ScoreRow):
    """A row with its rank, None if it has no score."""

    rank: int | None
    tied: bool


def score_row(framed: FramedFile, score: Score | None) -> ScoreRow:
    """The row of a framed file."""
    figures = figures_of(score)
    return {
        "image": framed.image,
        "face": framed.face,
        "value": figures["value"],
        "low": figures["low"],
        "high": figures["high"],
        "dispersion": figures["dispersion"],
        "error": framed.error if score is None or score.known else f"{framed.image}: {NO_NUMBER}",
    }


def panels_row(framed: FramedFile, scores: Mapping[str, Score | None]) -> ScoreRow:
    """The row of a framed file with its scores on the scales of several panels, the first first."""
    row = score_row(framed, next(iter(scores.values())))
    if not all(score is None or score.known for score in scores.values()):
        row = {**row, **figures_of(None), "error": f"{framed.image}: {NO_NUMBER}"}
    row["panels"] = {name: figures_of(score) for name, score in scores.items()}
    return row


def figures_of(score: Score | None) -> PanelFigures:
    """The figures of a score that rows include."""
    if score is None or not score.known:
        return {"value": None, "low": None, "high": None, "dispersion": None}
    return {
        "value": score.value,
        "low": score.low,
        "high": score.high,
        "dispersion": None if math.isnan(score.dispersion) else score.dispersion,  # never learnt
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
