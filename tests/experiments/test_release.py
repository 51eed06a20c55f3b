"""Releases: a model folder with graphs and a card whose figures are those of the same recipe, and of no other."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from quick import quick_recipe
from uol.errors import CallError, UolError
from uol.experiments.anchoring_curve import measure_anchoring, write_anchoring
from uol.experiments.collect import add
from uol.experiments.release import release, renewed_card
from uol.ratings.rated_images import Split
from uol.runs.train_and_test import Origin, train_and_test
from uol.scoring import released
from uol.scoring.cards import without_metadata
from uol.scoring.released import open_model
from uol.training.packed import PackedImages

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

RECIPE = quick_recipe(epochs=1)
COMMIT = "a" * 40


@pytest.fixture(scope="module")
def finished(drawn, tmp_path_factory):
    """A run on all images, and two folds that were added to results."""
    place = tmp_path_factory.mktemp("release")
    groups = pd.DataFrame({"gender": ["female", "male"] * 40})
    packed = PackedImages.pack(replace(drawn, groups=groups), RECIPE.model)
    origin = Origin("quick", {})
    everything = Split(np.arange(80), np.arange(0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UOL_COMMIT", COMMIT)
        assert train_and_test(packed, "whole", everything, RECIPE, place / "whole", origin) is None
        for name in ("fold-1", "fold-2"):
            train_and_test(packed, name, drawn.splits["default"], RECIPE, place / "folds" / name, origin)
        (place / "results").mkdir()
        add(place / "folds", place / "results")
    return place


@pytest.fixture
def runs(finished, tmp_path, monkeypatch):
    monkeypatch.setenv("UOL_COMMIT", COMMIT)
    return shutil.copytree(finished, tmp_path / "runs")


@pytest.mark.slow
def test_a_released_model_has_graphs_half_the_weight_and_a_card(runs, drawn, drawn_b, monkeypatch):
    size, difference = release(runs / "whole", runs / "tiny", "quick", runs / "results")
    assert size == sum(path.stat().st_size for path in (runs / "tiny").iterdir())
    assert difference < 1e-3
    weights = "model.safetensors"
    assert (runs / "tiny" / weights).stat().st_size < 0.7 * (runs / "whole" / "model" / weights).stat().st_size
    text = (runs / "tiny" / "README.md").read_text()
    found = measure_anchoring(str(runs / "tiny"), drawn_b, "default", "tiny", draws=2)
    write_anchoring(runs / "results", found)
    assert renewed_card(runs / "tiny", runs / "results") != text
    text = renewed_card(runs / "tiny", runs / "results")
    assert without_metadata(text).startswith("# tiny\n")
    facts = yaml.safe_load(text.split("---\n")[1])
    assert (facts["license_name"], facts["datasets"]) == ("non-commercial-research", [drawn.name])
    assert [one["type"] for one in facts["model-index"][0]["results"][0]["metrics"]] == ["pearsonr", "mae", "rmse"]
    for words in ("measures nothing about a", "2 of the five official folds", "| female |", "Not for decisions",
                  "non-commercial", "Commit aaaa", "Anchored with rated images of synthetic-b"):  # fmt: skip
        assert words in " ".join(text.split()), words
    by_graph = open_model(runs / "tiny", "onnx").score(drawn.images[:2])
    by_torch = open_model(runs / "tiny", "torch").score(drawn.images[:2])
    assert [a.value for a in by_graph] == pytest.approx([b.value for b in by_torch], abs=1e-3)


@pytest.mark.slow
def test_figures_of_other_settings_are_not_this_models(runs, drawn):
    origin, packed = Origin("quick", {}), PackedImages.pack(drawn, RECIPE.model)
    other = quick_recipe(epochs=1, alpha=0.5)
    train_and_test(packed, "whole", Split(np.arange(80), np.arange(0)), other, runs / "other", origin)
    with pytest.raises(UolError, match=r"alpha is 0\.5, but 0\.0001 in the results of quick"):
        release(runs / "other", runs / "tiny", "quick", runs / "results")
    with pytest.raises(CallError, match="no results of recipe strong"):
        release(runs / "whole", runs / "tiny", "strong", runs / "results")
    with pytest.raises(CallError, match="not a finished run"):
        release(runs / "folds", runs / "tiny", "quick", runs / "results")
    assert not (runs / "tiny").exists()


@pytest.mark.slow
def test_the_card_of_a_tested_network_has_its_own_figures(runs, drawn):
    release(runs / "folds" / "fold-2", runs / "tiny", "quick", runs / "results")
    text = " ".join((runs / "tiny" / "README.md").read_text().split())
    result = json.loads((runs / "folds" / "fold-2" / "result.json").read_text())
    assert "This very network was tested" in text
    assert "those of the split fold-2" in text
    assert "folds" not in text.split("## By")[0].split("## How well")[1]
    assert f"| Pearson correlation | {result['metrics']['pc']:.4f} |" in text
    assert renewed_card(runs / "tiny", runs / "results") == (runs / "tiny" / "README.md").read_text()
    path = next((runs / "results" / drawn.name).glob("*fold-2*.json"))
    path.write_text(path.read_text().replace(result["provenance"]["started"], "2020-01-01T00:00:00+00:00"))
    with pytest.raises(CallError, match="no results of recipe quick; uol experiment add takes them there"):
        release(runs / "folds" / "fold-2", runs / "other", "quick", runs / "results")


@pytest.mark.slow
def test_a_panel_is_not_anchored_to_itself(runs, drawn):
    with pytest.raises(CallError, match="a panel that .* was trained on; anchoring is for another"):
        measure_anchoring(str(runs / "whole"), drawn, "default", "tiny")


@pytest.mark.slow
@pytest.mark.parametrize("name", released.names())
def test_cards_of_models_that_ship_are_as_the_results_make_them(name):
    folder = released.find_model(name)
    results = Path(__file__).parents[2] / "results"
    assert renewed_card(folder, results) == (folder / "README.md").read_text(encoding="utf-8"), "uol experiment docs"


@pytest.mark.slow
def test_settings_that_came_later_do_not_make_older_results_strangers(runs, drawn):
    path = next((runs / "results" / drawn.name).glob("*fold-1*.json"))
    kept = json.loads(path.read_text())
    del kept["provenance"]["settings"]["augmentation"]["bend"], kept["provenance"]["settings"]["histogram_weight"]
    kept["provenance"]["settings"]["antisymmetric"] = False  # a switch of older versions
    path.write_text(json.dumps(kept))
    release(runs / "whole", runs / "tiny", "quick", runs / "results")
    assert add(runs / "folds", runs / "results", replace=True)


@pytest.mark.slow
def test_only_folds_of_single_networks_are_in_a_card(runs, drawn):
    packed = PackedImages.pack(drawn, RECIPE.model)
    train_and_test(packed, "60-40", drawn.splits["default"], RECIPE, runs / "half", Origin("quick", {}))
    add(runs / "half", runs / "results")
    release(runs / "whole", runs / "tiny", "quick", runs / "results")
    assert "2 of the five" in " ".join((runs / "tiny" / "README.md").read_text().split())


@pytest.mark.slow
def test_a_curve_of_another_network_is_not_in_a_card(runs, drawn_b):
    found = measure_anchoring(str(runs / "folds" / "fold-1"), drawn_b, "default", "tiny", draws=2)
    write_anchoring(runs / "results", found)
    release(runs / "whole", runs / "tiny", "quick", runs / "results")
    assert "Anchored with" not in (runs / "tiny" / "README.md").read_text()
