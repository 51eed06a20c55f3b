"""The curve of anchoring: the same figures as anchoring by hand, on the model's own scale."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from quick import quick_recipe
from uol.errors import CallError
from uol.experiments.anchoring_curve import anchoring_curve, measure_anchoring
from uol.ratings.metrics import mae, rmse
from uol.ratings.rated_images import Split
from uol.runs.run import run
from uol.scoring.ensemble import EnsembleScorer
from uol.training.packed import PackedImages


@pytest.fixture(scope="module")
def embedded(trained, drawn_b):
    return trained.scorer.embed_pixels(PackedImages.pack(drawn_b, trained.scorer.config).centre)


def test_points_are_what_anchoring_by_hand_gives(trained, drawn_b, embedded):
    split = drawn_b.splits["default"]
    seen = []
    points = anchoring_curve(trained.scorer, drawn_b, embedded, split, (20,), 3, progress=seen.append)
    assert [(point.anchors, point.draws) for point in points] == [(0, 1), (20, 3), (len(split.train), 1)]
    assert seen == [1, 2, 3, 4]
    everything = trained.scorer.anchor(drawn_b.subset(split.train))
    test = drawn_b.subset(split.test)
    values = np.array([score.value for score in everything.score(test.images)])
    unit = trained.scorer.panel.scale.unit / drawn_b.scale.unit
    assert points[-1].mean.rmse == pytest.approx(rmse(test.scores, values) * unit, rel=1e-4)
    plain = np.array([score.value for score in trained.scorer.score(test.images)])
    moved = test.rescaled(trained.scorer.panel.scale)
    assert points[0].mean.mae == pytest.approx(mae(moved.scores, plain), rel=1e-4)
    assert points[1].sd.rmse > 0


@pytest.mark.slow
def test_an_ensemble_is_anchored_as_a_whole(trained, drawn, drawn_b):
    recipe = quick_recipe(seed=1)
    other = run(PackedImages.pack(drawn, recipe.model), recipe, accelerator="cpu")
    ensemble = EnsembleScorer([trained.scorer, other.scorer])
    split = drawn_b.splits["default"]
    pixels = PackedImages.pack(drawn_b, ensemble.config).centre
    points = anchoring_curve(ensemble, drawn_b, ensemble.embed_pixels(pixels), split, (20,), 2)
    test = drawn_b.subset(split.test)
    values = [score.value for score in ensemble.anchor(drawn_b.subset(split.train)).score(test.images)]
    unit = ensemble.panel.scale.unit / drawn_b.scale.unit
    assert points[-1].mean.rmse == pytest.approx(rmse(test.scores, np.array(values)) * unit, rel=1e-4)
    assert points[1].anchors == 20


def test_draws_follow_from_the_seed(trained, drawn_b, embedded):
    split = drawn_b.splits["default"]
    once, again, other = (
        anchoring_curve(trained.scorer, drawn_b, embedded, split, (20,), 2, seed=seed) for seed in (0, 0, 1)
    )
    assert [point.mean.rmse for point in once] == [point.mean.rmse for point in again]
    assert once[1].mean.rmse != other[1].mean.rmse


def test_what_cannot_be_drawn_is_refused(trained, drawn_b, embedded):
    split = drawn_b.splits["default"]
    with pytest.raises(CallError, match="5 anchors: at least 10"):
        anchoring_curve(trained.scorer, drawn_b, embedded, split, (5,))
    with pytest.raises(CallError, match="needs a split with test images"):
        anchoring_curve(trained.scorer, drawn_b, embedded, Split(split.train, split.test[:0]))


def test_panels_that_trained_the_model_or_its_teachers_are_refused(finished_run, drawn_b, tmp_path, monkeypatch):
    monkeypatch.setenv("UOL_COMMIT", "ab" * 20)
    values = json.loads((finished_run / "result.json").read_text())
    taught_by = {"name": drawn_b.name, "fingerprint": drawn_b.fingerprint, "split": "default"}
    values["provenance"]["teachers"] = [
        {"model": "runs/teacher", "recipe": None, "seed": None, "commit": None, "weights": "ab", "data": [taught_by]}
    ]
    (tmp_path / "result.json").write_text(json.dumps(values))
    (tmp_path / "model").symlink_to(finished_run / "model")
    for rated in (drawn_b, replace(drawn_b, name="synthetic-a")):
        with pytest.raises(CallError, match=f"{rated.name}: a panel that .* was trained on; anchoring is for another"):
            measure_anchoring(str(tmp_path / "model"), rated, "default", "curve")
