"""A participant's trials: reproducible, counterbalanced, each pair once, repeats late and turned round."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from planned_study import answer, study_of
from uol.study.trials import _quartet_round, choose_sets, is_correct, is_possible, participant_trials, question


@given(
    st.integers(4, 15), st.sampled_from(["ratings", "pairs", "best-of-four"]), st.integers(1, 12), st.integers(0, 9),
    st.integers(0, 2**31),
)  # fmt: skip
@settings(max_examples=examples(60), deadline=None)
def test_trials_follow_from_seed_and_number(images, kind, trials, number, seed):
    trials = min(trials, study_of(images, kind).most_trials)
    study = study_of(images, kind, trials=trials, seed=seed, practice=1)
    sets = choose_sets(study, number)
    session = participant_trials(study, number, sets)
    assert session == participant_trials(study, number, choose_sets(study, number))
    assert [trial.order for trial in session] == list(range(1, len(session) + 1))
    assert len({trial.trial for trial in session}) == len(session)
    assert len(set(map(frozenset, sets))) == len(sets) == trials
    main = [trial.images for trial in session if trial.kind == "trial"]
    assert sorted(main) == sorted(sets)
    for images_shown in main:
        assert len(set(images_shown)) == study.settings.set_size


@given(st.integers(3, 12), st.integers(1, 20), st.integers(1, 30), st.integers(0, 2**31))
@settings(max_examples=examples(40), deadline=None)
def test_random_pairs_are_balanced_over_participants(images, trials, people, seed):
    study = study_of(images, trials=min(trials, images * (images - 1) // 2), seed=seed)
    shown = [pair for number in range(people) for pair in choose_sets(study, number)]
    every = images * (images - 1) // 2
    pairs = Counter(map(frozenset, shown))
    assert max(pairs.values()) - (min(pairs.values()) if len(pairs) == every else 0) <= 1
    for pair, times in pairs.items():  # a pair changes sides from one time to the next
        low = sum(one == tuple(sorted(pair)) for one in shown)
        assert abs(2 * low - times) <= 1


def test_two_participants_see_all_pairs_on_both_sides():
    study = study_of(6, pairs={"choice": "all"})
    first, second = (choose_sets(study, number) for number in range(2))
    assert len(first) == 15
    assert sorted(first) == sorted(tuple(reversed(pair)) for pair in second)
    assert [frozenset(pair) for pair in first] != [frozenset(pair) for pair in second]


def test_given_pairs_are_shown_whole_and_turned():
    pairs = (("i000", "i001"), ("i002", "i003"), ("i003", "i001"))
    study = study_of(4, given=pairs, pairs={"choice": "given", "table": "pairs.csv"})
    first, second = (choose_sets(study, number) for number in range(2))
    assert {frozenset(pair) for pair in first} == {frozenset(pair) for pair in pairs}
    assert sorted(first) == sorted(tuple(reversed(pair)) for pair in second)


def test_ratings_show_every_image_equally_often():
    study = study_of(7, "ratings", trials=3)
    shown = Counter(images[0] for number in range(7) for images in choose_sets(study, number))
    assert set(shown.values()) == {3}


def test_quartets_show_every_image_in_each_round():
    study = study_of(10, "best-of-four")
    shown = Counter(name for images in choose_sets(study, 3) for name in images)
    assert set(shown) == set(study.ids)
    assert sum(shown.values()) == 12


@given(st.integers(5, 16), st.integers(1, 25), st.integers(1, 12), st.integers(0, 2**31))
@settings(max_examples=examples(40), deadline=None)
def test_quartets_of_several_rounds_stay_balanced_and_differ(images, trials, people, seed):
    trials = min(trials, study_of(images, "best-of-four").most_trials)
    study = study_of(images, "best-of-four", trials=trials, seed=seed)
    shown = [choose_sets(study, number) for number in range(people)]
    for sets in shown:
        assert len(set(map(frozenset, sets))) == len(sets) == trials
    often = Counter(name for sets in shown for one in sets for name in one)
    assert max(often.values()) - min(often.get(name, 0) for name in study.ids) <= (2 if images % 4 else 1)


@pytest.mark.parametrize(("images", "trials"), [(5, 2), (6, 3), (7, 5), (9, 10), (9, 31), (13, 7)])
def test_images_that_fill_up_quartets_take_turns(images, trials):
    study = study_of(images, "best-of-four", trials=trials)
    often = Counter(dict.fromkeys(study.ids, 0))
    for number in range(80):
        for one in choose_sets(study, number):
            often.update(one)
        assert max(often.values()) - min(often.values()) <= 2


def test_quartets_are_found_where_all_last_sets_are_known():
    study = study_of(9, "best-of-four")
    last = _quartet_round(study, 0, ())[-1]
    known = {frozenset([*last[1:], name]) for name in study.ids}
    sets = _quartet_round(study, 0, known)
    assert {name for images in sets for name in images} == set(study.ids)
    assert all(len(set(images)) == 4 and frozenset(images) not in known for images in sets)


@given(st.integers(2, 20), st.integers(0, 8), st.integers(0, 1000))
@settings(max_examples=examples(40), deadline=None)
def test_repeats_come_later_and_turned(trials, repeats, seed):
    repeats = min(repeats, (trials + 1) // 2)
    study = study_of(8, trials=trials, repeats=repeats, seed=seed)
    session = participant_trials(study, 0, choose_sets(study, 0))
    by_name = {trial.trial: trial for trial in session}
    again = [trial for trial in session if trial.kind == "repeat"]
    assert len(again) == repeats
    for trial in again:
        first = by_name[trial.of]
        assert first.order < trial.order
        assert trial.images == first.images[::-1]
    assert len({trial.of for trial in again}) == len(again)


def test_checks_are_spread_and_judged():
    checks = [{"images": ["i000", "i001"], "accepted": ["i001"]}] * 2
    checks.append({"images": ["i002", "i003"], "accepted": ["i002"], "question": "Choose the left image."})
    study = study_of(8, trials=20, checks=checks)
    orders, sides = [], Counter()
    for number in range(60):
        session = participant_trials(study, number, choose_sets(study, number))
        found = [trial for trial in session if trial.kind == "check"]
        assert sorted(trial.of for trial in found) == ["1", "2", "3"]
        orders += [trial.order for trial in found]
        sides[next(trial for trial in found if trial.of == "1").images] += 1
        fixed = next(trial for trial in found if trial.of == "3")
        assert fixed.images == ("i002", "i003")  # its question names a side
        assert question(study.settings, fixed, "en") == "Choose the left image."
        assert question(study.settings, found[0], "en") in ("Which?", "Choose the left image.")
        assert is_correct(study.settings, fixed, "i002") is True
        assert is_correct(study.settings, fixed, "i003") is False
    assert min(sides.values()) > 15
    assert min(orders) < 8
    assert max(orders) > 17
    assert is_correct(study.settings, session[0], "i000") is None or session[0].kind == "check"


@pytest.mark.parametrize(
    ("kind", "similar", "given_answer", "possible"),
    [
        ("pairs", False, "similar", False), ("pairs", True, "similar", True), ("pairs", False, 1, False),
        ("pairs", False, "i999", False), ("ratings", False, 7, True), ("ratings", False, 8, False),
        ("ratings", False, True, False), ("ratings", False, "7", False), ("ratings", False, 6.0, False),
    ],
)  # fmt: skip
def test_possible_answers(kind, similar, given_answer, possible):
    study = study_of(4, kind, similar=similar)
    trial = participant_trials(study, 0, choose_sets(study, 0))[0]
    assert is_possible(study.settings, trial, given_answer) is possible


def test_adaptive_pairs_ignore_practice_repeats_and_checks():
    study = study_of(6, trials=4, pairs={"choice": "adaptive"})
    counted = [answer((0, 1), 0), answer((1, 2), 1)]
    more = [*counted, answer((3, 4), 3, kind="practice"), answer((0, 5), 5, kind="repeat", of="trial-1")]
    assert choose_sets(study, 0, counted) == choose_sets(study, 0, more)


@pytest.mark.parametrize(("kind", "trials"), [("ratings", 5), ("pairs", 8), ("best-of-four", 4), ("best-of-four", 6)])
@pytest.mark.parametrize("images", [9, 12])
def test_trials_do_not_depend_on_who_was_dealt_before(kind, trials, images):
    study = study_of(images, kind, trials=trials)
    alone = [choose_sets(study_of(images, kind, trials=trials), number) for number in range(40)]
    assert [choose_sets(study, number) for number in range(40)] == alone
    assert [choose_sets(study, number) for number in (30, 7, 39, 0, 31)] == [alone[k] for k in (30, 7, 39, 0, 31)]


def test_many_pairs_are_dealt_as_few_are(monkeypatch):
    study = study_of(12, trials=7)
    whole = [choose_sets(study, number) for number in range(9)]
    monkeypatch.setattr("uol.study.trials._MANY_PAIRS", 0)
    assert [choose_sets(study, number) for number in range(9)] == whole
