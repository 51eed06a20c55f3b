"""The recipes that ship are those that their results were made with, and plans those of their rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from uol.experiments.plans import PLANS
from uol.runs.result import read_result, result_files
from uol.training.recipe import load_recipe, shipped, with_defaults

RESULTS = Path(__file__).parents[2] / "results" / "scut-fbp5500"
BY_RUN = ("method", "seed", "init", "engine", "teachers")  # what a run chooses: weights and teachers are files
WITHOUT = {
    "demo": "for drawn faces",
    "hiera": "results of panels left out alone",
    "panels-fast": "results of several panels",
    "panels-large": "results of several panels",
}
ROWS = {row.recipe: row for plan in PLANS.values() for row in plan.rows}


def results_of(recipe):
    return [read_result(path) for path in result_files(RESULTS) if f"-{recipe}-fold-" in path.name]


def differing(recipe, result):
    """Settings that are not the recipe's, with both values."""
    wanted, found = recipe.model_dump(mode="json"), with_defaults(result.provenance.settings)
    assert wanted.keys() == found.keys()
    return {key: (wanted[key], found[key]) for key in wanted if key not in BY_RUN and wanted[key] != found[key]}


@pytest.mark.parametrize("name", [name for name in shipped() if name not in WITHOUT])
def test_a_recipe_is_the_one_of_its_results(name):
    found = [result for result in results_of(name) if result.recipe == name]
    assert found
    for result in found:
        assert differing(load_recipe(name), result) == {}, result.file_name


def test_the_headline_recipes_have_all_their_results():
    count = {name: sum(r.recipe == name for r in results_of(name)) for name in ("paper", "matched", "half", "best")}
    assert count == {"paper": 15, "matched": 55, "half": 3, "best": 5}


@pytest.mark.parametrize("name", [name for name in ROWS if results_of(name)])
def test_a_row_of_a_plan_is_the_one_of_its_results(name):
    row = ROWS[name]
    for result in (result for result in results_of(name) if result.recipe == name):
        assert differing(load_recipe(row.base, row.changes), result) == {}, result.file_name
