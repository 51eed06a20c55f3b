"""A study as rated images."""

from __future__ import annotations

import numpy as np
import pytest

from planned_study import answer, study_of
from uol.errors import UolError
from uol.study.rated import rated_images
from uol.study.results import Results


def test_ratings_become_scores_with_histograms():
    study = study_of(4, "ratings", scale={"low": 1, "high": 5})
    rated = rated_images(Results(study, [answer((k,), 2 + k, f"p{j}") for k in range(3) for j in range(2)]))
    assert list(rated.names) == ["i000", "i001", "i002"]
    np.testing.assert_allclose(rated.scores, [2, 3, 4])
    assert tuple(rated.scale) == (1, 5)
    assert rated.histograms.shape == (3, 5)
    assert rated.ratings.raters == ("p0", "p1")
    assert rated.notes == ["left out: 1 images that nobody has judged"]


def test_votes_become_scale_values_with_errors():
    answers = [answer((k, k + 1), k, f"p{j}") for k in range(3) for j in range(5)]
    results = Results(study_of(5), answers)
    rated = rated_images(results)
    assert list(rated.names) == ["i000", "i001", "i002", "i003"]
    assert (np.diff(rated.scores) < 0).all()
    assert rated.scale.low <= rated.scores.min() < rated.scores.max() <= rated.scale.high
    assert rated.people == 5
    np.testing.assert_array_equal(rated.counts, [5, 10, 10, 5])
    np.testing.assert_allclose(rated.standard_errors, results.scale.standard_error[:4])


def test_islands_are_noted():
    answers = [answer((0, 1), 0), answer((2, 3), 2)]
    assert any("share no vote" in note for note in rated_images(Results(study_of(4), answers)).notes)
    assert not any("share no vote" in note for note in rated_images(Results(study_of(3), answers[:1])).notes)


def test_nobody_has_answered():
    with pytest.raises(UolError, match="nobody has answered"):
        rated_images(Results(study_of(3), []))
