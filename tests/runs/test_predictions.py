"""Replicates and spread follow from predictions, also for runs that were kept without them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from measured import elsewhere, measured
from uol.errors import UolError
from uol.experiments.collect import add
from uol.ratings import metrics
from uol.runs.bootstrap import draws, replicated
from uol.runs.folder import RunFolder
from uol.runs.groups import groups_of
from uol.runs.predictions import known_raters_of, read_predictions, spread_of
from uol.runs.read_run import read_run
from uol.runs.result import read_result, write_result


def predictions(seed=0, images=200, noise=0.3):
    rng = np.random.default_rng(seed)
    score = np.clip(rng.normal(3, 0.7, images), 1, 5)
    return pd.DataFrame({"image": range(images), "score": score, "value": score + noise * rng.normal(size=images)})


def figures(table):
    truth, value = table["score"], table["value"]
    return {"pc": metrics.pearson(truth, value), "mae": metrics.mae(truth, value), "rmse": metrics.rmse(truth, value)}


def old_run(folder, tested_on="mebeauty"):
    """A run folder as it was kept before there were replicates."""
    own, other = predictions(), predictions(1, noise=0.8)
    (folder / "evaluations").mkdir(parents=True)
    own.to_csv(folder / "predictions.csv", index=False, float_format="%.6g")
    other.to_csv(folder / "evaluations" / f"{tested_on}.csv", index=False, float_format="%.6g")
    kept = {"data": tested_on, **elsewhere(), **figures(other)}
    (folder / "evaluations" / f"{tested_on}.json").write_text(json.dumps(kept))
    write_result(folder / "result.json", measured(figures=figures(own), score_sd=float(np.std(own["score"]))))
    return own, other


def test_older_runs_get_replicates_when_they_are_added(tmp_path):
    own, other = old_run(tmp_path / "run")
    (added,) = add(tmp_path / "run", tmp_path / "results")
    result = read_result(added.path)
    found = replicated(own["score"], own["value"], draws("ab" * 32, "fold-1", 200))
    assert np.allclose(result.replicates.pc, found.pc, atol=2e-5)
    assert np.allclose(result.replicates.rmse, found.rmse, atol=2e-5)
    elsewhere_pc = replicated(other["score"], other["value"], draws("mebeauty", "whole", 200)).pc
    assert np.allclose(result.transfer["mebeauty"].replicates.pc, elsewhere_pc, atol=2e-5)
    assert sum(result.spread.predicted) == sum(result.spread.panel) == 200
    assert read_result(tmp_path / "run" / "result.json").replicates is None
    assert [a.what for a in add(tmp_path / "run", tmp_path / "results")] == ["unchanged"]
    assert len(added.path.read_text().splitlines()) < 120


def test_replicates_are_added_to_a_result_that_has_none_without_replace(tmp_path):
    own, _ = old_run(tmp_path / "run")
    write_result(
        tmp_path / "results" / "scut-fbp5500" / "uol-paper-fold-1-seed-0.json",
        measured(figures=figures(own), score_sd=float(np.std(own["score"]))),
    )
    assert [a.what for a in add(tmp_path / "run", tmp_path / "results")] == ["replaced"]


def test_predictions_of_another_network_are_refused(tmp_path):
    old_run(tmp_path / "run")
    predictions(noise=0.4).to_csv(tmp_path / "run" / "predictions.csv", index=False)
    with pytest.raises(UolError, match=r"predictions.csv: its MAE is .* predictions of another network"):
        read_run(RunFolder(tmp_path / "run"))
    (tmp_path / "run" / "predictions.csv").write_text("image,score\na,1\n")
    with pytest.raises(UolError, match="not readable as predictions"):
        read_run(RunFolder(tmp_path / "run"))
    (tmp_path / "run" / "predictions.csv").write_text("image,score,value\na,1,\n")
    with pytest.raises(UolError, match="a prediction is missing"):
        read_run(RunFolder(tmp_path / "run"))


def test_leniency_of_raters_must_be_told_of_every_image_and_is_no_group(tmp_path):
    path = tmp_path / "predictions.csv"
    table = predictions().assign(known_raters_leniency=np.arange(200) % 2)
    table.to_csv(path, index=False)
    assert groups_of(read_predictions(path)) == groups_of(predictions())
    known = known_raters_of(read_predictions(path), "ab" * 32, "fold-1")
    told = table["value"] + table["known_raters_leniency"]
    assert (known.pc, known.mae) == pytest.approx(
        (metrics.pearson(table["score"], told), metrics.mae(table["score"], told))
    )
    assert known_raters_of(predictions(), "ab" * 32, "fold-1") is None
    table.loc[3, "known_raters_leniency"] = np.nan
    table.to_csv(path, index=False)
    with pytest.raises(UolError, match=r"known_raters_leniency is missing for an image"):
        read_predictions(path)


def test_spread():
    found = spread_of(pd.DataFrame({"score": [1.0, 3.0, 5.0], "value": [0.5, 2.95, 4.0]}), [1, 5])
    assert found.panel_ends == [1.0, 5.0]
    assert found.predicted_ends == [1.0, 4.0]
    assert [i for i, count in enumerate(found.predicted) if count] == [0, 19, 30]
    assert [i for i, count in enumerate(found.panel) if count] == [0, 20, 39]
