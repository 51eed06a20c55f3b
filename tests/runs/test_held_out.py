"""Held-out images: what a run keeps of them, and figures of runs and of their average."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from quick import quick_recipe
from uol.errors import CallError, UolError
from uol.ratings import metrics
from uol.runs.folder import RunFolder
from uol.runs.held_out import AVERAGE, figures_of, keep_held_out
from uol.runs.run import hold_out
from uol.runs.train_and_test import Origin, train_and_test
from uol.scoring.scorer import Scorer
from uol.training.packed import PackedImages

HELD_OUT = "held-out.csv"


def test_a_trial_keeps_what_its_network_says_of_held_out_images(drawn, finished_run):
    packed = PackedImages.pack(drawn, quick_recipe().model)
    held_out = hold_out(packed.subset(drawn.splits["default"].train), quick_recipe())[1]
    table, tested = (pd.read_csv(finished_run / name) for name in (HELD_OUT, "predictions.csv"))
    assert list(table) == list(tested)
    assert table["image"].tolist() == list(held_out.rated.names)
    assert not set(table["image"]) & set(tested["image"])
    scores = Scorer.from_pretrained(finished_run / "model").score_exactly(held_out.centre)
    assert np.allclose(table["value"], [score.value for score in scores], atol=1e-4)


def test_nothing_is_written_where_nothing_is_held_out(drawn, tmp_path):
    recipe = quick_recipe(held_out=0)
    keep_held_out(lambda *_: pytest.fail("asked"), PackedImages.pack(drawn, recipe.model), recipe, RunFolder(tmp_path))
    assert not list(tmp_path.iterdir())


def written(place, images, values, scores=None):
    place.mkdir(parents=True)
    scores = np.array([int(image) / 10 for image in images]) if scores is None else scores
    pd.DataFrame({"image": images, "score": scores, "value": values}).to_csv(place / HELD_OUT, index=False)


def test_figures_are_means_over_folds_and_those_of_the_average_over_what_is_common(tmp_path):
    rng = np.random.default_rng(0)
    names = {
        "a": {"fold-1": ["01", "02", "03", "04"], "fold-2": ["03", "04", "05"], "fold-10": ["09", "10"]},
        "b": {"fold-1": ["04", "02", "07", "01"], "fold-2": ["01", "05", "04"]},
    }
    told: dict[str, dict[tuple[str, str], float]] = {"a": {}, "b": {}}
    for run, folds in names.items():
        for fold, images in folds.items():
            values = rng.uniform(1, 5, len(images)).round(3)
            written(tmp_path / run / fold, images, values)
            told[run] |= {(fold, image): value for image, value in zip(images, values, strict=True)}
    common = sorted(told["a"].keys() & told["b"].keys())
    assert len(common) == 5
    told["average"] = {key: (told["a"][key] + told["b"][key]) / 2 for key in common}
    rows = figures_of([tmp_path / "a", tmp_path / "b"])
    assert [row["run"] for row in rows] == [str(tmp_path / "a"), str(tmp_path / "b"), AVERAGE]
    assert [row["folds"] for row in rows] == [3, 2, 2]
    for row, values in zip(rows, told.values(), strict=True):
        assert row["images"] == len(values)
        for name, figure in (("pc", metrics.pearson), ("mae", metrics.mae), ("rmse", metrics.rmse)):
            of_folds = []
            for fold in {fold for fold, _ in values}:
                pairs = [(int(image) / 10, value) for (place, image), value in values.items() if place == fold]
                of_folds.append(figure(*map(np.array, zip(*pairs, strict=True))))
            assert row[name] == pytest.approx(np.mean(of_folds))
    assert len(figures_of([tmp_path / "a"])) == 1
    assert figures_of([tmp_path / "a" / "fold-1"])[0]["images"] == 4


def test_other_seeds_beside_the_folds_are_runs_of_their_own(tmp_path):
    for name, value in (("fold-1", 1.0), ("fold-1-seed-1", 3.0)):
        written(tmp_path / "a" / name, ["10", "20"], [value, value])
    rows = figures_of([tmp_path / "a"])
    assert [row["run"] for row in rows] == [str(tmp_path / "a"), f"{tmp_path / 'a'} (seed 1)", AVERAGE]
    assert [row["mae"] for row in rows] == pytest.approx([0.5, 1.5, 0.5])
    assert rows[0]["pc"] is None


def test_without_images_in_common_there_is_no_average(tmp_path):
    written(tmp_path / "a" / "fold-1", ["1", "2"], [1, 2])
    written(tmp_path / "b" / "fold-2", ["1", "2"], [1, 2])
    assert [row["run"] for row in figures_of([tmp_path / "a", tmp_path / "b"])] == [
        str(tmp_path / "a"), str(tmp_path / "b"),
    ]  # fmt: skip


@pytest.mark.slow
def test_single_runs_are_matched_by_their_split(drawn, tmp_path):
    recipe = quick_recipe(epochs=1)
    packed = PackedImages.pack(drawn, recipe.model)
    for seed in (0, 1):
        settings = recipe.with_changes({"seed": seed, "held_out_seed": 0})
        train_and_test(
            packed, "default", drawn.splits["default"], settings, tmp_path / f"run-{seed}", Origin("quick", {})
        )
    rows = figures_of([tmp_path / "run-0", tmp_path / "run-1"])
    held_out = len(pd.read_csv(tmp_path / "run-0" / HELD_OUT))
    assert [row["images"] for row in rows] == [held_out] * 3


def test_mistakes(tmp_path):
    written(tmp_path / "a" / "fold-1", ["1", "2"], [1, 2])
    written(tmp_path / "other" / "fold-1", ["1", "2"], [1, 2], [3.0, 4.0])
    (tmp_path / "older" / "fold-1").mkdir(parents=True)
    (tmp_path / "broken" / "fold-1").mkdir(parents=True)
    (tmp_path / "broken" / "fold-1" / HELD_OUT).write_text("image,score\n1,2\n")
    with pytest.raises(CallError, match="given twice"):
        figures_of([tmp_path / "a", tmp_path / "a"])
    with pytest.raises(CallError, match=r"other: the ratings of its images differ from those of .*a$"):
        figures_of([tmp_path / "a", tmp_path / "other"])
    with pytest.raises(CallError, match=f"no {HELD_OUT} in its folds"):
        figures_of([tmp_path / "older"])
    with pytest.raises(CallError, match="no such run folder"):
        figures_of([tmp_path / "absent"])
    with pytest.raises(UolError, match="not readable as predictions"):
        figures_of([tmp_path / "broken"])
    (tmp_path / "broken" / "fold-1" / HELD_OUT).write_text("image,score,value\n")
    with pytest.raises(UolError, match="a score or a prediction is missing"):
        figures_of([tmp_path / "broken"])
    written(tmp_path / "twice" / "fold-1", ["1", "1"], [1, 2])
    with pytest.raises(UolError, match=f"{HELD_OUT}: 1 is there twice"):
        figures_of([tmp_path / "twice"])
