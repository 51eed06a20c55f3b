"""How far a study is, and when it may end."""

from __future__ import annotations

import pytest

from planned_study import answer, study_of
from uol.study.progress import progress
from uol.study.results import Results

ANSWERS = [answer((k, k + 1), k, f"p{j}") for k in range(3) for j in range(4)]


@pytest.mark.parametrize(
    ("stopping", "reason"),
    [
        ({}, None),
        ({"answers": 13}, None),
        ({"answers": 12}, "12 answers"),
        ({"participants": 4}, "4 participants"),
        ({"participants": 5}, None),
        ({"interval": 100}, "mean width"),
        ({"interval": 0.01}, None),
    ],
)
def test_conditions(stopping, reason):
    found = progress(Results(study_of(4, stopping=stopping), ANSWERS))
    assert (found.stop is None) == (reason is None)
    assert reason is None or reason in found.stop
    assert (found.participants, found.answers, found.judged, found.images) == (4, 12, 4, 4)


def test_intervals_of_unconnected_images_end_nothing():
    found = progress(Results(study_of(5, stopping={"interval": 100}), ANSWERS))
    assert found.islands == 2
    assert found.stop is None


def test_nobody():
    found = progress(Results(study_of(3), []))
    assert (found.participants, found.width, found.stop) == (0, None, None)
