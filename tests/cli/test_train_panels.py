"""uol train --with: two panels from the command line, and one line for every mistake."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from quick import quick_recipe
from uol.datasets.choosing import parse_panel
from uol.datasets.own import load_own
from uol.ratings import metrics
from uol.ratings.rated_images import Split
from uol.ratings.scale import Scale
from uol.ratings.splits import choose_splits
from uol.runs.known_raters import known_leniency
from uol.scoring.scorer import Scorer
from uol.training.packed import PackedImages
from uol.training.recipe import dump_recipe


@pytest.fixture(scope="module")
def two(drawn, drawn_b, tmp_path_factory):
    """Sixty faces rated by each of two panels, in folds of their own; the last twenty are the second panel's alone."""
    base = tmp_path_factory.mktemp("two")
    folder = base / "faces"
    folder.mkdir()
    for name, pixels in zip(drawn.names, drawn.images, strict=True):
        Image.fromarray(np.asarray(pixels)).save(folder / f"{name}.png")
    for table, rated, rows in (("kind", drawn, range(60)), ("severe", drawn_b, range(20, 80))):
        lines = [f"{rated.names[i]}.png,{rated.scores[i]},{i % 3 + 1}" for i in rows]
        (base / f"{table}.csv").write_text("\n".join(["image,mean,fold", *lines]))
    (base / "quick.yaml").write_text(dump_recipe(quick_recipe(epochs=1, batch_size=8)))
    return base


def command(base, *words, split="1", beside="own={}:fold-1"):
    return (
        "train", "--data", "own", "--root", base / "faces", "--table", base / "kind.csv", "--scale", "1", "5",
        "--fold", split, "--recipe", base / "quick.yaml", "--with", beside.format(base / "faces"),
        "--with-read", f"own:table={base / 'severe.csv'}", "--with-read", "own:scale=1,10", *words,
    )  # fmt: skip


@pytest.mark.slow
def test_two_panels_are_trained_tested_evaluated_reported_and_added(uol, two, tmp_path, monkeypatch):
    monkeypatch.setenv("UOL_COMMIT", "ab" * 20)
    run = tmp_path / "run"
    code, out, err = uol(*command(two, "--out", run, "--json"))
    assert code == 0, err
    assert "also trained on severe, fold-1: 40 images" in err
    assert "copies of test images" not in err  # the same faces, but in the same folds
    main, other = json.loads(out)
    assert (main["data"], main["split"], main["images"]) == ("kind", "fold-1", 20)
    assert (other["data"], other["split"], other["images"]) == ("severe", "fold-1", 20)
    assert (run / "model" / "panels" / "severe" / "config.json").is_file()
    severe = ("--data", "own", "--root", two / "faces", "--table", two / "severe.csv", "--scale", "1", "10")
    code, out, err = uol("evaluate", run, *severe, "--json")  # its own split, its own references: no transfer
    assert code == 0, err
    assert json.loads(out)["split"] == "fold-1"
    assert json.loads(out)["mae"] == pytest.approx(other["mae"], abs=1e-5)
    assert not (run / "evaluations").exists()
    assert main["mae"] != other["mae"]
    as_before = tmp_path / "as-before"  # earlier versions kept another model folder for each panel
    shutil.copytree(run, as_before)
    alone = as_before / "panels" / "severe" / "model"
    Scorer.from_pretrained(run, panel="severe").save_pretrained(alone)
    shutil.rmtree(as_before / "model" / "panels")
    code, out, err = uol("evaluate", as_before, *severe, "--json")
    assert code == 0, err
    assert json.loads(out)["mae"] == pytest.approx(other["mae"], abs=1e-5)
    code, out, err = uol("evaluate", alone, *severe, "--json")  # known to have been trained on images of that data set
    assert code == 0, err
    assert (json.loads(out)["split"], json.loads(out)["mae"]) == ("fold-1", pytest.approx(other["mae"], abs=1e-5))
    code, _, err = uol("evaluate", run, *severe, "--fold", "2")
    assert (code, "was trained on images of that split; its split is fold-1" in err) == (2, True)
    assert uol("report", run)[0] == 0
    page = (run / "report.html").read_text()
    assert "Panels trained together" in page
    assert "Other data sets" not in page
    results = tmp_path / "results"
    results.mkdir()
    code, _, err = uol("experiment", "add", run, "--results", results)
    assert code == 0, err
    shown = {}
    for kind in ("beside", "transfer", "main"):
        code, out, err = uol(
            "experiment", "table", "kind+severe", "--results", results, "--show", kind, "--format", "csv"
        )
        assert code == 0, err
        shown[kind] = out
    assert "severe" in shown["beside"].splitlines()[1]
    assert len(shown["transfer"].strip().splitlines()) <= 1


@pytest.mark.slow
def test_a_set_that_no_panel_rated_is_read_on_each_panel(uol, two, tmp_path):
    run = tmp_path / "run"
    code, _, err = uol(*command(two, "--out", run, split="whole", beside="own={}:whole"))
    assert code == 0, err
    tables = []
    code, _, err = uol("evaluate", run, "--data", "synthetic", "--split", "whole", "--panel", "sevre")
    assert (code, err.strip()) == (2, "uol: panel sevre: this model does not know it; did you mean severe?")
    for panel, place in (("kind", run), ("severe", run / "panels" / "severe")):
        code, out, err = uol("evaluate", run, "--data", "synthetic", "--split", "whole", "--panel", panel, "--json")
        assert code == 0, err
        told = json.loads((place / "evaluations" / "synthetic-a.json").read_text())
        assert told["pc"] == json.loads(out)["pc"]
        tables.append(pd.read_csv(place / "evaluations" / "synthetic-a.csv"))
    assert len(tables[0]) == len(tables[1]) == told["images"]
    assert not np.allclose(tables[0]["value"], tables[1]["value"])  # on scales of 1 to 5 and 1 to 10


@pytest.mark.slow
def test_how_near_predictions_are_that_know_the_raters_is_said(uol, two, drawn_b, tmp_path):
    matrix = drawn_b.ratings.matrix
    rows, raters = np.nonzero(~np.isnan(matrix))
    assert len(rows) < matrix.size
    lines = [f"{drawn_b.names[i]}.png,r{j},{matrix[i, j]:g},{i % 3 + 1}" for i, j in zip(rows, raters, strict=True)]
    table = tmp_path / "ratings.csv"
    table.write_text("\n".join(["image,rater,rating,fold", *lines]))
    panel = ("--data", "own", "--root", two / "faces", "--table", table, "--scale", "1", "10")
    run = tmp_path / "run"
    code, _, trained = uol("train", *panel, "--fold", "1", "--recipe", two / "quick.yaml", "--out", run)
    assert code == 0, trained
    known = json.loads((run / "result.json").read_text())["known_raters"]
    figures = f"PC {known['pc']:.4f}, MAE {known['mae']:.4f}, RMSE {known['rmse']:.4f}"
    said = f"predictions that know who rated each image: {figures}"
    assert f"ratings, fold-1: {said}" in trained
    code, out, evaluated = uol("evaluate", run, *panel, "--json")
    assert code == 0, evaluated
    assert f"run, ratings, fold-1: {said}" in evaluated
    figures = {name: known[name] for name in ("pc", "mae", "rmse")}
    assert json.loads(out)["known_raters"] == pytest.approx(figures, abs=1e-4)
    told = pd.read_csv(run / "predictions.csv")
    expected = metrics.pearson(told["score"], told["value"] + told["known_raters_leniency"])
    assert known["pc"] == pytest.approx(expected, abs=1e-5)
    assert uol("report", run)[0] == 0
    assert f"known from the training images, PC is {known['pc']:.4f}." in (run / "report.html").read_text()
    joint = tmp_path / "joint"
    words = [str(word).replace(str(two / "severe.csv"), str(table)) for word in command(two)]
    assert uol(*words, "--out", joint)[0] == 0
    other = json.loads((joint / "result.json").read_text())["beside"]["ratings"]["known_raters"]
    assert uol("report", joint)[0] == 0
    assert (
        f"With the leniency of the raters of each image of ratings known, PC is {other['pc']:.4f}."
        in (joint / "report.html").read_text()
    )
    alone = tmp_path / "alone"  # of the other panel: asked of all images, which are moved to its scale of 1 to 5
    assert uol(*command(two)[:14], "--out", alone)[0] == 0
    code, _, evaluated = uol("evaluate", alone, *panel, "--split", "whole")
    assert code == 0, evaluated
    moved = pd.read_csv(alone / "evaluations" / "ratings.csv")
    rated = load_own(two / "faces", table, scale=Scale(1, 10))
    leniency = known_leniency(PackedImages.pack(rated, quick_recipe().model), None) * 4 / 9
    pc = metrics.pearson(moved["score"], moved["value"] + leniency)
    assert f"predictions that know who rated each image: PC {pc:.4f}" in evaluated


@pytest.mark.slow
def test_a_photograph_in_two_splits_is_left_out_and_that_is_said(uol, two, tmp_path):
    code, out, err = uol(*command(two, "--out", tmp_path / "run", beside="own={}:fold-2"))
    assert code == 0, err
    # Of 40 faces that both rated, one fold tests the first panel and another the second.
    assert "kind: 13 training images are left out, since they are copies of test images" in err
    assert "severe: 13 training images are left out, since they are copies of test images" in err
    assert out.count("fold-") == 2
    assert "mean" not in out


@pytest.mark.slow
def test_a_folder_is_a_panel_without_a_name(uol, two, tmp_path):
    words = [str(word).replace("own:", f"{two / 'faces'}:") for word in command(two, beside="{}:fold-1")]
    words[1:5] = ["--data", two / "faces"]
    code, out, err = uol(*words, "--out", tmp_path / "run", "--json")
    assert code == 0, err
    assert [(row["data"], row["split"]) for row in json.loads(out)] == [("kind", "fold-1"), ("severe", "fold-1")]


@pytest.mark.slow
def test_folds_of_all_panels_go_together_and_means_are_of_one_data_set_each(uol, two, tmp_path):
    code, out, err = uol(*command(two, "--out", tmp_path / "run", split="all", beside="own={}:{{split}}"))
    assert code == 0, err
    assert "left out" not in err  # the same faces are tested in the same folds
    panels = json.loads((tmp_path / "run" / "fold-3" / "result.json").read_text())["provenance"]["panels"]
    assert [panel["split"] for panel in panels] == ["fold-3", "fold-3"]
    means = [line for line in out.splitlines() if "mean" in line]
    assert len(means) == 2
    assert "kind" in means[0]
    assert "severe" in means[1]
    assert (tmp_path / "run" / "fold-3" / "panels" / "severe" / "predictions.csv").is_file()


@pytest.mark.slow
def test_an_ensemble_of_folds_takes_the_same_fold_of_every_panel(uol, two, tmp_path):
    for seed in (0, 1):
        changes = ("--set", f"seed={seed}", "--set", "held_out=0.2", "--set", "held_out_seed=0")
        words = command(two, "--out", tmp_path / str(seed), *changes, split="all", beside="own={}:{{split}}")
        code, _, err = uol(*words)
        assert code == 0, err
    data = words[1 : words.index("--fold")]
    panels = words[words.index("--with") : words.index("--out")]
    out = tmp_path / "mean"
    code, text, err = uol("experiment", "ensemble", tmp_path / "0", tmp_path / "1", *data, *panels, "--name", "mean",
                          "--out", out, "--json")  # fmt: skip
    assert code == 0, err
    rows = [(row["data"], row["split"], row["images"]) for row in json.loads(text)]
    assert rows == [(name, f"fold-{number}", 20) for number in (1, 2, 3) for name in ("kind", "severe")]


def test_a_folder_may_have_a_colon(tmp_path):
    (tmp_path / "a:b").mkdir()
    assert parse_panel(f"own={tmp_path}/a:b") == ("own", tmp_path / "a:b", None)
    assert parse_panel(f"own={tmp_path}/a:b:2022") == ("own", tmp_path / "a:b", "2022")
    assert parse_panel("mebeauty=there:2022")[2] == "2022"
    assert parse_panel("synthetic") == ("synthetic", None, None)
    assert parse_panel("synthetic=:default") == ("synthetic", None, "default")


def test_a_split_may_be_called_by_a_number(drawn):
    rated = replace(
        drawn, splits={"2022": Split(np.arange(3), np.arange(1)), "fold-1": Split(np.arange(4), np.arange(1))}
    )
    called = {"2022": "2022", "1": "fold-1", "fold-1": "fold-1", "1-inner": "fold-1-inner"}
    assert {name: next(iter(choose_splits(rated, name))) for name in called} == called
    larger = replace(rated, splits={"2022": Split(np.arange(8), np.arange(1))})
    assert list(choose_splits(larger, "2022-inner")) == ["2022-inner"]


def test_mistakes(uol, two, tmp_path):
    for words, complaint in (
        ((*command(two), "--set", "method=regression"), "method regression is trained on one panel"),
        (command(two, beside="own={}"), "--with own=FOLDER:SPLIT: severe has several splits, fold-1, fold-2, fold-3"),
        (command(two, beside="own={}:all"), "name one split, not all; {split} follows the folds of kind"),
        (command(two, beside="own={}:fold-7"), "severe has no split 'fold-7'"),
        (command(two, beside="nothing={}"), "unknown data set 'nothing'"),
        (command(two, beside="={}"), "write it as NAME=FOLDER:SPLIT or FOLDER:SPLIT"),
        (command(two, "--with-read", "own"), "--with-read own: write it as NAME:name=value or FOLDER:name=value"),
        (command(two, "--with-read", "mebeauty:images=x"), "no --with names mebeauty"),
        (command(two, "--with", f"own={two / 'faces'}:fold-1"), "another panel has the name severe"),
        (command(two, "--set", "panel_passes=[1]"), "panel_passes: one number for each of 2 panels (kind, severe)"),
    ):
        code, _, err = uol(*words, "--out", tmp_path / "run")
        assert code == 2, (words, err)
        assert complaint in err.strip().splitlines()[-1], err
    assert not (tmp_path / "run" / "model").exists()
