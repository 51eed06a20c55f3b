"""Settings are checked when they are read, and one line says what is wrong."""

from __future__ import annotations

import pytest

from planned_study import study_of
from uol.errors import CallError
from uol.study.settings import RatingScale


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"kind": "triples"}, "kind"),
        ({"trails": 10}, "trails"),
        ({"trials": 0}, "trials"),
        ({"kind": "ratings", "similar": True}, "only pairs can be similar"),
        ({"kind": "ratings", "pairs": {"choice": "adaptive"}}, "these settings are for kind pairs"),
        ({"pairs": {"choice": "given"}}, "choice given requires table"),
        ({"pairs": {"choice": "random", "table": "p.csv"}}, "choice given requires table"),
        ({"pairs": {"choice": "all"}, "trials": 5}, "choice all shows every pair"),
        ({"pairs": {"choice": "adaptive"}}, "adaptive pairs require the number of trials"),
        ({"languages": ["en", "en"]}, "en is listed twice"),
        ({"languages": ["en", "de"], "question": {"en": "Which?"}}, "question: no text in language de"),
        ({"scale": {"low": 5, "high": 5}, "kind": "ratings"}, "must be below high"),
        ({"scale": {"low": 1, "high": 5, "labels": {7: "much"}}, "kind": "ratings"}, "outside 1 to 5"),
        ({"checks": [{"images": ["i000"], "accepted": ["i000"]}]}, "need 2 different images"),
        ({"checks": [{"images": ["i000", "i001"], "accepted": ["i002"]}]}, "nobody can answer 'i002'"),
        ({"checks": [{"images": ["i000", "i001"], "accepted": ["similar"]}]}, "nobody can answer 'similar'"),
        ({"kind": "ratings", "checks": [{"images": ["i000"], "accepted": [8]}]}, "nobody can answer 8"),
        ({"return_address": "javascript:alert(1)"}, "https://"),
        ({"seed": -1}, "seed: must be at least 0, not -1"),
        ({"trials": 2.5}, "trials: must be a whole number, not 2.5"),
        ({"trials": 10**6}, "trials: must be at most 100000"),
        ({"languages": "en"}, "languages: must be a list, not 'en'"),
        ({"question": 3}, "question: must be a text, not 3"),
        ({"question": {"en": 3}}, "question.en: must be a text, not 3"),
        ({"pairs": "adaptive"}, "pairs: must be an object: {name: value}, not 'adaptive'"),
        ({"stopping": {"interval": float("inf")}}, "stopping.interval: must be a finite number"),
        ({"participant_parameter": "a b"}, "participant_parameter: up to 64 letters, digits, _, . and -, not 'a b'"),
        ({"participant_parameter": "a" * 65}, "participant_parameter: up to 64 letters"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(settings, problem):
    with pytest.raises(CallError, match=problem) as caught:
        study_of(4, **settings)
    assert "\n" not in str(caught.value)


def test_texts_by_language():
    study = study_of(4, languages=["en", "de"], question={"en": "Which?", "de": "Welches?"})
    assert study.settings.text(study.settings.question, "de") == "Welches?"
    assert study.settings.text(study.settings.question, "fr") == "Which?"
    assert study.settings.text(study.settings.title, "de") == "Study"


def test_levels_of_a_scale():
    assert list(RatingScale(low=0, high=3).levels) == [0, 1, 2, 3]
