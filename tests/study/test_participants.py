"""Participants are flagged with a reason, and nobody is dropped."""

from __future__ import annotations

import numpy as np

from planned_study import answer, study_of
from uol.study.participants import participant_table
from uol.study.results import Results
from uol.study.simulate import People, draw_values, simulate_answers

CHECK = {"images": ["i000", "i001"], "accepted": ["i000"]}


def test_careless_people_are_flagged_and_still_count():
    study = study_of(20, trials=80, checks=[CHECK] * 4, repeats=10)
    values = draw_values(20, 1.5, np.random.default_rng(0))
    answers = simulate_answers(study, values, 20, seed=3, people=People(careless=0.25))
    results = Results(study, answers)
    table = participant_table(results).set_index("participant")
    failed = table["checks_failed"] > 0
    assert 2 <= failed.sum() <= 9
    assert table.loc[failed, "flagged"].all()
    assert table.loc[failed, "reason"].str.contains("of 4 checks").all()
    assert table.loc[~failed, "agreement"].min() > table.loc[failed, "agreement"].max()
    assert table.loc[~failed, "flagged"].sum() <= 1
    assert set(results.votes.participant) == set(table.index)  # flagged, not dropped
    assert (table["answers"] == 80).all()


def test_sides_speed_and_repeats():
    study = study_of(30)
    rng = np.random.default_rng(1)
    answers = []
    for place in range(40):
        a, b = rng.permutation(30)[:2].tolist()
        answers.append(answer((a, b), a, "left", trial=f"trial-{place}"))
        answers.append(answer((a, b), min(a, b), "fast", trial=f"trial-{place}", response_ms=90))
        answers.append(answer((a, b), min(a, b), "good", trial=f"trial-{place}"))
        if place < 6:
            answers.append(answer((b, a), b, "left", kind="repeat", trial=f"repeat-{place}", of=f"trial-{place}"))
    table = participant_table(Results(study, answers)).set_index("participant")
    assert "chose the left image in 100% of pairs" in table.loc["left", "reason"]
    assert "0% of 6 repeated trials" in table.loc["left", "reason"]
    assert table.loc["fast", "reason"] == "half of the answers took less than 250 ms"
    assert not table.loc["good", "flagged"]
    assert table.loc["good", "circular_share"] == 0 or np.isnan(table.loc["good", "circular_share"])


def test_raters_who_give_one_rating_only():
    study = study_of(12, "ratings")
    answers = [answer((k,), 1 + k % 7, f"p{j}") for k in range(12) for j in range(4)]
    answers += [answer((k,), 4, "same") for k in range(12)]
    table = participant_table(Results(study, answers, frozenset({"p0"}))).set_index("participant")
    assert "100% of the ratings are the same" in table.loc["same", "reason"]
    assert table.loc["p0", "left_out"]
    assert table["left_out"].sum() == 1


def test_nobody():
    assert participant_table(Results(study_of(3), [])).empty
