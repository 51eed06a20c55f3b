"""Releases: a model folder with graphs and a card whose figures are those of the same recipe, and of no other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from quick import quick_recipe
from uol.errors import CallError, UolError
from uol.ratings.rated_images import Split
from uol.runs.averaging import average, keep_average
from uol.runs.ensembling import match_runs
from uol.runs.train_and_test import Origin, trial
from uol.scoring import released
from uol.scoring.released import fingerprint, open_model
from uol.scoring.scorer import Scorer
from uol.storage import provenance
from uol.studies.anchoring import measure_anchoring, write_anchoring
from uol.studies.collect import add
from uol.studies.release import release, renewed_card
from uol.studies.release_together import release_together
from uol.training.batches import PackedImages

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

RECIPE = quick_recipe(epochs=1)


@pytest.fixture
def runs(drawn, tmp_path, monkeypatch):
    monkeypatch.setenv("UOL_COMMIT", "a" * 40)
    groups = pd.DataFrame({"gender": ["female", "male"] * 40})
    packed = PackedImages.pack(replace(drawn, groups=groups), RECIPE.model)
    origin = Origin("quick", {})
    everything = Split(np.arange(80), np.arange(0))
    assert trial(packed, "whole", everything, RECIPE, tmp_path / "whole", origin) is None
    for fold in (1, 2):
        trial(packed, f"fold-{fold}", drawn.splits["default"], RECIPE, tmp_path / "folds" / f"fold-{fold}", origin)
    (tmp_path / "results").mkdir()
    add(tmp_path / "folds", tmp_path / "results")
    return tmp_path


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
    assert text.startswith("# tiny\n")
    for words in ("measures nothing about a", "2 of the five official folds", "| female |", "Not for decisions",
                  "non-commercial", "Commit aaaa", "Anchored with rated images of synthetic-b"):  # fmt: skip
        assert words in " ".join(text.split()), words
    by_graph = open_model(runs / "tiny", "onnx").score(drawn.images[:2])
    by_torch = open_model(runs / "tiny", "torch").score(drawn.images[:2])
    assert [a.value for a in by_graph] == pytest.approx([b.value for b in by_torch], abs=1e-3)


def test_figures_of_other_settings_are_not_this_models(runs, drawn):
    origin, packed = Origin("quick", {}), PackedImages.pack(drawn, RECIPE.model)
    other = quick_recipe(epochs=1, alpha=0.5)
    trial(packed, "whole", Split(np.arange(80), np.arange(0)), other, runs / "other", origin)
    with pytest.raises(UolError, match=r"alpha is 0\.5, but 0\.0001 in the results of quick"):
        release(runs / "other", runs / "tiny", "quick", runs / "results")
    with pytest.raises(CallError, match="no results of recipe strong"):
        release(runs / "whole", runs / "tiny", "strong", runs / "results")
    with pytest.raises(CallError, match="not a run on a whole data set"):
        release(runs / "folds" / "fold-1", runs / "tiny", "quick", runs / "results")
    assert not (runs / "tiny").exists()


def test_a_panel_is_not_anchored_to_itself(runs, drawn):
    with pytest.raises(CallError, match="a panel that .* was trained on; anchoring is for another"):
        measure_anchoring(str(runs / "whole"), drawn, "default", "tiny")


@pytest.mark.parametrize("name", released.names())
def test_cards_of_models_that_ship_are_as_the_results_make_them(name):
    folder = released.find_model(name)
    results = Path(__file__).parents[2] / "results"
    assert renewed_card(folder, results) == (folder / "README.md").read_text(encoding="utf-8"), "uol experiment docs"


def test_settings_that_came_later_do_not_make_older_results_strangers(runs, drawn):
    path = next((runs / "results" / drawn.name).glob("*fold-1*.json"))
    kept = json.loads(path.read_text())
    del kept["provenance"]["settings"]["augmentation"]["blur"], kept["provenance"]["settings"]["antisymmetric"]
    path.write_text(json.dumps(kept))
    release(runs / "whole", runs / "tiny", "quick", runs / "results")
    assert add(runs / "folds", runs / "results", replace=True)


def test_only_folds_of_single_networks_are_in_a_card(runs, drawn):
    packed = PackedImages.pack(drawn, RECIPE.model)
    trial(packed, "60-40", drawn.splits["default"], RECIPE, runs / "half", Origin("quick", {}))
    add(runs / "half", runs / "results")
    release(runs / "whole", runs / "tiny", "quick", runs / "results")
    assert "2 of the five" in " ".join((runs / "tiny" / "README.md").read_text().split())


def test_a_curve_of_another_network_is_not_in_a_card(runs, drawn_b):
    found = measure_anchoring(str(runs / "folds" / "fold-1"), drawn_b, "default", "tiny", draws=2)
    write_anchoring(runs / "results", found)
    release(runs / "whole", runs / "tiny", "quick", runs / "results")
    assert "Anchored with" not in (runs / "tiny" / "README.md").read_text()


@pytest.fixture
def shelf(runs, drawn, monkeypatch):
    """Two models that ship, of two recipes, and the results of both and of their mean."""
    other = quick_recipe(epochs=1, alpha=0.5)
    packed, origin = PackedImages.pack(drawn, other.model), Origin("other", {})
    trial(packed, "whole", Split(np.arange(80), np.arange(0)), other, runs / "other-whole", origin)
    for fold in ("fold-1", "fold-2"):
        trial(packed, fold, drawn.splits["default"], other, runs / "other" / fold, origin)
    folded = replace(drawn, splits=dict.fromkeys(("fold-1", "fold-2"), drawn.splits["default"]))
    begun = (provenance.now(), provenance.commit())
    for fold in match_runs([runs / "folds", runs / "other"], folded, runs / "mean", "both", "predictions"):
        keep_average(average(fold, folded), fold, folded, "both", begun)
    for folder in ("other", "mean"):
        add(runs / folder, runs / "results")
    release(runs / "whole", runs / "shelf" / "a", "quick", runs / "results")
    release(runs / "other-whole", runs / "shelf" / "b", "other", runs / "results")
    monkeypatch.setattr(released, "_FOLDER", runs / "shelf")
    return runs / "shelf"


def test_models_that_ship_are_released_as_one(shelf, runs, drawn):
    results = runs / "results"
    release_together(["a", "b"], shelf / "c", "both", results, drawn)
    assert released.names() == ["a", "b", "c"]
    assert {path.name for path in (shelf / "c").iterdir()} == {"config.json", "provenance.json", "README.md"}
    together = Scorer.from_pretrained("c")
    values = [score.value for score in together.score(drawn.images[:5])]
    alone = [[m.raw_estimates(m.embed(drawn.images[:5])).value for m in together.members]]
    line = together.calibration
    assert values == pytest.approx(np.clip(line.intercept + line.slope * np.mean(alone[0], 0), 1, 5), abs=1e-5)
    assert line.images == 16  # those that both held out
    text = (shelf / "c" / "README.md").read_text()
    assert text == renewed_card(shelf / "c", results)
    for words in ("`a`, `b`, which ship beside it", "the mean of the predictions of networks", "measures nothing"):
        assert words in " ".join(text.split())
    before = fingerprint(shelf / "c")
    config = json.loads((shelf / "a" / "config.json").read_text())
    config["calibration"]["slope"] += 0.1
    (shelf / "a" / "config.json").write_text(json.dumps(config))
    assert fingerprint(shelf / "c") != before
    release_together(["a", "b"], shelf / "c", "both", results, drawn)  # an older one is replaced


def test_what_cannot_be_released_as_one_is_refused(shelf, runs, drawn, drawn_b):
    results = runs / "results"
    with pytest.raises(CallError, match="absent: no model that ships"):
        release_together(["a", "absent"], shelf / "c", "both", results, drawn)
    with pytest.raises(CallError, match="a: named twice"):
        release_together(["a", "a"], shelf / "c", "both", results, drawn)
    with pytest.raises(CallError, match="trained on other images or ratings than those of synthetic-b"):
        release_together(["a", "b"], shelf / "c", "both", results, drawn_b)
    with pytest.raises(CallError, match="no results of recipe quick"):
        release_together(["a", "b"], shelf / "c", "quick", results, drawn)
    told = json.loads((shelf / "b" / "provenance.json").read_text())
    for key, value in (("recipe", "quick"), ("settings", told["settings"] | {"alpha": 0.7})):
        (shelf / "b" / "provenance.json").write_text(json.dumps(told | {key: value}))
        with pytest.raises(CallError, match=r"b: no network of its recipe \w+ is in the results of both"):
            release_together(["a", "b"], shelf / "c", "both", results, drawn)
    told["settings"]["held_out_seed"] = 3
    (shelf / "b" / "provenance.json").write_text(json.dumps(told))
    with pytest.raises(CallError, match="held out different images"):
        release_together(["a", "b"], shelf / "c", "both", results, drawn)
    assert not (shelf / "c").exists()
