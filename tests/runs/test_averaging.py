"""Means of predictions: the obvious mean against them, other data sets too, tables that show them, what is refused."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from measured import measured
from quick import quick_recipe
from uol.errors import CallError, UolError
from uol.ratings import metrics
from uol.ratings.rater_effects import raters_leniency
from uol.runs.averaging import average, keep_average, mean_of_tables
from uol.runs.ensembling import match_runs
from uol.runs.evaluation import evaluate, predictions_table
from uol.runs.folder import RunFolder
from uol.runs.predictions import known_raters_of
from uol.runs.read_run import read_run
from uol.runs.result import read_result, write_result
from uol.runs.transfer import keep_rated
from uol.storage import provenance
from uol.storage.files import plain
from uol.training.predictions import Predictions

BEGUN = ("2026-01-01T00:00:00+00:00", provenance.Commit("0123456789" * 4, False))


@pytest.fixture(scope="module")
def rated(folded):
    return folded


def guesses(rated, seed, disperse=True):
    """What a network might say."""
    rng = np.random.default_rng(seed)
    value = rated.scores + 0.4 * rng.normal(size=len(rated))
    dispersion = rng.uniform(0.5, 1, len(rated)) if disperse else np.full(len(rated), np.nan)
    return Predictions(value, value - 1, value + 1, dispersion)


def make_run(folder, rated, split, seed, others=(), framing="whole", disperse=True, **changes):
    """A finished run whose network is gone."""
    test = rated.subset(rated.splits[split].test)
    said = guesses(test, seed, disperse)
    folder.mkdir(parents=True)
    predictions_table(test, said).to_csv(folder / "predictions.csv", index=False, float_format="%.6g")
    data = {
        "name": rated.name, "fingerprint": rated.fingerprint, "pixels": framing, "scale": list(rated.scale),
        "training": 32, "held_out": 8, "test": 40, "division": rated.division(rated.splits[split]),
    }  # fmt: skip
    settings = quick_recipe(seed=seed, **({"method": changes["method"]} if "method" in changes else {}))
    made = {"data": data, "settings": settings.model_dump(mode="json"), **changes.pop("provenance", {})}
    told = {"experiment": rated.name, "trained_on": rated.name, "score_sd": float(np.std(test.scores))}
    figures = plain(evaluate(test, said))
    write_result(folder / "result.json", measured(split, seed, figures=figures, provenance=made, **told, **changes))
    for other in others:
        moved = other.rescaled(rated.scale)
        keep_rated(moved, guesses(moved, seed + 10, disperse), framing, RunFolder(folder), 0.2, other.fingerprint)
    return folder


@pytest.fixture
def runs(rated, drawn_b, tmp_path):
    """Two methods with two framings on two folds; the second tells no dispersion."""
    other = replace(drawn_b, name="mebeauty")
    for split in rated.splits:
        make_run(tmp_path / "a" / split, rated, split, 0, [other])
        extra = [other, replace(drawn_b, name="hot-or-not")]
        make_run(tmp_path / "b" / split, rated, split, 1, extra, "face", False, method="ldl", recipe="matched")
    return tmp_path


def column(path, name):
    with open(path, encoding="utf-8") as file:
        return [row[name] for row in csv.DictReader(file)]


def slow_mean(paths, name="value"):
    """The mean of each image's numbers, looked up by name."""
    tables = [dict(zip(column(path, "image"), column(path, name), strict=True)) for path in paths]
    return {image: sum(float(table[image]) for table in tables) / len(tables) for image in tables[0]}


def test_the_mean_of_each_image_fold_by_fold(runs, rated):
    folds = match_runs([runs / "a", runs / "b"], rated, runs / "out", "both", "predictions")
    for fold in folds:
        result = keep_average(average(fold, rated), fold, rated, "both", BEGUN)
        assert result == read_result(fold.folder.path / "result.json")
        obvious = slow_mean([runs / one / fold.split / "predictions.csv" for one in "ab"])
        table = pd.read_csv(fold.folder.path / "predictions.csv")
        test = rated.subset(rated.splits[fold.split].test)
        assert table["image"].tolist() == list(test.names) == list(obvious)
        assert np.allclose(table["value"], list(obvious.values()), rtol=1e-5)
        assert table[["low", "high", "dispersion"]].isna().all(axis=None)
        assert table["skin"].tolist() == test.groups["skin"].tolist()
        assert result.metrics.pc == pytest.approx(metrics.pearson(test.scores, list(obvious.values())), abs=1e-6)
        found = result.metrics
        assert (found.coverage, found.interval_width, found.dispersion_pc) == (None, None, None)
        assert found.pc > max(member.result.metrics.pc for member in fold.members)
        assert (result.method, result.recipe, result.ensemble, result.seed) == ("ensemble", "both", 2, 0)
        made = result.provenance
        assert (made.changes, made.data.pixels) == ({"combine": "predictions"}, None)
        assert [(m.recipe, m.seed, m.settings["method"]) for m in made.members] == [
            ("paper", 0, "uol"), ("matched", 1, "ldl"),
        ]  # fmt: skip
        assert sorted(path.name for path in fold.folder.path.iterdir()) == [
            "evaluations", "log.txt", "predictions.csv", "result.json",
        ]  # fmt: skip


def test_members_of_one_method_keep_its_name_and_their_mean_dispersion(rated, tmp_path):
    runs = [make_run(tmp_path / str(seed), rated, "fold-1", seed) for seed in (3, 4, 5)]
    (fold,) = match_runs(runs, rated, tmp_path / "out", "three", "predictions")
    result = keep_average(average(fold, rated), fold, rated, "three", BEGUN)
    assert (fold.folder.path, result.method, result.ensemble) == (tmp_path / "out", "uol", 3)
    assert result.provenance.data.pixels == "whole"
    obvious = slow_mean([run / "predictions.csv" for run in runs], "dispersion")
    assert np.allclose(pd.read_csv(tmp_path / "out" / "predictions.csv")["dispersion"], list(obvious.values()))
    assert result.metrics.dispersion_pc is not None


def test_other_data_sets_that_all_were_tested_on_are_averaged(runs, rated, drawn_b):
    folds = match_runs([runs / "a", runs / "b"], rated, runs / "out", "both", "predictions")
    made = average(folds[0], rated)
    assert [line.split(":")[0] for line in made.left_out] == ["hot-or-not"]
    keep_average(made, folds[0], rated, "both", BEGUN)
    transfer = read_run(folds[0].folder).transfer
    assert list(transfer) == ["mebeauty"]
    found = transfer["mebeauty"]
    paths = [runs / one / "fold-1" / "evaluations" / "mebeauty.csv" for one in "ab"]
    obvious = slow_mean(paths)
    scores = slow_mean(paths[:1], "score")
    assert found.pc == pytest.approx(metrics.pearson(list(scores.values()), list(obvious.values())), abs=1e-6)
    assert found.mae == pytest.approx(np.mean([abs(obvious[name] - scores[name]) for name in scores]), abs=1e-5)
    assert (found.images, found.split, found.framing, found.coverage) == (80, None, "face, whole", None)
    assert found.fingerprint == drawn_b.fingerprint
    assert len(found.replicates.pc) > 1
    assert "dark" in found.groups


@pytest.mark.slow
def test_a_mean_is_told_who_rated_where_all_members_are(runs, rated):
    (fold,) = match_runs([runs / "a" / "fold-1", runs / "b" / "fold-1"], rated, runs / "out", "both", "predictions")
    lenient = np.linspace(-1, 1, 40)
    assert keep_average(average(fold, rated), fold, rated, "both", BEGUN).known_raters is None
    for name in "ab":
        path = runs / name / "fold-1" / "predictions.csv"
        pd.read_csv(path).assign(known_raters_leniency=lenient).to_csv(path, index=False)
    result = keep_average(average(fold, rated), fold, rated, "both", BEGUN)
    table = pd.read_csv(fold.folder.path / "predictions.csv")
    assert result.known_raters.pc == pytest.approx(metrics.pearson(table["score"], table["value"] + lenient), abs=1e-5)
    for name in "ab":  # each was told, but of raters whom it knows otherwise
        path = runs / name / "fold-1" / "result.json"
        write_result(path, read_result(path).model_copy(update={"known_raters": result.known_raters}))
    path = runs / "a" / "fold-1" / "predictions.csv"
    pd.read_csv(path).assign(known_raters_leniency=0.1).to_csv(path, index=False)
    (fold,) = match_runs([runs / "a" / "fold-1", runs / "b" / "fold-1"], rated, runs / "other", "both", "predictions")
    averaged = average(fold, rated)
    assert averaged.leniency is None
    told = f"{rated.name}, with known raters: the members' tables differ in the raters' leniency"
    assert told in averaged.left_out


def test_a_mean_with_a_network_of_several_panels_says_so(runs, rated, drawn_b, tmp_path):
    both = [panel_of(rated, "fold-1"), panel_of(replace(drawn_b, name="mebeauty"), "default")]
    joint = make_run(tmp_path / "joint", rated, "fold-1", 3, provenance={"panels": both})
    (fold,) = match_runs([runs / "a" / "fold-1", joint], rated, tmp_path / "out", "both", "predictions")
    averaged = average(fold, rated)
    assert averaged.left_out == ["mebeauty: not every member was tested on it, or it trained one"]
    result = keep_average(averaged, fold, rated, "both", BEGUN)
    assert result.trained_on == f"{rated.name}+mebeauty"
    assert result.provenance.learnt_from == {rated.name, "mebeauty"}
    others = [both[0], both[1] | {"name": "c"}]
    third = make_run(tmp_path / "third", rated, "fold-1", 4, provenance={"panels": others})
    with pytest.raises(CallError, match="third: was trained on different panels than .*joint"):
        match_runs([joint, third], rated, tmp_path / "other", "both", "predictions")


@pytest.mark.slow
def test_networks_of_the_same_panels_have_a_mean_on_each(rated, drawn_b, tmp_path):
    other = replace(drawn_b, name="mebeauty")
    both = [panel_of(rated, "fold-1"), panel_of(other, "default")]
    lenient = raters_leniency(other.ratings, np.arange(20, len(other)))
    for name, seed in (("one", 3), ("two", 4)):
        said = guesses(other, seed)
        told = known_raters_of(predictions_table(other, said, lenient), "0", "default").model_dump()
        figures = plain(evaluate(other, said)) | {"trained": True, "split": "default", "score_sd": 0.5}
        figures |= {"known_raters": told}
        folder = make_run(
            tmp_path / name, rated, "fold-1", seed, provenance={"panels": both}, beside={"mebeauty": figures}
        )
        (folder / "panels" / "mebeauty").mkdir(parents=True)
        table = predictions_table(other, said, lenient)
        table.to_csv(folder / "panels" / "mebeauty" / "predictions.csv", index=False, float_format="%.6g")
    (fold,) = match_runs([tmp_path / "one", tmp_path / "two"], rated, tmp_path / "out", "both", "predictions")
    result = keep_average(average(fold, rated), fold, rated, "both", BEGUN)
    paths = [tmp_path / name / "panels" / "mebeauty" / "predictions.csv" for name in ("one", "two")]
    obvious, scores = slow_mean(paths), slow_mean(paths[:1], "score")
    found = result.beside["mebeauty"]
    assert found.pc == pytest.approx(metrics.pearson(list(scores.values()), list(obvious.values())), abs=1e-6)
    assert (found.images, found.split, found.trained, found.coverage) == (len(other), "default", True, None)
    own = evaluate(other, mean_of_tables([pd.read_csv(path) for path in paths]))  # in the panel's own units
    assert (found.order_accuracy, found.mae) == pytest.approx((own["order_accuracy"], own["mae"]), abs=1e-5)
    assert found.score_sd == pytest.approx(np.std(other.scores))
    assert len(found.replicates.pc) > 1
    kept = slow_mean([fold.folder.path / "panels" / "mebeauty" / "predictions.csv"])
    assert kept == pytest.approx(obvious, abs=1e-4)
    told = np.array(list(obvious.values())) + lenient
    assert found.known_raters.pc == pytest.approx(metrics.pearson(list(scores.values()), told), abs=1e-6)
    table = pd.read_csv(paths[1])
    for other_raters in (table.drop(columns="known_raters_leniency"), table.assign(known_raters_leniency=0.1)):
        other_raters.to_csv(paths[1], index=False)
        assert average(fold, rated).panels[0].leniency is None
        assert average(fold, rated).left_out == [
            "mebeauty, with known raters: the members' tables differ in the raters' leniency"
        ]
    table.assign(rating_sd=table["rating_sd"] + 0.3).to_csv(paths[1], index=False)
    assert average(fold, rated).left_out == ["mebeauty: members were tested on different images or ratings"]
    table.assign(value=table["value"] + 0.3).to_csv(paths[1], index=False)
    with pytest.raises(UolError, match="predictions of another network"):
        average(fold, rated)
    paths[1].unlink()
    averaged = average(fold, rated)
    assert averaged.panels == []
    assert averaged.left_out == [f"mebeauty: the predictions are gone ({paths[1]})"]
    assert keep_average(averaged, fold, rated, "both", BEGUN).beside is None
    assert not (fold.folder.path / "panels" / "mebeauty").exists()  # what it said before is gone
    untested = make_run(tmp_path / "three", rated, "fold-1", 5, provenance={"panels": both})
    (fold,) = match_runs([tmp_path / "one", untested], rated, tmp_path / "other", "both", "predictions")
    assert average(fold, rated).panels == []
    assert average(fold, rated).left_out == ["mebeauty: not every member was trained and tested on it"]


def test_what_else_lies_in_a_folder_of_panels_is_left_alone(runs, rated, tmp_path):
    other = tmp_path / "out" / "panels" / "fold-1" / "result.json"
    other.parent.mkdir(parents=True)
    other.write_text("{}")
    members = [runs / "a" / "fold-1", runs / "b" / "fold-1"]
    with pytest.raises(
        CallError, match="panels: holds panels that this ensemble was not trained on; choose another folder"
    ):
        match_runs(members, rated, tmp_path / "out", "both", "predictions")
    assert other.is_file()


def panel_of(rated, split):
    """What a result tells of a panel that trained with others."""
    told = {"name": rated.name, "fingerprint": rated.fingerprint, "scale": list(rated.scale), "training": 32}
    return told | {"held_out": 8, "test": 40, "split": split, "pixels": None, "left_out": 0}


@pytest.mark.slow
def test_a_set_of_other_images_or_ratings_is_left_out(runs, rated):
    path = runs / "b" / "fold-1" / "evaluations" / "mebeauty"
    whole = pd.read_csv(f"{path}.csv")
    folds = match_runs([runs / "a", runs / "b"], rated, runs / "out", "both", "predictions")

    def left_out():
        return [line for line in average(folds[0], rated).left_out if line.startswith("mebeauty")]

    whole.iloc[::-1].to_csv(f"{path}.csv", index=False)
    assert left_out() == []  # the order of rows says nothing
    assert np.allclose(
        average(folds[0], rated).transfer[0].predictions.value,
        list(slow_mean([runs / one / "fold-1" / "evaluations" / "mebeauty.csv" for one in "ab"]).values()),
    )
    moved = whole.assign(score=whole["score"] + 0.01, value=whole["value"] + 0.01)
    for table in (whole.assign(image=[f"other {name}" for name in whole["image"]]), moved):
        table.to_csv(f"{path}.csv", index=False)
        assert left_out() == ["mebeauty: members were tested on different images or ratings"]
    whole.to_csv(f"{path}.csv", index=False)
    kept = json.loads(path.with_suffix(".json").read_text())
    path.with_suffix(".json").write_text(json.dumps(kept | {"fingerprint": "other"}))
    assert left_out() == ["mebeauty: members were tested on different images or ratings"]
    del kept["fingerprint"]  # as before it was kept
    path.with_suffix(".json").write_text(json.dumps(kept))
    assert average(folds[0], rated).transfer[0].fingerprint is not None
    path.with_suffix(".csv").unlink()
    assert "the predictions are gone" in left_out()[0]


def test_what_is_no_mean_of_these_runs_is_refused(runs, rated, drawn_b, tmp_path):
    def refused(message, *names, data=rated, out=tmp_path / "out", kind=CallError):
        with pytest.raises(kind, match=message) as caught:
            for fold in match_runs([runs / one for one in names], data, out, "both", "predictions"):
                average(fold, data)
        assert "\n" not in str(caught.value)

    refused("at least 2 runs", "a")
    refused("same number of runs", "a", "b/fold-1")
    refused("given twice", "a", "b", "a")
    refused("different images or ratings", "a", "b", data=drawn_b)
    copy = shutil.copytree(runs / "b" / "fold-1", tmp_path / "c")
    refused("c: the same network as .*fold-1; it counts once", "a/fold-1", "b/fold-1", "c")
    (copy / "model").mkdir()
    refused("holds the result of different networks", "a/fold-1", "b/fold-1", out=copy)
    (copy / "result.json").unlink()
    refused("holds a model", "a/fold-1", "b/fold-1", out=copy)
    make_run(tmp_path / "two", rated, "fold-1", 2, ensemble=2)
    refused("an ensemble already", "a/fold-1", "two")
    panels = {"panels": [panel_of(rated, "fold-1")]}
    joint = make_run(tmp_path / "joint", rated, "fold-1", 3, provenance=panels)
    (joint / "model").mkdir()
    with pytest.raises(CallError, match="a run without a model folder"):
        match_runs([joint, runs / "a" / "fold-1"], rated, tmp_path / "out", "both", "scores")
    path = runs / "b" / "fold-1" / "predictions.csv"
    whole = pd.read_csv(path)
    whole.assign(image=[f"other {name}" for name in whole["image"]]).to_csv(path, index=False)
    refused("not of the 40 images that fold-1 of synthetic-a tests on", "a", "b")
    whole.iloc[1:].to_csv(path, index=False)
    refused("not of the 40 images|predictions of another network", "a", "b", kind=UolError)
    whole.assign(score=whole["score"] + 0.01, value=whole["value"] + 0.01).to_csv(path, index=False)
    refused("panel's scores differ .* has .*, not ", "a", "b")
    whole.assign(value=whole["value"] + 1).to_csv(path, index=False)
    refused("predictions of another network", "a", "b", kind=UolError)
    path.unlink()
    refused("fold-1: no predictions.csv", "a", "b")
    assert not (tmp_path / "out").exists()


def test_a_run_on_every_image_among_the_folds_has_no_part_in_it(runs, rated):
    (runs / "a" / "whole").mkdir()
    for name in ("recipe.yaml", "provenance.json"):
        (runs / "a" / "whole" / name).write_text("{}")
    assert len(match_runs([runs / "a", runs / "b"], rated, runs / "out", "both", "predictions")) == 2
    with pytest.raises(CallError, match=r"whole: no result.json"):
        match_runs([runs / "a" / "whole", runs / "b"], rated, runs / "out", "both", "predictions")
    (runs / "a" / "whole" / "provenance.json").unlink()  # not finished
    with pytest.raises(CallError, match=r"whole: no result.json"):
        match_runs([runs / "a", runs / "b"], rated, runs / "out", "both", "predictions")


def test_tables_without_dispersion():
    tables = [pd.DataFrame({"value": [1.0, 2.0]}), pd.DataFrame({"value": [3.0, 3.0], "dispersion": [1.0, 1.0]})]
    found = mean_of_tables(tables)
    assert found.value.tolist() == [2.0, 2.5]
    assert np.isnan(found.dispersion).all()


@pytest.mark.slow
def test_from_the_shell_to_the_tables(uol, runs, rated, monkeypatch):
    monkeypatch.setattr("uol.datasets.load", lambda *_: rated)
    monkeypatch.setenv("UOL_COMMIT", "0123456789" * 4)
    out, results = runs / "out", runs / "results"
    call = ("experiment", "ensemble", runs / "a", runs / "b", "--data", "synthetic", "--of", "predictions")
    call = (*call, "--name", "both", "--out", out)
    for _ in range(2):  # the same mean may be made again
        code, printed, err = uol(*call)
        assert code == 0, err
        assert "–" in printed
        assert err.count("left out: hot-or-not") == 1
    results.mkdir()
    for one in ("a", "out"):
        code, _, err = uol("experiment", "add", runs / one, "--results", results)
        assert code == 0, err
    assert (results / rated.name / "ensemble-both-fold-1-seed-0-ensemble-2.json").is_file()
    shown = {}
    for kind in ("main", "brief", "figures", "folds", "transfer", "pairs", "range", "groups", "gaps"):
        code, printed, err = uol(
            "experiment", "table", rated.name, "--results", results, "--show", kind, "--format", "markdown"
        )
        assert code == 0, err
        shown[kind] = [line for line in printed.splitlines() if "both" in line]
        assert shown[kind], kind
    assert "ensemble `both`, 2 networks, 2 of 5 folds" in shown["brief"][0]
    assert "| ensemble | both | 2 | 2 |" in shown["figures"][0]
    assert "| – | – |" in shown["figures"][0]  # coverage, dispersion PC
    assert "| mebeauty | 2 |" in shown["transfer"][0]
    assert "combine=predictions" in shown["folds"][0]
    assert uol("experiment", "list", "--results", results)[0] == 0
    assert uol("report", out)[0] == 0
    for option in (("--also", "mebeauty=there"), ("--makeup-votes", "votes.csv")):
        code, _, err = uol(*call, *option)
        assert (code, err.count("\n")) == (2, 1)
        assert f"{option[0]}: not with --of predictions, which uses no network" in err
    code, _, err = uol(*call[:8], "--name", "other", "--out", out)
    assert (code, err.count("\n")) == (2, 1)
    assert "holds the ensemble named both" in err
