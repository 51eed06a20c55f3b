"""Tables of a study, against counts by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from planned_study import answer, study_of
from uol.errors import UolError
from uol.study.results import (
    Results,
    answer_table,
    intransitivity,
    pair_table,
    repeats,
    scale_table,
    side_share,
    study_reliability,
)
from uol.study.scaling import bradley_terry
from uol.study.simulate import draw_values, simulate_answers
from uol.study.votes import votes_of


def test_pairs_are_counted_by_hand():
    study = study_of(3, similar=True)
    answers = [answer((0, 1), 0, f"p{k}") for k in range(4)] + [answer((1, 0), 0, f"q{k}") for k in range(2)]
    answers += [answer((0, 1), 1, "r"), answer((2, 1), "similar", "r"), answer((1, 2), 2, "p1", kind="practice")]
    table = pair_table(Results(study, answers)).set_index(["first", "second"])
    row = table.loc[("i000", "i001")]
    assert (row["votes"], row["prefer_first"], row["similar"], row["prefer_second"]) == (7, 6, 0, 1)
    assert row["agreement"] == pytest.approx(6 / 7)
    assert row["agreed"]
    assert table.loc[("i001", "i002")]["agreed"] is None
    assert len(table) == 2


@pytest.mark.parametrize(("votes", "of", "agreed"), [(5, 7, False), (6, 7, True), (10, 14, False), (11, 14, True)])
def test_the_rule_of_the_paper_is_more_than_five_of_seven(votes, of, agreed):
    answers = [answer((0, 1), 0 if k < votes else 1, f"p{k}") for k in range(of)]
    assert bool(pair_table(Results(study_of(2), answers))["agreed"][0]) is agreed


def test_given_pairs_keep_their_order():
    given = (("i001", "i000"),)
    study = study_of(2, given=given, pairs={"choice": "given", "table": "p.csv"})
    table = pair_table(Results(study, [answer((0, 1), 1, "a"), answer((1, 0), 1, "b"), answer((0, 1), 0, "c")]))
    assert table.iloc[0][["first", "second", "prefer_first", "prefer_second"]].tolist() == ["i001", "i000", 2, 1]


def slow_circular(votes, images):
    """Circular and all triads of decided pairs, by looking at every three images."""
    balance = np.zeros((images, images))
    for one, other, outcome in zip(votes.first, votes.second, votes.outcome, strict=True):
        balance[one, other] += outcome - 1
        balance[other, one] -= outcome - 1
    circular = triads = 0
    for a, b, c in combinations(range(images), 3):
        signs = np.sign([balance[a, b], balance[b, c], balance[c, a]])
        if 0 not in signs:
            triads += 1
            circular += abs(signs.sum()) == 3
    return circular, triads


@pytest.mark.parametrize("seed", range(5))
def test_circular_triads_are_those_of_the_slow_count(seed):
    rng = np.random.default_rng(seed)
    answers = []
    for _ in range(60):
        a, b = rng.permutation(8)[:2].tolist()
        answers.append(answer((a, b), [a, b, "similar"][rng.integers(3)]))
    votes = votes_of(answers, study_of(8).ids)
    found = intransitivity(votes, 8)
    assert (found["circular"], found["triads"]) == slow_circular(votes, 8)


def test_repeats_are_compared_with_their_trial():
    answers = [
        answer((0, 1), 0, trial="trial-1"), answer((2, 3), 2, trial="trial-2"),
        answer((1, 0), 0, kind="repeat", trial="repeat-1", of="trial-1"),
        answer((3, 2), 3, kind="repeat", trial="repeat-2", of="trial-2"),
        answer((3, 2), 3, kind="repeat", trial="repeat-1", of="trial-2", participant="p2"),
    ]  # fmt: skip
    assert repeats(answers)["same"].tolist() == [True, False]


def test_only_main_trials_of_those_who_count_make_the_scale():
    study = study_of(3)
    answers = [answer((0, 1), 0), answer((1, 2), 1), answer((2, 0), 2, "p2"), answer((0, 2), 0, kind="practice")]
    whole = Results(study, answers, frozenset({"p2"}))
    assert whole.counted == answers[:2]
    expected = bradley_terry([0, 1], [1, 2], [2, 2], 3)
    np.testing.assert_allclose(whole.scale.value, expected.value)
    assert scale_table(whole)["judged"].tolist() == [1, 2, 1]
    assert side_share(whole) == (2, 2)


def test_scale_of_pairs_has_every_model():
    study = study_of(12, trials=30)
    answers = simulate_answers(study, draw_values(12, 1.0, np.random.default_rng(0)), 8)
    table = scale_table(Results(study, answers))
    for model in ("bradley_terry", "thurstone_5", "thurstone_3"):
        assert (table[f"{model}_low_95"] < table[model]).all()
        assert (table[model] < table[f"{model}_high_95"]).all()
    assert np.corrcoef(table["bradley_terry"], table["thurstone_5"])[0, 1] > 0.99
    assert table["agreement"].between(0.5, 1).all()


def test_reliability_rises_with_people():
    study = study_of(10, trials=30)
    values = draw_values(10, 1.0, np.random.default_rng(1))
    few, many = (study_reliability(Results(study, simulate_answers(study, values, size))) for size in (4, 24))
    assert few["split_half"] < many["split_half"]
    assert 0 < many["krippendorff_alpha"] < 1
    assert many["spearman_brown"] == pytest.approx(2 * many["split_half"] / (1 + many["split_half"]))


@pytest.mark.parametrize("correlation", [-1 + 1e-15, -0.5])
def test_halves_that_disagree_predict_nothing(monkeypatch, correlation):
    study = study_of(4)
    monkeypatch.setattr("uol.study.results._split_half", lambda *_: correlation)
    found = study_reliability(Results(study, simulate_answers(study, draw_values(4, 1.0, np.random.default_rng(0)), 4)))
    assert (found["split_half"], found["spearman_brown"]) == (correlation, None)


def test_ratings_have_their_reliability_and_means():
    study = study_of(5, "ratings")
    answers = [answer((k,), min(k + 1 + (j % 2), 7), f"p{j}") for k in range(5) for j in range(4)]
    results = Results(study, answers)
    table = scale_table(results)
    np.testing.assert_allclose(table["mean"], np.arange(5) + 1.5)
    assert study_reliability(results)["icc_2_1"] > 0.8
    assert results.scale is None
    assert results.width == pytest.approx((table["high_95"] - table["low_95"]).mean())


def test_answers_have_the_columns_that_researchers_expect():
    pairs = answer_table(study_of(3), [answer((2, 0), 0)])
    assert list(pairs.columns) == [
        "session", "participant", "trial", "order", "kind", "left", "right", "answer", "side", "response_ms",
        "timestamp", "language", "repeats", "correct",
    ]  # fmt: skip
    assert pairs.iloc[0][["left", "right", "answer", "side"]].tolist() == ["i002", "i000", "i000", "right"]
    assert pairs["timestamp"][0] == "2026-03-01T12:00:00+00:00"
    ratings = answer_table(study_of(3, "ratings"), [answer((2,), 6)])
    assert ratings.iloc[0][["image", "rating"]].tolist() == ["i002", 6]
    four = answer_table(study_of(4, "best-of-four"), [answer((3, 1, 0, 2), 0)])
    assert four.iloc[0][["image_1", "image_4", "answer", "place"]].tolist() == ["i003", "i002", "i000", 3]


def test_answers_on_unknown_images_are_refused():
    with pytest.raises(UolError, match="i007"):
        Results(study_of(3), [answer((0, 7), 0)])


def test_nobody_has_answered():
    results = Results(study_of(3), [])
    assert results.scales == {}
    assert results.width is None
    assert study_reliability(results) == {}
    assert pair_table(results).empty
    assert scale_table(results)["judged"].sum() == 0
