"""Releases of several panels: the panel that answers by default, and a card with every panel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import yaml

from measured import left_out_result
from quick import noise, quick_recipe
from uol.errors import CallError
from uol.experiments.collect import add
from uol.experiments.leave_one_out import LEAVE_ONE_OUT
from uol.experiments.release import release, renewed_card
from uol.experiments.release_panels import best_reader, with_first
from uol.ratings.rated_images import Split
from uol.runs.evaluating import find_tested_part
from uol.runs.multi_panel import PanelSplit
from uol.runs.result import write_result
from uol.runs.train_and_test import Origin, train_and_test
from uol.scoring.released import open_model
from uol.scoring.scorer import Scorer
from uol.training.packed import PackedImages

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

RECIPE = quick_recipe(epochs=1, histogram_weight=0.5).with_changes({"model.levels": 10})
COMMIT = "a" * 40
PIXELS = noise(4, seed=9)
GROUPS = pd.DataFrame({"gender": ["female", "male"] * 40})
TESTED = Split(np.arange(30, 80), np.arange(30))


def test_the_default_panel_is_the_one_that_reads_panels_left_out_best():
    found = [
        left_out_result("a", {"b": 0.5, "c": 0.6}),
        left_out_result("b", {"a": 0.9, "c": 0.8}),
        left_out_result("c", {"a": 0.4, "b": 0.3}),
    ]
    # a: +0.05 and +0.05; b: −0.05 and −0.05; c: +0.05 and −0.05
    assert best_reader(found, ["a", "b", "c"]) == "a"
    assert best_reader(found, ["b", "c"]) == "c"
    with pytest.raises(CallError, match="no two panels read the same panel left out"):
        best_reader(found, ["b"])


@pytest.fixture(scope="module")
def place(drawn, drawn_b, tmp_path_factory):
    """A run on all images of two panels, a fold of them that was added to results, and panels left out."""
    place = tmp_path_factory.mktemp("panels")
    images = [np.asarray(image)[:, ::-1].copy() for image in drawn_b.images]
    first, second = replace(drawn, groups=GROUPS), replace(drawn_b, groups=GROUPS, images=images)
    packed = [PackedImages.pack(rated, RECIPE.model) for rated in (first, second)]
    everything = Split(np.arange(80), np.arange(0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UOL_COMMIT", COMMIT)
        for name, split, folder in (("whole", everything, "whole"), ("fold-1", TESTED, "folds/fold-1")):
            other = PanelSplit(packed[1], "whole" if name == "whole" else "default", split)
            train_and_test(packed[0], name, split, RECIPE, place / folder, Origin("quick", {}), others=[other])
        (place / "results" / LEAVE_ONE_OUT).mkdir(parents=True)
        add(place / "folds", place / "results")
    own = left_out_result("synthetic-a", {"synthetic-b": 0.5}, recipe="quick")
    strange = left_out_result("omi", {"synthetic-a": 0.5, "synthetic-b": 0.6}, recipe="quick")  # no panel of the model
    for one in (own, strange):
        write_result(place / "results" / LEAVE_ONE_OUT / one.file_name, one)
    return place


@pytest.mark.slow
def test_another_panel_may_come_first(place):
    scorer = Scorer.from_pretrained(place / "whole")
    turned = with_first(Scorer.from_pretrained(place / "whole"), "synthetic-b")
    assert [panel.name for panel in turned.panels] == ["synthetic-b", "synthetic-a"]
    for name in ("synthetic-a", "synthetic-b"):
        expected = [score.value for score in scorer.on_panel(name).score_pixels(PIXELS)]
        assert [score.value for score in turned.on_panel(name).score_pixels(PIXELS)] == pytest.approx(expected)


@pytest.mark.slow
def test_a_model_of_several_panels_is_released_with_a_card_of_each(place, tmp_path, monkeypatch):
    monkeypatch.setenv("UOL_COMMIT", COMMIT)
    monkeypatch.setattr("uol.experiments.release.best_reader", lambda found, panels: "synthetic-b")
    out = tmp_path / "uol-fast"
    size, difference = release(place / "whole", out, "quick", place / "results")
    assert size == sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    assert difference < 1e-3
    assert [panel.name for panel in open_model(out, "onnx").panels] == ["synthetic-b", "synthetic-a"]
    text = (out / "README.md").read_text()
    assert renewed_card(out, place / "results") == text
    facts = yaml.safe_load(text.split("---\n")[1])
    assert facts["datasets"] == ["synthetic-b", "synthetic-a"]
    assert [one["dataset"]["name"] for one in facts["model-index"][0]["results"]] == ["synthetic-b", "synthetic-a"]
    for words in ("what each of 2 panels would say", "answers for synthetic-b", 'panel="synthetic-a"',
                  "| synthetic-a | 1 to 5 |", "## How well it agrees with the panel of synthetic-a", "| female |",
                  "## Panels it never saw", "--interval new-panel", "the tastes of its panels",
                  "its owner's terms", "Commit aaaa"):  # fmt: skip
        assert words in " ".join(text.split()), words
    assert text.count("By group, on the same test images") == 2
    assert "Not measured" not in text
    assert "omi" not in text


@pytest.mark.slow
def test_a_tested_network_of_several_panels_has_a_card_of_its_own_figures(place, tmp_path, monkeypatch):
    monkeypatch.setattr("uol.experiments.release.best_reader", lambda found, panels: "synthetic-b")
    release(place / "folds" / "fold-1", tmp_path / "uol-fast", "quick", place / "results")
    text = " ".join((tmp_path / "uol-fast" / "README.md").read_text().split())
    assert "the split fold-1 of synthetic-a and the test images of the other panels" in text
    assert "mean over networks" not in text
    assert renewed_card(tmp_path / "uol-fast", place / "results") == (tmp_path / "uol-fast" / "README.md").read_text()


@pytest.mark.slow
def test_a_released_network_of_a_fold_is_tested_on_that_fold(place, drawn, drawn_b, tmp_path, monkeypatch):
    monkeypatch.setattr("uol.experiments.release.best_reader", lambda found, panels: "synthetic-b")
    release(place / "folds" / "fold-1", tmp_path / "uol-fast", "quick", place / "results")
    first = replace(drawn, groups=GROUPS, splits={"fold-1": TESTED})
    part = find_tested_part(tmp_path / "uol-fast", first, None)
    assert (part.split, part.panel, part.keep_in) == ("fold-1", "synthetic-a", None)  # not the panel that comes first
    assert find_tested_part(tmp_path / "uol-fast", first, None, "synthetic-b").panel == "synthetic-b"
    with pytest.raises(CallError, match="its split is fold-1"):
        find_tested_part(tmp_path / "uol-fast", replace(first, splits=first.splits | {"fold-2": TESTED}), "fold-2")


@pytest.mark.slow
def test_without_results_on_panels_left_out_nothing_is_released(place, tmp_path):
    with pytest.raises(CallError, match="no results of recipe other on panels left out; name another with --left-out"):
        release(place / "whole", tmp_path / "tiny", "quick", place / "results", "other")
    assert not (tmp_path / "tiny").exists()
