"""The record of an answer: what cannot have been answered is no answer."""

from __future__ import annotations

from datetime import datetime

import pytest
from pydantic import ValidationError

from planned_study import answer


def test_sides():
    assert answer((0, 1), 0).side == "left"
    assert answer((0, 1), 1).side == "right"
    assert answer((0, 1), "similar").side is None
    assert answer((0, 1, 2, 3), 2).side is None
    assert answer((0,), 5).side is None


@pytest.mark.parametrize(
    ("images", "given", "more"),
    [
        ((0, 1), "i007", {}),
        ((0, 1), "left", {}),
        ((0,), 3, {"kind": "check"}),
        ((0,), 3, {"correct": True}),
        ((0,), 3, {"response_ms": -1}),
        ((0,), 3, {"at": datetime(2026, 1, 1)}),
        ((0,), 3, {"order": 0}),
        ((), "similar", {}),
    ],
)
def test_impossible_answers_are_refused(images, given, more):
    with pytest.raises(ValidationError):
        answer(images, given, **more)


def test_only_main_trials_count():
    assert answer((0, 1), 0).counts
    assert not any(answer((0, 1), 0, kind=kind).counts for kind in ("practice", "repeat"))
