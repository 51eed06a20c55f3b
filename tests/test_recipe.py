"""Recipes: the paper's values, and one line for what is wrong."""

from __future__ import annotations

import pytest

from uol.errors import CallError
from uol.training.recipe import Recipe, check_recipe, dump_recipe, load_recipe, shipped


def test_the_paper_recipe_is_the_paper():
    recipe = load_recipe("paper")
    assert (recipe.method, recipe.model.backbone, recipe.optimizer) == ("uol", "vgg16", "adam")
    assert (recipe.batch_size, recipe.learning_rate, recipe.final_learning_rate, recipe.epochs) == (32, 1e-4, 1e-6, 100)
    assert (recipe.model.resize, recipe.model.crop, recipe.augmentation.flip, recipe.augmentation.random_crop) == (
        256,
        224,
        True,
        False,
    )
    assert (recipe.alpha, recipe.beta, recipe.threshold) == (1e-4, 1e-3, 0.2)
    assert (recipe.bin_width, recipe.references_per_bin) == (0.1, 10)


@pytest.mark.parametrize("name", shipped())
def test_shipped_recipes_are_valid_and_survive_a_round_trip(name, tmp_path):
    recipe = load_recipe(name)
    (tmp_path / "copy.yaml").write_text(dump_recipe(recipe), encoding="utf-8")
    assert load_recipe(tmp_path / "copy.yaml") == recipe


def test_changes_reach_inside():
    recipe = Recipe().with_changes({"model.backbone": "resnet18", "epochs": 3})
    assert recipe.model.backbone == "resnet18"
    assert recipe.epochs == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch: 3", "unknown setting 'epoch'; did you mean 'epochs'"),
        ("model: {backbon: vgg16}", "unknown setting 'backbon'; did you mean 'backbone'"),
        ("epochs: many", "epochs: input should be a valid integer"),
        ("epochs: -1", "epochs: input should be greater than or equal to 1"),
        ("model: {resize: 64, crop: 72}", "a crop of 72 pixels does not fit"),
        ("learning_rate: .inf", "learning_rate: input should be a finite number"),
        ("seed: 99999999999999999999", "seed: input should be less than"),
        ("- a list", "a recipe is a list of settings"),
        ("a: b: c", "not readable as YAML"),
    ],
)
def test_mistakes_are_said_in_one_line(tmp_path, text, message):
    (tmp_path / "recipe.yaml").write_text(text)
    with pytest.raises(CallError, match=message) as caught:
        load_recipe(tmp_path / "recipe.yaml")
    assert "\n" not in str(caught.value)


def test_unknown_recipes_and_changes():
    with pytest.raises(CallError, match="neither a recipe file nor one that ships"):
        load_recipe("papper")
    with pytest.raises(CallError, match="did you mean 'learning_rate'"):
        Recipe().with_changes({"learning_rat": 1})
    with pytest.raises(CallError, match="backbone has no settings of its own"):
        Recipe().with_changes({"model.backbone.x": 1})
    with pytest.raises(CallError, match="unknown setting 'modle'"):
        Recipe().with_changes({"modle.backbone": "vgg16"})


def test_an_empty_file_is_the_defaults(tmp_path):
    (tmp_path / "empty.yaml").write_text("")
    assert load_recipe(tmp_path / "empty.yaml") == check_recipe({}, "empty")
