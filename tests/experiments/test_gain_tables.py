"""What each row of a plan gains, on the folds that all rows have."""

from __future__ import annotations

from itertools import pairwise

import pytest

from measured import keep_predictions, whole_row
from uol.experiments.figures import gains_by_setting
from uol.experiments.gain_tables import Gain, gains_table, settings_of, settings_table
from uol.experiments.kept_predictions import kept_path
from uol.experiments.plans import PLANS
from uol.experiments.rows import Source
from uol.experiments.tables import view
from uol.training.recipe import load_recipe


def rows(recipes, folds=None):
    """Results of some recipes, named with their PC; the folds that are named are kept of the others."""
    few = folds or {}
    made = [(recipe, whole_row("uol", pc, recipe=recipe)) for recipe, pc in recipes.items()]
    return [r for recipe, row in made for r in row if int(r.split[-1]) <= few.get(recipe, 5)]


LADDER = {"paper": 0.90, "paper-schedule": 0.89, "strong": 0.93}


def test_each_step_is_compared_with_the_one_before_on_the_folds_of_all():
    source = Source(rows(LADDER, {"paper-schedule": 2}), PLANS["ladder"])
    found = gains_table(source).rows
    assert view("main", source).rows == found
    assert [row["recipe"] for row in found] == [*LADDER, None]
    assert {row["folds"] for row in found} == {2}
    gains = [None, pytest.approx(-0.01), pytest.approx(0.04), pytest.approx(0.03)]
    assert [row["gain_pc"] for row in found] == gains
    assert [row["gain_elsewhere"] for row in found] == gains
    assert found[2]["interval_pc"] == "+0.0400 to +0.0400"  # replicates that move together
    assert (found[3]["what"], found[3]["interval_pc"]) == ("the first 10 steps together", "+0.0300 to +0.0300")
    assert {row["kept"] for row in found} == {"no"}


def test_steps_are_summed_as_far_as_predictions_are_kept(tmp_path):
    results = rows({**LADDER, "best": 0.94})
    keep_predictions(tmp_path, [r for r in results if r.recipe in ("paper", "paper-schedule", "strong")])
    kept_path(tmp_path / results[5].file_name, "mebeauty").unlink()  # of a step between
    found = gains_table(Source(results, PLANS["ladder"], folder=tmp_path)).rows
    assert [row["kept"] for row in found] == ["yes", "not on mebeauty", "yes", "no", "yes", "no"]
    assert [row["what"] for row in found[4:]] == [
        "the first 10 steps together",
        "the first 12 steps together",
    ]  # of the ladder
    assert [row["gain_pc"] for row in found[4:]] == [pytest.approx(0.03), pytest.approx(0.04)]


def test_rows_without_a_fold_in_common_have_no_table():
    one = [r for r in rows({"paper": 0.9}) if r.split == "fold-1"]
    two = [r for r in rows({"strong": 0.93}) if r.split == "fold-2"]
    assert gains_table(Source([*one, *two], PLANS["ladder"])).rows == []


SMALL = {"paper-small": 0.88, "paper-small-beta-0.3": 0.89, "paper-small-beta-0": 0.87, "paper-small-scored-4": 0.88}


def test_settings_have_their_values_and_that_of_the_reference():
    source = Source(rows(SMALL), PLANS["sensitivity"])
    found = {name: (default, [value for value, _ in values]) for name, default, values in settings_of(source)}
    assert found == {"T in scoring alone": (8, [4]), "β": (pytest.approx(1e-3), [0.0, 0.3])}
    shown = {row["setting"]: row for row in settings_table(source).rows}
    assert shown["β"]["own"] == "0: **−.0100**; 0.3: **+.0100**"
    assert shown["T in scoring alone"]["own"] == "4: +.0000"
    assert len(gains_by_setting(source, "title").axes) == 4


def test_a_gain_is_shown_where_its_interval_is_on_one_side_of_0():
    assert Gain(0.1, (0.05, 0.15)).shown
    assert not Gain(0.1, (-0.05, 0.15)).shown
    assert not Gain(0.1, None).shown


def test_the_ladder_goes_from_the_paper_to_what_ships_by_steps_that_change_something():
    steps = PLANS["ladder"].rows
    settings = [row.settings({}) for row in steps]
    assert settings[0] == load_recipe("paper")
    shipped = {row.recipe: made for row, made in zip(steps, settings, strict=True)}
    assert all(shipped[name] == load_recipe(name) for name in ("strong", "best", "distilled"))
    assert all(before != after for before, after in pairwise(settings))


def test_without_the_first_row_nothing_is_summed(tmp_path):
    results = rows({name: pc for name, pc in LADDER.items() if name != "paper"} | {"best": 0.94})
    found = gains_table(Source(results, PLANS["ladder"], folder=tmp_path)).rows
    assert [row["recipe"] for row in found] == ["paper-schedule", "strong", "best"]
