"""Recipes: the paper's values, and one line for what is wrong."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import timm
import yaml

from uol.errors import CallError
from uol.order.config import LEGACY, ModelConfig, ScoringConfig
from uol.runs.result_checks import other_setting
from uol.training.recipe import (
    Recipe,
    check_recipe,
    dump_recipe,
    load_recipe,
    shipped,
    stored_recipe,
    with_defaults,
)
from uol.training.stepper import learning_rate

RESOLVED = {  # digests of the settings in which each recipe differs from the defaults: later changes must not move them
    "best": "1300be561a6b",
    "demo": "d8e4ca561007",
    "distilled": "0b15f5bc3b55",
    "fast": "8afff0dac4df",
    "half": "394acc09660e",
    "hiera": "e637b9e29236",
    "matched": "d00639f7d960",
    "panels-fast": "156a803ebe41",
    "panels-large": "4605d82ca6a2",
    "paper": "7f62896cf558",
    "paper-calibrated": "c5584a90e5f8",
    "strong": "9e36843d7829",
    "transformer": "9899e75fd8ac",
    "xception": "6be3c028da45",
}


@pytest.mark.parametrize("name", ["paper", "paper-calibrated"])
def test_the_paper_recipes_have_what_the_paper_states(name):
    recipe = load_recipe(name)
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


def test_the_paper_recipe_departs_from_the_paper_in_nothing():
    exact = load_recipe("paper")
    usual = load_recipe("paper-calibrated")
    changed = {name for name in type(exact).model_fields if getattr(exact, name) != getattr(usual, name)}
    assert changed == {"model", "comparator_start", "held_out", "scoring"}
    assert exact.model == usual.model.model_copy(update={"normalise": "mean"})
    assert (exact.held_out, exact.frozen, exact.comparator_start) == (0, 0, "random")
    assert (exact.pairs, exact.order_target) == ("balanced", "hard")
    scoring = exact.scoring
    assert (scoring.samples, scoring.outcomes, scoring.both_directions, scoring.mirror) == (8, "hard", False, False)
    assert scoring.samples == exact.samples


@pytest.mark.parametrize("name", shipped())
def test_shipped_recipes_are_valid_and_survive_a_round_trip(name, tmp_path):
    recipe = load_recipe(name)
    (tmp_path / "copy.yaml").write_text(dump_recipe(recipe), encoding="utf-8")
    assert load_recipe(tmp_path / "copy.yaml") == recipe
    assert timm.is_model(recipe.model.backbone)


@pytest.mark.parametrize("name", ["xception", "transformer", "hiera"])
def test_other_kinds_of_network_differ_from_strong_in_how_they_learn_alone(name):
    own, strong = load_recipe(name), load_recipe("strong", {"model.levels": 5})
    changed = {field for field in type(own).model_fields if getattr(own, field) != getattr(strong, field)}
    learning = {"learning_rate", "final_learning_rate", "weight_decay", "epochs", "frozen"}
    assert changed == {"model"} | learning
    assert own.model == strong.model.model_copy(update={"backbone": own.model.backbone})
    assert own.final_learning_rate == pytest.approx(own.learning_rate / 100)


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5])
def test_a_share_of_the_next_layers_rate_is_above_0_and_at_most_1(share):
    with pytest.raises(CallError, match="layer_decay: must be"):
        load_recipe("strong", {"layer_decay": share})


@pytest.mark.parametrize("name", ["epochs", "learning_rate", "model.resize", "augmentation.rotation", "held_out_seed"])
def test_true_is_no_number(name):
    with pytest.raises(CallError, match=f"{name}: must be a number, not true"):
        load_recipe("strong", {name: True})


@pytest.mark.parametrize(
    "settings", [{"panel_passes": [True, 2.0]}, {"milestones": [[5, True]]}, {"scoring.zooms": [True]}]
)
def test_true_is_no_number_in_a_list(settings):
    with pytest.raises(CallError, match="must be a number"):
        load_recipe("strong", settings)


def test_rates_by_steps_and_by_a_line():
    steps = load_recipe(
        "matched", {"schedule": "steps", "learning_rate": 1e-2, "milestones": [[5, 0.1], [8, 0.01]], "warmup_steps": 0}
    )
    rates = [learning_rate(epoch, 10, steps.with_changes({"epochs": 10})) for epoch in range(10)]
    assert rates == pytest.approx([1e-2] * 5 + [1e-3] * 3 + [1e-4] * 2)
    line = load_recipe("matched", {"schedule": "linear", "learning_rate": 1e-2, "warmup_steps": 500})
    line = line.with_changes({"final_learning_rate": 0.0})
    found = [learning_rate(step, 1500, line) for step in (0, 499, 500, 999, 1499)]
    assert found == pytest.approx([2e-5, 1e-2, 1e-2, 1e-2 * 500 / 999, 0])


def test_changes_reach_inside():
    recipe = Recipe().with_changes({"model.backbone": "resnet18", "epochs": 3})
    assert recipe.model.backbone == "resnet18"
    assert recipe.epochs == 3


def test_stored_settings_may_name_a_border():
    stored = Recipe().model_dump(mode="json")
    stored["model"]["border"] = "edge"
    assert with_defaults(stored) == Recipe().model_dump(mode="json")
    assert Recipe.model_validate(stored) == Recipe()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch: 3", "unknown setting 'epoch'; did you mean 'epochs'"),
        ("model: {backbon: vgg16}", "unknown setting 'backbon'; did you mean 'backbone'"),
        ("epochs: many", "epochs: must be a whole number, not 'many'"),
        ("epochs: -1", "epochs: must be at least 1, not -1"),
        ("model: {resize: 64, crop: 72}", "a crop of 72 pixels does not fit"),
        ("learning_rate: .inf", "learning_rate: must be a finite number, not inf"),
        ("seed: 99999999999999999999", "seed: must be below 4294967296, not 9"),
        ("- a list", "a recipe is a list of settings"),
        ("a: b: c", "not readable as YAML"),
    ],
)
def test_mistakes_are_said_in_one_line(tmp_path, text, message):
    (tmp_path / "recipe.yaml").write_text(text)
    with pytest.raises(CallError, match=message) as caught:
        load_recipe(tmp_path / "recipe.yaml")
    assert "\n" not in str(caught.value)


WRONG = ["x", "x" * 300, None, -1, 1e9, -5.5, float("nan"), True, [], {}, [1, "a"], {"a": 1}, {1: 2}]


def test_no_mistake_in_a_setting_is_said_in_words_of_a_programmer():
    settings = Recipe().model_dump()
    places = [(name,) for name in settings]
    places += [(name, each) for name, group in settings.items() if isinstance(group, dict) for each in group]
    said = set()
    for place in places:
        for value in WRONG:
            try:
                Recipe().with_changes({".".join(place): value})
            except CallError as error:
                said.add(str(error))
    assert len(said) > 300
    for message in said:
        assert re.search(r"\n|should|valid |parse|instance|string|tuple|None|True", message) is None
        assert len(message) < 700  # the names of all settings


def test_unknown_recipes_and_changes():
    with pytest.raises(CallError, match="neither a recipe file nor one that ships"):
        load_recipe("papper")
    with pytest.raises(CallError, match="did you mean 'learning_rate'"):
        Recipe().with_changes({"learning_rat": 1})
    with pytest.raises(CallError, match="backbone contains no settings"):
        Recipe().with_changes({"model.backbone.x": 1})
    with pytest.raises(CallError, match="unknown setting 'modle'"):
        Recipe().with_changes({"modle.backbone": "vgg16"})


def test_an_empty_file_is_the_defaults(tmp_path):
    (tmp_path / "empty.yaml").write_text("")
    assert load_recipe(tmp_path / "empty.yaml") == check_recipe({}, "empty")


DELETED = [name for name in LEGACY if not name.startswith("ensemble.")]


def nested(name, value):
    """Settings with one of them set, by its dotted name."""
    *groups, last = name.split(".")
    return {groups[0]: {last: value}} if groups else {last: value}


@pytest.mark.parametrize("name", DELETED)
def test_a_deleted_setting_is_ignored_if_neutral_and_refused_in_one_line_if_not(name, tmp_path):
    neutral = LEGACY[name].neutral
    assert check_recipe(nested(name, neutral), "old") == Recipe()
    assert Recipe().with_changes({name: neutral}) == Recipe()
    assert with_defaults(nested(name, neutral)) == Recipe().model_dump(mode="json")
    line = rf"recipe: {name}: this setting was removed in 0\.2 \({LEGACY[name].why}\)$"
    with pytest.raises(CallError, match=f"^{line}"):
        Recipe().with_changes({name: "other"})
    (tmp_path / "recipe").write_text(yaml.safe_dump(nested(name, "other")), encoding="utf-8")
    with pytest.raises(CallError, match=line):
        load_recipe(tmp_path / "recipe")


@pytest.mark.parametrize("name", DELETED)
def test_results_with_a_deleted_setting_are_still_read_and_told_apart(name):
    now, neutral, other = ({}, nested(name, LEGACY[name].neutral), nested(name, "other"))
    assert stored_recipe(other, "old") == Recipe()
    assert other_setting(now, neutral) is None
    assert other_setting(neutral, other) is not None
    assert other_setting(other, now) is not None


def test_model_folders_with_deleted_settings_are_still_read():
    for kind in (ModelConfig, ScoringConfig):
        old = {
            name.removeprefix(f"{kind.group}."): legacy.neutral for name, legacy in LEGACY.items() if kind.group in name
        }
        assert kind.model_validate_json(json.dumps(old)) == kind()


def test_shipped_recipes_keep_their_settings():
    assert shipped() == list(RESOLVED)
    for name, digest in RESOLVED.items():
        settings = load_recipe(name).model_dump(mode="json", exclude_defaults=True)
        assert hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12] == digest, name


def test_a_recipe_has_the_settings_of_its_base_unless_it_changes_them(tmp_path):
    (tmp_path / "mine.yaml").write_text("base: half\nmodel: {levels: 5}\naugmentation: {saturation: [1, 1]}\n")
    (tmp_path / "longer.yaml").write_text("base: mine.yaml\nepochs: 30\n")
    changes = {"model.levels": 5, "augmentation.saturation": [1, 1]}
    assert load_recipe(tmp_path / "mine.yaml") == load_recipe("half", changes)
    assert load_recipe(tmp_path / "longer.yaml", {"seed": 7}) == load_recipe(
        "half", {**changes, "epochs": 30, "seed": 7}
    )


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("a.yaml", r"recipes may not be based on each other \(.*a.yaml → .*a.yaml\)"),
        ("b.yaml", r"recipes may not be based on each other \(.*a.yaml → .*b.yaml → .*a.yaml\)"),
        ("absent", "absent: neither a recipe file nor one that ships"),
        ("[half]", r"a.yaml: base: the name of a recipe or a path is required, not \['half'\]"),
    ],
)
def test_a_base_that_cannot_be_used_is_refused_in_one_line(tmp_path, base, message):
    (tmp_path / "a.yaml").write_text(f"base: {base}\n")
    (tmp_path / "b.yaml").write_text("base: a.yaml\n")
    with pytest.raises(CallError, match=message) as caught:
        load_recipe(tmp_path / "a.yaml")
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import uol.training.recipe, uol.runs.result, uol.experiments.tables",
        "from uol.cli import main; sys.argv = ['uol', 'experiment', 'table', 'modules', '--results', RESULTS]; main()",
    ],
)
def test_recipes_results_and_tables_do_not_wait_for_torch(code):
    results = str(Path(__file__).parents[2] / "results")
    begin, end = (
        f"import sys\nRESULTS = {results!r}\ntry:\n    ",
        "\nexcept SystemExit as end:\n    assert not end.code",
    )
    code = f"{begin}{code}{end}\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epochs: 3\nseed: 1\nepochs: 5\n", "'epochs' occurs twice"),
        ("model:\n  crop: 32\n  crop: 64\n", "'crop' occurs twice"),
        ("a: " + "[" * 1000, "nested too deeply"),
        (f"epochs: {'9' * 5000}", "not readable as YAML"),
        ("epochs: 2026-99-99", "not readable as YAML"),
        ("epochs: 10000000000000", "epochs: must be at most 1000000, not 1"),
        ("model: {dimensions: 100000000000}", "model.dimensions: must be at most"),
        ("model: {crop: 100000, resize: 100000}", "model.resize: must be at most"),
        ("batch_size: 1" + "0" * 30, "batch_size: must be"),
        ("learning_rate: .inf", "learning_rate: must be a finite number, not inf"),
        ("#" * 2**21, "larger than a megabyte"),
        ("a: &a [x, x]\nb: &b [*a, *a]\n" + "".join(f"k{i}: &k{i} [*b, *b]\n" for i in range(9)), "unknown setting"),
    ],
)
def test_hostile_recipes_are_refused_in_one_line(tmp_path, text, words):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(CallError, match=words) as caught:
        load_recipe(str(tmp_path / "mine.yaml"))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1500


def test_a_recipe_in_another_encoding_is_refused_in_one_line(tmp_path):
    (tmp_path / "mine.yaml").write_bytes("base: schön".encode("latin-1"))
    with pytest.raises(CallError, match=r"mine.yaml: cannot be read \(not a text file in UTF-8\)$"):
        load_recipe(str(tmp_path / "mine.yaml"))
