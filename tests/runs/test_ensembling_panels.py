"""Ensembles of networks that know the same panels: calibrated, tested, kept and asked on each of them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from quick import noise, quick_recipe
from uol import datasets
from uol.errors import CallError, UolError
from uol.ratings import metrics
from uol.ratings.rated_images import Split
from uol.runs.ensembling import OtherPanel, build, keep, load_networks, match_runs
from uol.runs.evaluating import evaluate_model
from uol.runs.folder import RunFolder
from uol.runs.multi_panel import PanelSplit
from uol.runs.train_and_test import Origin, train_and_test
from uol.scoring.ensemble import EnsembleScorer
from uol.scoring.released import open_model
from uol.scoring.scorer import Scorer
from uol.serve.facts import model_facts
from uol.training.packed import PackedImages
from uol.training.recipe import held_out_rows

RECIPE = quick_recipe(epochs=1, histogram_weight=0.5).with_changes({"model.levels": 10})
KINDS = {"a": {}, "b": {"seed": 1, "held_out_seed": 0, "model.backbone": "test_resnet"}}
PIXELS = noise(5, seed=2)


@pytest.fixture(scope="module")
def other(drawn_b):
    """Another panel on other images, of which two are copies of test images of the first."""
    images = [np.asarray(image)[:, ::-1].copy() for image in drawn_b.images]
    images[30], images[31] = drawn_b.images[0], drawn_b.images[2]
    return replace(drawn_b, name="other", images=images, splits={"default": Split(np.arange(20, 80), np.arange(20))})


@pytest.fixture(scope="module")
def panels(folded, other):
    packed = [PackedImages.pack(rated, RECIPE.model) for rated in (folded, other)]
    return packed[0], PanelSplit(packed[1], "default", other.splits["default"])


@pytest.fixture(scope="module")
def runs(folded, panels, tmp_path_factory):
    """Two kinds of network on the same panels with the same hold-out."""
    place = tmp_path_factory.mktemp("runs")
    for name, changes in KINDS.items():
        recipe = RECIPE.with_changes(changes)
        split = folded.splits["fold-1"]
        train_and_test(panels[0], "fold-1", split, recipe, place / name, Origin("quick", {}), others=[panels[1]])
    return place


@pytest.fixture(scope="module")
def made(runs, folded, other, panels, tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "two"
    together = [OtherPanel(other, "default", other.splits["default"])]
    (fold,) = match_runs([runs / "a", runs / "b"], folded, out, "two", others=lambda split: together)
    ensemble = build(fold, load_networks(fold), panels[0], [panels[1]])
    return fold, ensemble, keep(ensemble, fold, panels[0], "two", "2026-01-01T00:00:00+00:00", [panels[1]])


@pytest.mark.slow
def test_each_panel_is_calibrated_on_what_all_members_held_out(made, panels, other):
    fold, ensemble, result = made
    rows = np.array([row for row in range(20, 80) if row not in (30, 31)])  # copies of test images had no part
    assert [panel.left_out for panel in result.provenance.panels] == [0, 2]
    kept = panels[1].packed.subset(rows[held_out_rows(len(rows), fold.members[0].recipe)[1]])
    slow = EnsembleScorer([member.on_panel("other") for member in load_networks(fold)])
    slow.calibrate(kept.rated, slow.embed_pixels(kept.centre))
    known = ensemble.other_panels["other"]
    assert known.calibration == slow.calibration
    assert known.calibration.images == len(kept)
    assert known.calibration != ensemble.calibration


@pytest.mark.slow
def test_a_panels_score_is_the_mean_of_the_members_on_it(made):
    fold, ensemble, _ = made
    asked = ensemble.on_panel("other")
    raw = [
        member.raw_estimates(member.embed_pixels(PIXELS)).value
        for member in (network.on_panel("other") for network in load_networks(fold))
    ]
    line = asked.calibration
    expected = np.clip(line.intercept + line.slope * np.mean(raw, 0), 1, 10)
    assert [score.value for score in asked.score_pixels(PIXELS)] == pytest.approx(expected, rel=1e-5)
    together = ensemble.score_panels(PIXELS)
    assert list(together) == ["synthetic-a", "other"]
    for name, scores in together.items():
        alone = ensemble.on_panel(name).score_pixels(PIXELS)
        assert [score.value for score in scores] == pytest.approx([score.value for score in alone], rel=1e-4)
    assert ensemble.on_panel("synthetic-a") is ensemble
    with pytest.raises(CallError, match="panel tother: this model does not know it; did you mean other"):
        ensemble.on_panel("tother")


@pytest.mark.slow
def test_results_and_predictions_of_each_panel_are_kept(made, other):
    fold, _, result = made
    table = pd.read_csv(fold.folder.panel("other").predictions)
    assert table["image"].tolist() == list(other.names[:20])
    there = result.beside["other"]
    assert there.pc == pytest.approx(metrics.pearson(table["score"], table["value"]), abs=1e-4)
    assert there.coverage is not None
    assert result.trained_on == "synthetic-a+other"
    assert result.ensemble == 2


@pytest.mark.slow
def test_a_folder_answers_as_the_ensemble_on_each_panel(made, tmp_path):
    fold, ensemble, _ = made
    again = open_model(fold.folder.model, device="cpu")
    assert [panel.name for panel in again.panels] == ["synthetic-a", "other"]
    for name in ("synthetic-a", "other"):
        expected, found = ensemble.on_panel(name), again.on_panel(name)
        assert found.calibration == expected.calibration
        assert [score.value for score in found.score_pixels(PIXELS)] == pytest.approx(
            [score.value for score in expected.score_pixels(PIXELS)], rel=1e-5
        )
    wide = again.for_new_panel().on_panel("other").score_pixels(PIXELS)[0]
    assert wide.high - wide.low > 1
    assert (
        open_model(fold.folder.model, panel="other", interval="new-panel", device="cpu").score_pixels(PIXELS)[0] == wide
    )
    again.on_panel("other").save_pretrained(tmp_path / "alone")
    assert [panel.name for panel in Scorer.from_pretrained(tmp_path / "alone").panels] == ["other"]
    assert "panels" not in json.loads((tmp_path / "alone" / "config.json").read_text())
    assert [panel.name for panel in model_facts(str(fold.folder.model)).panels] == ["synthetic-a", "other"]
    assert "| other panels | other, 1 to 10 |" in (fold.folder.model / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*without manifest.json")
def test_a_panel_that_a_member_does_not_know_is_refused(made, tmp_path):
    fold, *_ = made
    folder = shutil.copytree(fold.folder.model, tmp_path / "model")
    for path in folder.rglob("manifest.json"):
        path.unlink()
    shutil.rmtree(folder / "members" / "2" / "panels")
    with pytest.raises(UolError, match="not every member knows the panel other"):
        Scorer.from_pretrained(folder)


@pytest.mark.slow
def test_evaluate_asks_the_panel_whose_images_it_is_tested_on(made, panels, other):
    fold, *_, result = made

    def pack(config):
        return PackedImages.pack(other, config, as_arrays=True)

    found = evaluate_model(fold.folder.path, other, None, None, "cpu", pack)
    assert found.split == "default"
    assert found.figures["pc"] == pytest.approx(result.beside["other"].pc, abs=1e-4)
    named = evaluate_model(fold.folder.path, other, None, None, "cpu", pack, panel="synthetic-a")
    assert named.figures["mae"] != found.figures["mae"]


@pytest.mark.slow
def test_panels_that_are_missing_or_others_are_refused(runs, folded, other, panels, tmp_path):
    def refused(message, *others):
        with pytest.raises(CallError, match=message) as caught:
            match_runs([runs / "a", runs / "b"], folded, tmp_path / "out", "two", others=lambda split: others)
        assert "\n" not in str(caught.value)

    split = other.splits["default"]
    refused(r"was trained on other too; name that panel with --with other=FOLDER:SPLIT")
    refused("--with third: .* was not trained on it", OtherPanel(other, "default", split),
            OtherPanel(replace(other, name="third"), "default", split))  # fmt: skip
    refused(
        "other images or ratings than default", OtherPanel(replace(other, scores=other.scores + 0.5), "default", split)
    )
    alone = tmp_path / "alone"
    recipe = RECIPE.with_changes({"seed": 4, "held_out_seed": 0, "model.levels": 5})
    train_and_test(panels[0], "fold-1", folded.splits["fold-1"], recipe, alone, Origin("quick", {}))
    with pytest.raises(CallError, match="was not trained on it"):
        panel = OtherPanel(other, "default", split)
        match_runs([runs / "a", alone], folded, tmp_path / "out", "two", others=lambda split: [panel])


@pytest.mark.slow
def test_from_the_shell(uol, runs, folded, other, tmp_path, monkeypatch):
    known = {"synthetic": folded, "mebeauty": other}
    monkeypatch.setattr(datasets, "load", lambda name, *_, **__: known[name])
    out = tmp_path / "two"
    code, text, err = uol(
        "experiment", "ensemble", runs / "a", runs / "b", "--data", "synthetic", "--with", "mebeauty=x:default",
        "--name", "two", "--out", out, "--json",
    )  # fmt: skip
    assert code == 0, err
    rows = json.loads(text)
    assert [(row["data"], row["split"], row["networks"]) for row in rows] == [
        ("synthetic-a", "fold-1", 2), ("other", "default", 2),
    ]  # fmt: skip
    assert (RunFolder(out).panel("other").predictions).is_file()
    code, _, err = uol(
        "experiment", "ensemble", runs / "a", runs / "b", "--data", "synthetic", "--name", "x", "--out", out
    )
    assert code == 2
    assert "name that panel with --with other=FOLDER:SPLIT" in err
