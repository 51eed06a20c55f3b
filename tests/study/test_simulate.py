"""Simulated participants judge by the model that is fitted; planning says what a study would find."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from planned_study import study_of
from uol.study.results import Results
from uol.study.simulate import People, draw_values, plan, simulate_answers


def test_votes_follow_thurstone():
    study = study_of(2, pairs={"choice": "all"}, similar=True)
    answers = simulate_answers(study, np.array([0.4, -0.4]), 3000, people=People(ties=0.25))
    share = {name: np.mean([one.answer == name for one in answers]) for name in ("i000", "i001", "similar")}
    assert share["i000"] == pytest.approx(ndtr(0.8 - 0.25), abs=0.03)
    assert share["i001"] == pytest.approx(ndtr(-0.8 - 0.25), abs=0.03)
    assert np.mean([one.images[0] == "i000" for one in answers]) == pytest.approx(0.5)


def test_answers_are_the_same_for_a_seed_and_go_on_with_more_people():
    study = study_of(8, trials=6, pairs={"choice": "adaptive"}, practice=1)
    values = draw_values(8, 1.0, np.random.default_rng(0))
    few, many = simulate_answers(study, values, 3, seed=4), simulate_answers(study, values, 5, seed=4)
    assert many[: len(few)] == few
    assert few != simulate_answers(study, values, 3, seed=5)
    assert [one.at for one in many] == sorted(one.at for one in many)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ratings", "pairs", "best-of-four"])
def test_more_participants_give_narrower_intervals(kind):
    study = study_of(20, kind, trials=20)
    few, many = plan(study, [20, 5], spread=1.0, repetitions=3)
    assert (few.participants, many.participants) == (5, 20)
    assert many.answers == 4 * few.answers
    assert many.width < few.width
    assert many.spearman > few.spearman
    assert 0.85 <= many.coverage <= 1


def test_ratings_span_the_scale():
    study = study_of(30, "ratings", scale={"low": 0, "high": 100})
    answers = simulate_answers(study, draw_values(30, 1.0, np.random.default_rng(0)), 10)
    matrix = Results(study, answers).ratings.matrix
    assert 0 <= matrix.min() < 20
    assert 80 < matrix.max() <= 100
