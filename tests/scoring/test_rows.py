"""Rows of scored files: the fields of `--json`, and ranks with ties and errors."""

from __future__ import annotations

import math

import pytest

from uol.images.framing import FramedFile
from uol.scoring.base import Score
from uol.scoring.rows import ScoreRow, rank_rows, score_of, score_row

FIELDS = ["image", "face", "value", "low", "high", "dispersion", "error"]


def row(name: str, value: float, half: float = 0.5) -> ScoreRow:
    return score_row(FramedFile(name, None), Score(value, value - half, value + half, math.nan, 0.1))


def test_a_row_has_the_fields_that_scripts_rely_on():
    found = row("a.jpg", 3.0)
    assert list(found) == FIELDS
    assert found["dispersion"] is None  # unknown, never NaN
    failed = score_row(FramedFile("b.jpg", None, error="b.jpg: no face found"), None)
    assert list(failed) == FIELDS
    assert [failed[name] for name in FIELDS[2:]] == [None, None, None, None, "b.jpg: no face found"]


def test_ranks_are_shared_while_intervals_overlap_and_errors_come_last():
    failed = score_row(FramedFile("broken.jpg", None, error="broken"), None)
    ranked = rank_rows([row("low", 1.0), failed, row("best", 4.0), row("near", 3.5)])
    assert [(one["image"], one["rank"], one["tied"]) for one in ranked] == [
        ("best", 1, True), ("near", 1, True), ("low", 3, False), ("broken.jpg", None, False),
    ]  # fmt: skip
    assert list(ranked[0]) == ["rank", "tied", *FIELDS]
    with pytest.raises(ValueError, match="without a score"):
        score_of(failed)
