"""uol experiment as a user meets it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from PIL import Image

from measured import elsewhere, five_folds, measured
from uol.runs.result import write_result

KEYS = {"method", "recipe", "folds", "seeds", "pc", "mae", "rmse", "spearman", "trained_on", "ensemble", "paper"}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to work in, with a run of five folds and an empty folder of results."""
    monkeypatch.chdir(tmp_path)
    for result in five_folds():
        write_result(tmp_path / "runs" / "paper" / result.split / "result.json", result)
    (tmp_path / "results").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    "command", ["list", "run", "held-out", "adjusted", "table", "panel", "figure", "add", "docs", "verify"]
)
def test_every_command_explains_itself_with_an_example(uol, command):
    code, out, _ = uol("experiment", command, "--help")
    assert code == 0
    assert f"Example: uol experiment {command}" in out


def test_from_a_run_to_the_document(uol, place):
    write_result(place / "runs" / "more" / "result.json", measured(seed=1, transfer={"mebeauty": elsewhere(0.6)}))
    (place / "runs" / "paper" / "fold-6").mkdir()
    (place / "runs" / "paper" / "fold-6" / "recipe.yaml").write_text("epochs: 3")
    (place / "runs" / "paper" / "whole").mkdir()
    for name in ("recipe.yaml", "provenance.json"):  # it has finished: no image was left to test it on
        (place / "runs" / "paper" / "whole" / name).write_text("{}")
    code, out, err = uol("experiment", "add", "runs/paper")
    assert (code, out) == (0, "")
    assert err.count("added: ") == 5
    assert "fold-6: no result yet" in err
    assert "whole" not in err
    assert uol("experiment", "add", "runs/more")[0] == 0
    assert len(list((place / "results" / "scut-fbp5500").iterdir())) == 6

    code, out, err = uol("experiment", "table", "scut-fbp5500", "--json")
    (row,) = json.loads(out)
    assert (code, err) == (0, "")
    assert row.keys() >= KEYS
    assert (row["folds"], row["seeds"], row["pc"]) == (5, 2, pytest.approx(0.92))
    assert row["paper"] == {"pc": 0.9240, "mae": 0.1975, "rmse": 0.2633}
    code, out, _ = uol("experiment", "table", "scut-fbp5500", "--show", "seeds", "--json")
    assert [(row["figure"], row["seeds"]) for row in json.loads(out)] == [("PC", 2), ("MAE", 2), ("RMSE", 2)]

    code, out, _ = uol("experiment", "list", "--json")
    first, *plans = json.loads(out)
    assert first.items() >= {"name": "scut-fbp5500", "results": 6, "methods": ["uol"], "published": True}.items()
    assert [(plan["name"], plan["results"], plan["of"]) for plan in plans[:2]] == [
        ("modules", 0, 25),
        ("losses", 0, 20),
    ]
    assert "scut-fbp5500" in uol("experiment", "list")[1]

    Path("results.md").write_text("Prose\n<!-- table: scut-fbp5500 -->\n<!-- end -->\n")
    assert uol("experiment", "docs", "--out", "results.md")[0] == 0
    assert "| uol | paper | 1 | 5 | 0.9200 |" in Path("results.md").read_text()


def test_formats(uol, place):
    uol("experiment", "add", "runs/paper")
    table = ("experiment", "table", "scut-fbp5500", "--results", place / "results")
    assert "0.9200" in uol(*table)[1]
    assert "| uol | paper |" in uol(*table, "--format", "markdown")[1]
    assert r"\begin{tabular}" in uol(*table, "--format", "latex")[1]
    (row,) = csv.DictReader(io.StringIO(uol(*table, "--format", "csv")[1]))
    assert float(row["difference_pc"]) == pytest.approx(-0.004)
    assert uol(*table, "--format", "html")[0] == 2
    assert "fold-5" in uol(*table, "--show", "folds")[1]


def test_verify_lists_what_has_no_predictions_and_fails_on_a_difference(uol, place):
    uol("experiment", "add", "runs/paper")
    code, out, err = uol("experiment", "verify")
    assert (code, err) == (0, "")
    assert "5 results have no predictions and were not verified:\n  scut-fbp5500/uol-paper (5)" in out
    assert len(json.loads(uol("experiment", "verify", "--json")[1])["without"]) == 5
    Path("README.md").write_text("<!-- table: scut-fbp5500 -->\nold\n<!-- end -->\n")
    code, out, err = uol("experiment", "verify")
    assert code == 1
    assert "README.md: its tables are not those of the results" in one_line(err)
    assert uol("experiment", "verify", "--no-documents")[0] == 0
    assert uol("experiment", "verify", "--data", "mebeauty")[0] == 2


def test_no_results_yet(uol, place):
    code, out, err = uol("experiment", "table", "scut-fbp5500", "--json")
    assert (code, json.loads(out)) == (0, [])
    assert "no results yet" in err
    assert uol("experiment", "table", "scut-fbp5500")[:2] == (0, "")
    assert json.loads(uol("experiment", "list", "--json")[1])[0]["results"] == 0


def one_line(err):
    assert len(err.strip().splitlines()) == 1, err
    assert err.startswith("uol: ")
    return err


def test_mistakes_are_one_line(uol, place):
    code, _, err = uol("experiment", "table", "scut")
    assert code == 2
    assert "there are scut-fbp5500" in one_line(err)
    for call in (("list",), ("table", "scut-fbp5500"), ("add", "runs/paper"), ("docs",)):
        code, _, err = uol("experiment", *call, "--results", "nowhere")
        assert code == 2
        assert "nowhere: no such folder of results" in one_line(err)
    for given, problem in (
        (["mebeauty"], "mebeauty: write it as NAME=FOLDER"),
        (["own=a", "own=b"], "own: given twice"),
    ):
        code, _, err = uol("experiment", "verify", *(word for one in given for word in ("--data", one)))
        assert code == 2
        assert f"--data {problem}" in one_line(err)
    (place / "empty").mkdir()
    code, _, err = uol("experiment", "add", "empty")
    assert code == 2
    assert "not a run folder" in one_line(err)
    code, _, err = uol("experiment", "docs")
    assert code == 2
    assert "docs/results.md" in one_line(err)

    uol("experiment", "add", "runs/paper")
    write_result(place / "runs" / "other" / "result.json", measured(pc=0.91))
    code, _, err = uol("experiment", "add", "runs/other")
    assert code == 1
    assert "--replace" in one_line(err)
    assert uol("experiment", "add", "runs/other", "--replace")[0] == 0
    (place / "results" / "scut-fbp5500" / "bad.json").write_text("{}")
    code, _, err = uol("experiment", "table", "scut-fbp5500")
    assert code == 1
    assert "bad.json: experiment: is missing" in one_line(err)


def test_what_runs_said_against_adjusted_means(uol, place, drawn, monkeypatch):
    lines = [f"{k}.png,{k},{k + 2}," if k % 2 else f"{k}.png,{k},,{k - 1}" for k in range(2, 8)]
    (place / "ratings.csv").write_text("\n".join(["image,a,b,c", *lines]))
    for k in range(2, 8):
        Image.new("RGB", (8, 8), (k, k, k)).save(place / f"{k}.png")
    means = {k: (2 * k + (2 if k % 2 else -1)) / 2 for k in range(2, 8)}
    said = "image,score,value\n" + "".join(f"{k}.png,{mean},{k}\n" for k, mean in means.items())
    for k in range(1, 6):
        (place / "runs" / "paper" / f"fold-{k}" / "evaluations").mkdir()
        (place / "runs" / "paper" / f"fold-{k}" / "evaluations" / "ratings.csv").write_text(said)
    call = ("experiment", "adjusted", "runs/paper", "--data", ".", "--table", "ratings.csv", "--scale", "1", "9")
    code, out, err = uol(*call, "--json")
    assert code == 0, err
    (row,) = json.loads(out)
    assert (row["run"], row["folds"], row["images"]) == ("runs/paper", 5, 6)
    assert row["pc"] < row["adjusted_pc"] == pytest.approx(1.0)
    code, out, err = uol(*call)
    assert code == 0, err
    assert "adjusted PC" in out
    assert "1.0000–1.0000" in out
    monkeypatch.setattr("uol.datasets.load", lambda *_, **__: drawn)
    code, _, err = uol("experiment", "adjusted", "runs/paper", "--data", "synthetic")
    assert code == 2
    assert "not asked about synthetic" in err
