"""How far a study is, and when it may end."""

from __future__ import annotations

import pytest

from planned_study import answer, study_of
from uol.study.progress import progress, stop_reason
from uol.study.results import Results

ANSWERS = [answer((k, k + 1), k, f"p{j}") for k in range(3) for j in range(4)]


@pytest.mark.parametrize(
    ("stopping", "reason"),
    [
        ({}, None),
        ({"answers": 13}, None),
        ({"answers": 12}, "12 answers"),
        ({"participants": 3}, "3 participants"),
        ({"participants": 4}, None),
        ({"interval": 100}, "mean width"),
        ({"interval": 0.01}, None),
    ],
)
def test_conditions(stopping, reason):
    results = Results(study_of(4, stopping=stopping), ANSWERS)
    stop, found = stop_reason(results, 3), progress(results)  # one of four has left
    assert (stop is None) == (reason is None)
    assert reason is None or reason in stop
    assert (found.participants, found.answers, found.judged, found.images) == (4, 12, 4, 4)


def test_intervals_of_unconnected_images_end_nothing():
    results = Results(study_of(5, stopping={"interval": 100}), ANSWERS)
    assert progress(results).islands == 2
    assert stop_reason(results, 4) is None


def test_nobody():
    results = Results(study_of(3), [])
    found = progress(results)
    assert (found.participants, found.width, stop_reason(results, 0)) == (0, None, None)
