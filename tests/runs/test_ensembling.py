"""Ensembles of runs: the shared hold-out, folds matched, figures that follow from predictions, and what is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from quick import quick_recipe
from uol import datasets
from uol.errors import CallError, UolError
from uol.experiments.collect import add
from uol.ratings import metrics
from uol.runs.ensembling import EnsemblePredictor, build, keep, load_networks, match_runs
from uol.runs.known_raters import known_leniency
from uol.runs.read_run import read_run
from uol.runs.result import read_result, write_result
from uol.runs.run import hold_out
from uol.runs.train_and_test import Origin, train_and_test
from uol.runs.transfer import judge_elsewhere
from uol.scoring.ensemble import EnsembleScorer
from uol.scoring.scorer import Scorer
from uol.storage import provenance
from uol.training.packed import PackedImages
from uol.training.recipe import held_out_rows


@pytest.fixture(scope="module")
def rated(folded):
    return folded


@pytest.fixture(scope="module")
def packed(rated):
    return PackedImages.pack(rated, quick_recipe().model)


@pytest.fixture(scope="module")
def runs(rated, packed, tmp_path_factory):
    """Two seeds on two folds with one hold-out, and a seed with a hold-out of its own."""
    place = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UOL_COMMIT", "0123456789" * 4)
        for name, changes in {"a": {}, "b": {"seed": 1, "held_out_seed": 0}, "c": {"seed": 2}}.items():
            recipe = quick_recipe(epochs=1, **changes)
            for split in rated.splits if name != "c" else ["fold-1"]:
                train_and_test(
                    packed, split, rated.splits[split], recipe, place / name / split, Origin("quick", changes)
                )
    return place


def test_the_hold_out_is_drawn_with_the_seed_unless_told_otherwise(packed):
    plain, shared = quick_recipe(seed=3), quick_recipe(seed=1, held_out_seed=3)
    assert np.array_equal(held_out_rows(80, plain)[1], held_out_rows(80, shared)[1])
    assert not np.array_equal(held_out_rows(80, plain)[1], held_out_rows(80, quick_recipe(seed=1))[1])
    training, held_out = hold_out(packed, shared)
    rows = held_out_rows(80, shared)
    assert sorted(np.concatenate(rows)) == list(range(80))
    assert held_out.rated.names == packed.rated.subset(rows[1]).names
    assert training.rated.names == packed.rated.subset(rows[0]).names


@pytest.mark.slow
def test_folds_are_matched_and_tested(runs, rated, packed, tmp_path, monkeypatch):
    monkeypatch.setenv("UOL_COMMIT", "0123456789" * 4)
    folds = match_runs([runs / "a", runs / "b"], rated, tmp_path / "two", "two")
    assert [(fold.split, len(fold.members), fold.folder.name) for fold in folds] == [
        ("fold-1", 2, "fold-1"), ("fold-2", 2, "fold-2"),
    ]  # fmt: skip
    fold = folds[0]
    made = build(fold, load_networks(fold), packed)
    kept = packed.subset(rated.splits["fold-1"].train).subset(held_out_rows(40, fold.members[0].recipe)[1])
    slow = EnsembleScorer(load_networks(fold))
    slow.calibrate(kept.rated, slow.embed_pixels(kept.centre))
    assert made.calibration == slow.calibration
    assert made.calibration.images == len(kept) == 8
    result = keep(made, fold, packed, "two", "2026-01-01T00:00:00+00:00")
    table = pd.read_csv(fold.folder.path / "predictions.csv")
    test = rated.subset(rated.splits["fold-1"].test)
    assert table["image"].tolist() == list(test.names)
    assert result.metrics.pc == pytest.approx(metrics.pearson(table["score"], table["value"]), abs=1e-4)
    assert result == read_result(fold.folder.path / "result.json")
    assert (result.ensemble, result.recipe, result.method, result.seed) == (2, "two", "uol", 0)
    assert [(m.recipe, m.seed, m.commit) for m in result.provenance.members] == [
        ("quick", 0, "0123456789" * 4), ("quick", 1, "0123456789" * 4),
    ]  # fmt: skip
    assert (result.provenance.data.training, result.provenance.data.held_out) == (32, 8)
    again = Scorer.from_pretrained(fold.folder.path)
    assert isinstance(again, EnsembleScorer)
    values = [score.value for score in again.score_exactly(packed.subset(rated.splits["fold-1"].test).centre)]
    assert np.allclose(values, table["value"], rtol=1e-5)
    match_runs([runs / "a", runs / "b"], rated, tmp_path / "two", "two")  # the same ensemble may be made again
    with pytest.raises(CallError, match="result of different networks"):
        match_runs([runs / "b", runs / "a"], rated, tmp_path / "two", "two")
    with pytest.raises(CallError, match="holds the ensemble named two"):
        match_runs([runs / "a", runs / "b"], rated, tmp_path / "two", "other")
    with pytest.raises(CallError, match="combined in another way"):
        match_runs([runs / "a", runs / "b"], rated, tmp_path / "two", "two", "predictions")


@pytest.mark.slow
def test_an_ensemble_is_told_who_rated(drawn_b, rated, tmp_path, monkeypatch):
    monkeypatch.setenv("UOL_COMMIT", "0123456789" * 4)
    gaps = replace(drawn_b, splits=rated.splits)
    packed = PackedImages.pack(gaps, quick_recipe().model)
    for name, changes in {"a": {}, "b": {"seed": 1, "held_out_seed": 0}}.items():
        recipe = quick_recipe(epochs=1, **changes)
        place = tmp_path / name / "fold-1"
        train_and_test(packed, "fold-1", gaps.splits["fold-1"], recipe, place, Origin("quick", changes))
    (fold,) = match_runs([tmp_path / "a", tmp_path / "b"], gaps, tmp_path / "two", "two")
    result = keep(build(fold, load_networks(fold), packed), fold, packed, "two", provenance.now())
    told = pd.read_csv(fold.folder.path / "predictions.csv")
    expected = metrics.pearson(told["score"], told["value"] + known_leniency(packed, gaps.splits["fold-1"]))
    assert result.known_raters.pc == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
def test_evaluations_without_a_result_are_of_nobody_knows_what(runs, rated, packed, drawn_b, tmp_path):
    fold = match_runs([runs / "a" / "fold-1", runs / "b" / "fold-1"], rated, tmp_path / "out", "two")[0]
    made, other = build(fold, load_networks(fold), packed), replace(drawn_b, name="mebeauty")
    keep(made, fold, packed, "two", "2026-01-01T00:00:00+00:00")
    judge_elsewhere(EnsemblePredictor(made), PackedImages.pack(other, quick_recipe().model), "whole", fold.folder)
    keep(made, fold, packed, "two", "2026-01-01T00:00:00+00:00")
    assert read_run(fold.folder).transfer["mebeauty"].fingerprint == other.fingerprint
    (fold.folder.path / "result.json").unlink()
    keep(made, fold, packed, "two", "2026-01-01T00:00:00+00:00")
    assert read_run(fold.folder).transfer == {}


@pytest.mark.slow
def test_what_cannot_be_calibrated_or_matched_is_refused(runs, rated, drawn_b, tmp_path):
    def refused(message, *names, data=rated, out=tmp_path / "out", name="two"):
        with pytest.raises(CallError, match=message) as caught:
            match_runs([runs / one for one in names], data, out, name)
        assert "\n" not in str(caught.value)

    refused("held out different images than .*held_out_seed", "a/fold-1", "c/fold-1")
    refused("same number of runs", "a", "b/fold-1")
    refused("at least 2 runs", "a")
    refused("given twice", "a", "a")
    refused("different images or ratings", "a", "b", data=drawn_b)
    refused("holds a training run", "a/fold-1", "b/fold-1", out=runs / "c" / "fold-1")
    refused("cannot name a result", "a", "b", name="a/b")
    refused("no such run folder", "a", "nothing")
    copy = shutil.copytree(runs / "b" / "fold-1", tmp_path / "b")
    refused("b: the same network as .*fold-1; it counts once", "a/fold-1", "b/fold-1", copy)
    shutil.rmtree(copy / "model")
    refused("without a model folder", "a/fold-1", copy)
    (copy / "result.json").unlink()
    refused("no result.json", "a/fold-1", copy)


@pytest.mark.slow
def test_a_fold_that_tests_other_images_now_is_refused(runs, rated, tmp_path):
    turned = replace(rated, splits={"fold-1": rated.splits["fold-2"], "fold-2": rated.splits["fold-1"]})
    with pytest.raises(CallError, match="fold-1 of synthetic-a has changed since it was trained"):
        match_runs([runs / "a", runs / "b"], turned, tmp_path, "two")


@pytest.mark.slow
def test_an_ensemble_tells_who_taught_its_members(runs, rated, packed, tmp_path):
    for seed in (0, 1):
        recipe = quick_recipe(epochs=1, seed=seed, held_out_seed=0, teachers=[str(runs / "a" / "fold-1")])
        train_and_test(packed, "fold-1", rated.splits["fold-1"], recipe, tmp_path / str(seed), Origin("quick", {}))
    (fold,) = match_runs([tmp_path / "0", tmp_path / "1"], rated, tmp_path / "two", "two")
    made = keep(build(fold, load_networks(fold), packed), fold, packed, "two", "now").provenance
    assert made.teachers == fold.members[1].result.provenance.teachers
    assert made.data.division == rated.division(rated.splits["fold-1"])


@pytest.mark.slow
def test_runs_without_a_hold_out_or_of_other_methods_are_refused(runs, rated, tmp_path):
    places = []
    for number, (what, changes) in enumerate(
        {"method": {"method": "order-learning"}, "settings": {"held_out": 0.0}}.items()
    ):
        place = shutil.copytree(runs / "b" / "fold-1", tmp_path / f"{number}")
        result = read_result(place / "result.json")
        settings = result.provenance.settings | changes
        made = result.provenance.model_copy(update={"settings": settings})
        update = {"provenance": made} | (changes if what == "method" else {})
        write_result(place / "result.json", result.model_copy(update=update))
        places.append(place)
    with pytest.raises(CallError, match="of one method, not uol and order-learning"):
        match_runs([runs / "a" / "fold-1", places[0]], rated, tmp_path / "out", "two")
    with pytest.raises(CallError, match="held out no images"):
        match_runs([places[1], runs / "a" / "fold-1"], rated, tmp_path / "out", "two")


@pytest.mark.slow
def test_from_the_shell_to_the_results(uol, runs, rated, drawn_b, tmp_path, monkeypatch):
    known = {"synthetic": rated, "mebeauty": replace(drawn_b, name="mebeauty")}
    monkeypatch.setattr(datasets, "load", lambda name, *_, **__: known[name])
    monkeypatch.setenv("UOL_COMMIT", "0123456789" * 4)
    out = tmp_path / "two"
    call = ("experiment", "ensemble", runs / "a", runs / "b", "--data", "synthetic", "--name", "two", "--out", out)
    code, printed, err = uol(*call, "--also", "mebeauty=there", "--json")
    assert code == 0, err
    assert [(row["split"], row["networks"]) for row in json.loads(printed)] == [("fold-1", 2), ("fold-2", 2)]
    assert (out / "fold-2" / "evaluations" / "mebeauty.json").is_file()
    results = tmp_path / "results"
    results.mkdir()
    assert [what for _, what in add(out, results)] == ["added", "added"]
    files = sorted(path.name for path in (results / rated.name).glob("*.json"))
    assert files == [f"uol-two-fold-{k}-seed-0-ensemble-2.json" for k in (1, 2)]
    assert read_result(results / rated.name / files[0]).transfer["mebeauty"].images == 80
    code, printed, err = uol("experiment", "table", rated.name, "--results", results, "--json")
    assert [(row["recipe"], row["ensemble"]) for row in json.loads(printed)] == [("two", 2)], err
    code, printed, err = uol("evaluate", out, "--data", "synthetic", "--json")
    assert code == 0, err
    found = [row["pc"] for row in json.loads(printed)]
    stored = [read_result(out / f"fold-{k}" / "result.json").metrics.pc for k in (1, 2)]
    assert found == pytest.approx(stored, abs=1e-5)
    assert uol("report", out / "fold-1")[0] == 0
    different = (runs / "a" / "fold-1", runs / "c" / "fold-1", "--data", "synthetic")
    code, _, err = uol("experiment", "ensemble", *different, "--name", "x", "--out", "x")
    assert (code, err.count("\n")) == (2, 1)
    assert "held out different images" in err


@pytest.mark.slow
def test_a_member_whose_code_nobody_knows_is_not_added(runs, rated, packed, tmp_path, monkeypatch):
    monkeypatch.setenv("UOL_COMMIT", "0123456789" * 4)
    fold = match_runs([runs / "a" / "fold-1", runs / "b" / "fold-1"], rated, tmp_path / "out", "two")[0]
    result = keep(build(fold, load_networks(fold), packed), fold, packed, "two", "2026-01-01T00:00:00+00:00")
    members = [result.provenance.members[0], result.provenance.members[1].model_copy(update={"modified": True})]
    made = result.provenance.model_copy(update={"members": members})
    write_result(tmp_path / "out" / "result.json", result.model_copy(update={"provenance": made}))
    (tmp_path / "results").mkdir()
    with pytest.raises(UolError, match=r"members: its code had uncommitted changes: number 2 \(quick, seed 1"):
        add(tmp_path / "out", tmp_path / "results")
