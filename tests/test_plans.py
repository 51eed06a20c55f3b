"""Plans: every row is a method and a recipe that exist, and only what a row is about differs from the base."""

from __future__ import annotations

import pytest

from measured import five_folds
from uol import methods
from uol.errors import CallError
from uol.experiments.plans import BASE, PLANS, find_plan
from uol.experiments.published import five_folds as published
from uol.experiments.published import transfer_pc
from uol.training.recipe import load_recipe


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_rows_differ_from_the_base_in_what_they_say(plan):
    base = load_recipe(BASE).model_dump()
    assert len({row.key for row in plan.rows}) == len(plan.rows)
    assert plan.reference is None or plan.reference in {row.key for row in plan.rows}
    for row in plan.rows:
        assert row.method in methods.names()
        found = row.settings({}).model_dump()
        assert {name for name in found if found[name] != base[name]} <= {"method", *row.changes}
        assert (row.recipe == BASE) == (not row.changes and row.read_by is None)
        assert row.read_by is None or (row.method, row.network) in {other.key for other in plan.rows}


def test_the_whole_holds_every_row():
    assert {row.key for row in PLANS["matched"].rows} == {row.key for plan in PLANS.values() for row in plan.rows}
    assert {row.method for row in PLANS["matched"].rows} == set(methods.names())


def test_losses_are_switched_off_by_their_weight():
    weights = [(row.settings({}).alpha, row.settings({}).beta) for row in find_plan("losses").rows]
    assert weights == [(0, 0), (1e-4, 0), (0, 1e-3), (1e-4, 1e-3)]
    row = find_plan("losses").rows[0]
    assert row.settings({"alpha": 1.0, "epochs": 3}).alpha == 0
    assert row.settings({"alpha": 1.0, "epochs": 3}).epochs == 3


def test_results_of_a_plan():
    mine = five_folds(recipe="matched", method="ldl")
    others = [*five_folds(), *five_folds(recipe="matched", method="crnet")]
    assert find_plan("modules").of([*mine, *others]) == mine
    assert find_plan("modules").order("ldl", "matched") == 1
    assert [row.method for row in find_plan("modules").choose(["uol", "ldl"])] == ["ldl", "uol"]
    with pytest.raises(CallError, match="has no method 'crnet'"):
        find_plan("modules").choose(["crnet"])
    with pytest.raises(CallError, match="there are modules, losses"):
        find_plan("module")


def test_a_variant_does_not_stand_beside_the_figures_of_the_whole_method():
    assert published("scut-fbp5500", "uol", "matched").pc == 0.9240
    assert published("scut-fbp5500", "uol", "matched-order") is None
    assert transfer_pc("scut-fbp5500", "mebeauty", "uol", "matched-order") == 0.5457
    assert transfer_pc("scut-fbp5500", "mebeauty", "uol", "matched") == 0.5532
    assert transfer_pc("scut-fbp5500", "mebeauty", "order-learning", "matched-consistency") is None
    assert transfer_pc("mebeauty", "scut-fbp5500", "uol", "matched-order") is None
