"""Plans: every row is a method and a recipe that exist, and only what a row is about differs from the base."""

from __future__ import annotations

from pathlib import Path

import pytest

from measured import five_folds
from uol import methods
from uol.errors import CallError
from uol.experiments.plans import BASE, BEST, DISTILLED, HALF, PLANS, STRONG, find_plan
from uol.experiments.published import elsewhere
from uol.experiments.published import five_folds as published
from uol.runs.result import read_result
from uol.training.recipe import load_recipe


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_rows_differ_from_the_base_in_what_they_say(plan):
    assert len({row.key for row in plan.rows}) == len(plan.rows)
    assert plan.reference is None or plan.reference in {row.key for row in plan.rows}
    for row in plan.rows:
        assert row.method in methods.names()
        found, base = row.settings({}).model_dump(), load_recipe(row.base).model_dump()
        about = {name.split(".")[0] for name in row.changes}
        changed = {name for name in found if found[name] != base[name]}
        assert about <= changed <= {"method"} | about
        assert (row.recipe == row.base) == (not row.changes and row.network is None)
        if row.recipe == BEST:  # a recipe of its own, so that users get it by name
            assert row.settings({}) == load_recipe(BEST)
        else:
            assert row.recipe == row.base or row.recipe.startswith(f"{row.base}-")
        assert row.network is None or row.network in plan.rows
        assert row.network is None or (row.network.method, row.network.base) == (row.method, row.base)
        if row.network is not None:  # what a network is trained with cannot be read otherwise
            own = {name for name, value in row.changes.items() if row.network.changes.get(name) != value}
            assert row.network.changes.keys() <= row.changes.keys()
            assert {name.split(".")[0] for name in own - {"model.framing"}} <= {"scoring", "references_per_bin"}
            assert row.needs == row.network.needs
            assert bool(own) == (row.read_by == "scorer")


def test_the_whole_holds_every_row():
    matched = {row.key for plan in PLANS.values() for row in plan.rows if row.base == BASE}
    assert {row.key for row in PLANS["matched"].rows} == matched
    assert {row.method for row in PLANS["matched"].rows} == set(methods.names())


def test_losses_are_switched_off_by_their_weight():
    weights = [(row.settings({}).alpha, row.settings({}).beta) for row in find_plan("losses").rows]
    assert weights == [(0, 0), (1e-4, 0), (0, 1e-3), (1e-4, 1e-3)]
    row = find_plan("losses").rows[0]
    assert row.settings({"alpha": 1.0, "epochs": 3}).alpha == 0
    assert row.settings({"alpha": 1.0, "epochs": 3}).epochs == 3


def test_ideas_change_one_thing_of_half():
    plan = find_plan("ideas")
    assert plan.reference == ("uol", HALF)
    assert all(row.base == HALF for row in plan.rows)
    rows = {row.recipe: row.settings({"epochs": 3}) for row in plan.rows}
    assert rows[HALF] == load_recipe(HALF, {"epochs": 3})
    assert rows["half-mirrored-only"].augmentation.model_dump() == {
        **load_recipe(BASE).augmentation.model_dump(), "flip": True,
    }  # fmt: skip
    others = [*five_folds(recipe="matched"), *five_folds(recipe="paper")]
    mine = five_folds(recipe=HALF)
    assert plan.of([*others, *mine]) == mine
    for row in plan.rows[1:]:
        assert published("scut-fbp5500", *row.key) is None
        assert elsewhere("scut-fbp5500", "mebeauty", *row.key) is None
    assert published("scut-fbp5500", "uol", HALF).pc == 0.9240


def test_readings_are_of_the_same_networks():
    plan = find_plan("readings")
    fast, *readings = plan.rows
    assert all(row.network is fast for row in readings)
    rows = {row.recipe: row.settings({"epochs": 3}) for row in plan.rows}
    assert rows["fast"] == load_recipe("fast", {"epochs": 3})
    assert rows["fast-sampled-scores"].scoring.samples == 8
    assert rows["fast-sampled-scores"].samples == rows["fast"].samples
    for row in readings:
        assert row.settings({}).model_copy(update={"scoring": None, "references_per_bin": 0}) == load_recipe(
            "fast"
        ).model_copy(update={"scoring": None, "references_per_bin": 0})


def test_half_is_strong_but_smaller_and_shorter():
    half, strong = load_recipe(HALF).model_dump(), load_recipe(STRONG).model_dump()
    assert {name for name in half if half[name] != strong[name]} == {"model", "epochs"}
    assert half["model"] == {**strong["model"], "resize": 112, "crop": 112}
    assert 2 * half["epochs"] == strong["epochs"]


def test_what_is_tried_at_full_size_is_what_was_tried_at_half():
    plan = find_plan("recipes")
    assert plan.reference == ("uol", STRONG)
    small = {row.recipe.removeprefix("half-"): row.changes for row in find_plan("ideas").rows}
    full = {row.recipe.removeprefix("strong-"): row.changes for row in plan.rows}
    both = ["plain", "blended", "whole", "levels", "levels-compared"]
    assert [name for name in full if name in small] == both
    for name in ("plain", "blended"):
        assert full[name] == small[name]
    assert full["whole"] == {**small["whole"], "model.resize": 2 * small["whole"]["model.resize"]}


def test_distilled_is_the_best_network_that_begins_as_its_teacher():
    distilled, best = load_recipe(DISTILLED), load_recipe(BEST)
    assert distilled.start == "teacher"
    new_faces = best.augmentation.model_copy(update={"bend": 0.05, "mix": 0.5})
    assert (distilled.model, distilled.augmentation, distilled.scoring) == (best.model, new_faces, best.scoring)


def test_a_row_may_need_what_only_the_command_line_gives():
    plan = find_plan("recipes")
    assert plan.reserved == {"teachers"}
    assert find_plan("matched").reserved == find_plan("ideas").reserved == set()
    teachers = {"teachers": ["runs/five/{split}"]}
    for given in ({}, {"teachers": []}):
        lacking = [row.recipe for row in plan.check_needs(plan.rows, given)]
        assert lacking == ["distilled"]
    assert plan.check_needs(plan.rows, teachers) == []
    (distilled,) = plan.choose([], ["distilled"])
    with pytest.raises(CallError, match="distilled needs --set teachers=…"):
        plan.check_needs([distilled], {}, ["distilled"])
    with pytest.raises(CallError, match="is for distilled alone in experiment recipes, which was"):
        plan.check_needs(plan.rows[:1], teachers)


def test_results_of_a_plan():
    mine = five_folds(recipe="matched", method="ldl")
    others = [*five_folds(), *five_folds(recipe="matched", method="crnet")]
    assert find_plan("modules").of([*mine, *others]) == mine
    assert find_plan("modules").order("ldl", "matched") == 1
    assert [row.method for row in find_plan("modules").choose(["uol", "ldl"])] == ["ldl", "uol"]
    with pytest.raises(CallError, match="has no method 'crnet'"):
        find_plan("modules").choose(["crnet"])
    assert [row.recipe for row in find_plan("matched").choose(["uol"], ["matched-order"])] == ["matched-order"]
    with pytest.raises(CallError, match="experiment losses has no recipe 'order'; it has matched, matched-disp"):
        find_plan("losses").choose([], ["order"])
    with pytest.raises(CallError, match="experiment matched has no row of both"):
        find_plan("matched").choose(["regression"], ["matched-order"])
    with pytest.raises(CallError, match="there are modules, losses"):
        find_plan("module")


def test_a_variant_does_not_stand_beside_the_figures_of_the_whole_method():
    assert published("scut-fbp5500", "uol", "matched").pc == 0.9240
    assert published("scut-fbp5500", "uol", "matched-order") is None
    assert elsewhere("scut-fbp5500", "mebeauty", "uol", "matched-order").pc == 0.5457
    assert elsewhere("scut-fbp5500", "mebeauty", "uol", "matched").pc == 0.5532
    assert elsewhere("scut-fbp5500", "mebeauty", "order-learning", "matched-consistency") is None
    assert elsewhere("mebeauty", "scut-fbp5500", "uol", "matched-order") is None


@pytest.mark.parametrize("name", [BEST, DISTILLED, "fast", STRONG, "transformer", "xception"])
def test_recipes_that_ship_are_those_of_their_results(name):
    """Settings that a result does not have came later, with a default that changes nothing."""
    (path,) = sorted((Path(__file__).parents[2] / "results" / "scut-fbp5500").glob(f"uol-{name}-fold-1-seed-0.json"))
    recipe = load_recipe(name).model_dump(mode="json")
    made = read_result(path).provenance.settings
    for key in recipe.keys() & made.keys() - {"init", "teachers", "engine"}:
        ours, theirs = recipe[key], made[key]
        if isinstance(ours, dict):
            ours = {part: ours[part] for part in theirs if part in ours}
            theirs = {part: value for part, value in theirs.items() if part in ours}
        assert ours == theirs, key
