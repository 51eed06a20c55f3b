"""Trials: what a run folder holds, that test labels reach nothing in it, and that a killed process loses no epoch."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image
from safetensors.torch import load_file

from quick import quick_recipe
from uol.errors import CallError
from uol.ratings import metrics
from uol.ratings.rated_images import Split
from uol.runs.evaluating import evaluate_on
from uol.runs.folder import RunFolder
from uol.runs.predictions import keep_evaluation
from uol.runs.result import read_result, write_result
from uol.runs.run import run
from uol.runs.train_and_test import Origin, finished, train_and_test
from uol.scoring.scorer import Scorer
from uol.training.checkpoint import read_progress
from uol.training.packed import PackedImages

ORIGIN = Origin("quick", {"epochs": 3})


def tried(rated, folder, recipe=None, origin=ORIGIN, split=None):
    recipe = recipe or quick_recipe()
    packed = PackedImages.pack(rated, recipe.model)
    return train_and_test(packed, "default", split or rated.splits["default"], recipe, folder, origin)


@pytest.mark.slow
def test_a_run_folder_is_whole_and_its_figures_follow_from_its_predictions(drawn, tmp_path):
    groups = pd.DataFrame({"gender": ["f", "m"] * 40, "score": ["a", "b"] * 40})
    result = tried(replace(drawn, groups=groups), tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "checkpoint.safetensors", "held-out.csv", "log.txt", "metrics.csv", "model", "predictions.csv", "recipe.yaml",
        "result.json",
    ]  # fmt: skip
    table = pd.read_csv(tmp_path / "run" / "predictions.csv")
    assert list(table) == ["image", "score", "rating_sd", "value", "low", "high", "dispersion", "gender", "group score"]
    test = drawn.subset(drawn.splits["default"].test)
    assert table["image"].tolist() == list(test.names)
    assert np.allclose(table["rating_sd"], np.sqrt(test.variances), rtol=1e-5)
    assert result.metrics.pc == pytest.approx(metrics.pearson(table["score"], table["value"]), abs=1e-4)
    assert result.metrics.rmse == pytest.approx(metrics.rmse(table["score"], table["value"]), abs=1e-4)
    assert result.score_sd == pytest.approx(np.std(test.scores))
    assert result == read_result(tmp_path / "run" / "result.json")
    made = result.provenance
    assert made.settings == quick_recipe().model_dump(mode="json")
    assert made.changes == {"epochs": 3}
    assert (made.data.training, made.data.held_out, made.data.test) == (48, 12, 20)
    assert made.seconds >= 3 * made.seconds_per_epoch * 0.5
    log = (tmp_path / "run" / "log.txt").read_text().splitlines()
    assert len(log) == 2
    assert "finished: PC" in log[1]


@pytest.mark.slow
def test_all_images_train_where_none_are_held_out(drawn, tmp_path):
    """As in the paper: intervals are then the likelihood's own. Scores by samples are the same when asked again."""
    scoring = {"samples": 4, "outcomes": "hard", "both_directions": False}
    model = quick_recipe().model.model_dump() | {"normalise": "mean"}
    recipe = quick_recipe(held_out=0, epochs=12, model=model, comparator_start="random", scoring=scoring)
    result = tried(drawn, tmp_path / "run", recipe)
    assert (result.provenance.data.training, result.provenance.data.held_out) == (60, 0)
    assert not (tmp_path / "run" / "held-out.csv").exists()
    scorer = Scorer.from_pretrained(tmp_path / "run" / "model")
    assert scorer.config.normalise == "mean"
    assert (scorer.calibration.images, scorer.calibration.slope, scorer.calibration.floor) == (0, 1, 0)
    assert scorer.calibration.dispersion_intercept is not None
    table = pd.read_csv(tmp_path / "run" / "predictions.csv")
    test = PackedImages.pack(drawn, recipe.model).subset(drawn.splits["default"].test)
    figures, again = evaluate_on(scorer, test)
    assert np.allclose(again["value"], table["value"], atol=1e-4)
    assert (again["low"] < again["high"]).all()
    assert figures["pc"] == pytest.approx(result.metrics.pc, abs=1e-4)


@pytest.mark.slow
def test_a_network_that_is_trained_with_attributes_is_tested_with_them(drawn, tmp_path):
    groups = pd.DataFrame({"gender": ["female", "male"] * 40, "ethnicity": ["asian", "caucasian", "black", ""] * 20})
    rated, recipe = replace(drawn, groups=groups), quick_recipe(method="aanet")
    tried(rated, tmp_path / "run", recipe)
    table = pd.read_csv(tmp_path / "run" / "predictions.csv")
    packed, split = PackedImages.pack(rated, recipe.model), drawn.splits["default"]
    method, test = run(packed.subset(split.train), recipe, tmp_path / "run"), packed.subset(split.test)
    assert np.allclose(table["value"], method.predict(test.centre, test.attributes).value, rtol=1e-5)
    assert not np.allclose(table["value"], method.predict(test.centre).value, rtol=1e-5)


@pytest.mark.slow
def test_shuffled_test_labels_change_nothing_that_was_trained(drawn, tmp_path):
    """Weights, optimiser, references, calibration and predictions are bit for bit the same."""
    test = drawn.splits["default"].test
    mixed = test.copy()
    np.random.default_rng(0).shuffle(mixed)
    order = np.arange(len(drawn))
    order[test] = mixed
    other = replace(
        drawn, scores=drawn.scores[order], variances=drawn.variances[order], counts=drawn.counts[order],
        histograms=drawn.histograms[order], ratings=None,
    )  # fmt: skip
    assert not np.array_equal(other.scores, drawn.scores)
    recipe = quick_recipe(order_target="soft", pairs="all", score_weight=1.0, histogram_weight=0.5)
    first, second = tried(drawn, tmp_path / "a", recipe), tried(other, tmp_path / "b", recipe)
    for file in ("checkpoint.safetensors", "model/model.safetensors", "model/references.safetensors"):
        one, two = load_file(tmp_path / "a" / file), load_file(tmp_path / "b" / file)
        assert one.keys() == two.keys()
        assert all(one[key].equal(two[key]) for key in one)
    assert (tmp_path / "a/model/config.json").read_bytes() == (tmp_path / "b/model/config.json").read_bytes()
    tables = [pd.read_csv(tmp_path / run / "predictions.csv") for run in ("a", "b")]
    for column in ("value", "low", "high", "dispersion"):
        assert np.array_equal(tables[0][column], tables[1][column])
    assert first.metrics.pc != second.metrics.pc


@pytest.fixture
def run_copy(finished_run, tmp_path):
    return shutil.copytree(finished_run, tmp_path / "run")


def test_a_finished_trial_is_not_run_again_unless_something_changed(drawn, run_copy):
    first = read_result(run_copy / "result.json")
    before = (run_copy / "model" / "model.safetensors").stat().st_mtime_ns
    assert tried(drawn, run_copy) == first
    assert (run_copy / "model" / "model.safetensors").stat().st_mtime_ns == before
    pixels = first.provenance.data.pixels
    assert finished(RunFolder(run_copy), drawn, pixels, "default", quick_recipe()) == first
    assert finished(RunFolder(run_copy), drawn, pixels, "fold-1", quick_recipe()) is None
    assert finished(RunFolder(run_copy), drawn, "other", "default", quick_recipe()) is None
    with pytest.raises(CallError, match="other settings"):
        tried(drawn, run_copy, quick_recipe(seed=4))
    settings = {name: value for name, value in first.provenance.settings.items() if name != "schedule"}
    older = first.model_copy(update={"provenance": first.provenance.model_copy(update={"settings": settings})})
    write_result(run_copy / "result.json", older)  # made before there was such a setting
    assert finished(RunFolder(run_copy), drawn, pixels, "default", quick_recipe()) == older
    assert finished(RunFolder(run_copy), drawn, pixels, "default", quick_recipe(schedule="linear")) is None


@pytest.mark.slow
def test_without_test_images_there_is_a_model_but_no_result(drawn, tmp_path):
    assert tried(drawn, tmp_path / "run", split=Split(np.arange(80), np.arange(0))) is None
    assert Scorer.from_pretrained(tmp_path / "run" / "model").panel.name == drawn.name
    assert "no images to test on" in (tmp_path / "run" / "log.txt").read_text()


def test_another_panel_is_mapped_to_the_models_scale(trained, drawn_b, tmp_path):
    packed = PackedImages.pack(drawn_b, trained.recipe.model)
    figures, table = evaluate_on(trained.scorer, packed)
    assert np.allclose(table["score"], drawn_b.scale.rescale(drawn_b.scores, trained.scale))
    assert figures["mae"] == pytest.approx(np.abs(table["score"] - table["value"]).mean())
    keep_evaluation(RunFolder(tmp_path), "b", None, "whole", figures, table)
    assert len(pd.read_csv(tmp_path / "evaluations" / "b.csv")) == 80


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="kills a process")
def test_a_killed_process_goes_on_where_it_was(drawn, uol, tmp_path, monkeypatch):
    """Ended by SIGKILL in the middle of an epoch, and run again: the weights are those of one that was left alone."""
    rows = ["image,mean"]
    for name, pixels, score in zip(drawn.names[:64], drawn.images, drawn.scores, strict=False):
        Image.fromarray(np.asarray(pixels)).save(tmp_path / f"{name}.png")
        rows.append(f"{name}.png,{score}")
    (tmp_path / "ratings.csv").write_text("\n".join(rows))
    own = ["--data", "own", "--root", str(tmp_path), "--table", str(tmp_path / "ratings.csv"), "--scale", "1", "5"]
    recipe = quick_recipe(epochs=30, validate_every=0).model_dump(mode="json", exclude_defaults=True)
    (tmp_path / "quick.yaml").write_text(yaml.safe_dump(recipe))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)  # the same device in this process

    def words(out):
        return ["train", *own, "--recipe", str(tmp_path / "quick.yaml"), "--out", str(tmp_path / out)]

    checkpoint = tmp_path / "killed" / "checkpoint.safetensors"
    code = f"import sys; sys.argv = ['uol', *{words('killed')!r}]; from uol.cli import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.DEVNULL)
    patience = time.monotonic() + 120
    while not (checkpoint.exists() and read_progress(checkpoint).epoch >= 3):
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < patience
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    at = read_progress(checkpoint).epoch
    assert 3 <= at < 30
    assert uol(*words("killed"))[0] == 0
    assert uol(*words("whole"))[0] == 0
    one, two = (load_file(tmp_path / run / "model" / "model.safetensors") for run in ("killed", "whole"))
    assert all(one[key].equal(two[key]) for key in one)
    epochs = pd.read_csv(tmp_path / "killed" / "metrics.csv")["epoch"]
    assert epochs.tolist() == list(range(1, 31))


def test_other_photographs_under_the_same_names_are_another_run(drawn, run_copy):
    with pytest.raises(CallError, match="on other images"):
        tried(replace(drawn, images=np.asarray(drawn.images)[::-1].copy()), run_copy)


def test_what_is_left_of_a_run_without_its_checkpoint_is_not_mixed_with_another(drawn, run_copy):
    (run_copy / "checkpoint.safetensors").unlink()
    with pytest.raises(CallError, match=r"holds the result.json of a run whose checkpoint is gone"):
        tried(drawn, run_copy, quick_recipe(seed=4))


def test_a_refused_call_leaves_the_log_alone(drawn, run_copy):
    before = (run_copy / "log.txt").read_text()
    with pytest.raises(CallError, match="other settings"):
        tried(drawn, run_copy, quick_recipe(seed=4))
    assert (run_copy / "log.txt").read_text() == before


def test_a_lost_or_damaged_table_of_losses_does_not_stop_a_run(drawn, run_copy):
    (run_copy / "result.json").unlink()
    (run_copy / "metrics.csv").write_text("epoch,total\n1,x\n")
    again = tried(drawn, run_copy)
    assert again.provenance.seconds is None


@pytest.mark.parametrize("name", [".hidden", "a/b", ""])
def test_names_that_cannot_be_kept_are_refused_at_once(drawn, tmp_path, name):
    with pytest.raises(CallError, match="cannot name a result"):
        tried(drawn, tmp_path / "run", origin=Origin(name, {}))
    assert not (tmp_path / "run").exists()
