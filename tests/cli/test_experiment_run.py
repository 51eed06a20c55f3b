"""uol experiment run, from a plan's name to its table, panel and figure, on drawn faces and a tiny network."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from quick import quick_recipe
from uol import datasets
from uol.experiments.plans import PlanRow, find_plan


@pytest.fixture
def place(tmp_path, monkeypatch, drawn, folded, drawn_b):
    """Drawn faces under the names of the data sets, in two folds, and rows that train for moments."""
    groups = pd.DataFrame(
        {"person": [f"{i // 2:03}" for i in range(80)], "makeup": ["with", "without"] * 40, "take": 1}
    )
    unrated = replace(drawn, scores=np.full(80, np.nan))
    known = {
        "scut-fbp5500": replace(folded, name="scut-fbp5500"),
        "mebeauty": replace(drawn_b, name="mebeauty"),
        "mifs": replace(unrated, name="mifs", groups=groups),
        "color-feret": replace(unrated, name="color-feret"),
    }
    monkeypatch.setattr(datasets, "load", lambda name, root: known[name])
    monkeypatch.setattr(
        PlanRow,
        "settings",
        lambda row, changes: quick_recipe(epochs=2, method=row.method).with_changes({**changes, **row.changes}),
    )
    monkeypatch.setenv("UOL_COMMIT", "0123456789" * 4)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    return tmp_path


ALSO = ("--also", "mebeauty=there", "--also", "mifs=there", "--also", "color-feret=there")


@pytest.mark.slow
def test_from_a_plan_to_tables_panel_and_figures(uol, place):
    chosen = ("--recipe", "matched", "--recipe", "matched-consistency")  # balanced references need more images
    call = ("experiment", "run", "scores", "--root", "there", *chosen, *ALSO, "--add")
    code, out, err = uol(*call, "--json")
    rows = json.loads(out)
    assert code == 0, err
    assert [(row["recipe"], row["split"], row["state"]) for row in rows] == [
        (recipe, f"fold-{k}", "done") for recipe in ("matched", "matched-consistency") for k in (1, 2)
    ]
    assert "4 networks on scut-fbp5500, in runs/scores" in err
    assert "[1 of 4] order-learning (matched), fold-1, seed 0: PC" in err
    assert "left" in err
    code, out, err = uol(*call)
    assert code == 0
    assert out.count("there") == 4
    listed = {row["name"]: row for row in json.loads(uol("experiment", "list", "--json")[1])}
    assert (listed["scores"]["results"], listed["scores"]["of"]) == (4, 15)

    code, out, _ = uol("experiment", "table", "scores", "--json")
    rows = json.loads(out)
    assert [row["recipe"] for row in rows] == ["matched", "matched-consistency"]
    assert rows[0].keys() >= {
        "method",
        "recipe",
        "folds",
        "seeds",
        "pc",
        "mae",
        "rmse",
        "spearman",
        "ensemble",
        "paper",
    }
    low, high = rows[0]["intervals"]["mae"]
    assert low < rows[0]["mae"] < high
    assert rows[1]["paper"] is None
    pairs = json.loads(uol("experiment", "table", "scores", "--show", "pairs", "--json")[1])
    assert {(row["recipe"], row["against"]) for row in pairs} == {("matched-consistency", "order-learning (matched)")}
    (first, _) = json.loads(uol("experiment", "table", "scores", "--show", "makeup", "--json")[1])
    assert (first["models"], first["pairs"]) == (2, 40)
    for kind in ("range", "transfer", "pairs", "makeup", "folds"):
        assert "matched-consistency" in uol("experiment", "table", "scores", "--show", kind)[1]
    for name in ("range.png", "rows.svg"):
        more = ("--show", "results") if name == "rows.svg" else ()
        assert uol("experiment", "figure", "scores", "--out", name, *more)[0] == 0
        assert (place / name).stat().st_size > 5000
    assert uol("experiment", "add", "runs/scores")[2].count("unchanged") == 4


@pytest.mark.slow
def test_a_panel_of_methods(uol, place):
    chosen = [word for method in ("regression", "ldl", "uncertain-regression") for word in ("--method", method)]
    run = ("experiment", "run", "modules", "--root", "there", *chosen, "--fold", "1", "--set", "epochs=1", *ALSO[4:])
    assert uol(*run, "--out", "here", "--slim")[0] == 0
    assert not list(place.glob("here/*/*/checkpoint.safetensors"))
    code, _, err = uol("experiment", "panel", "here", *chosen)
    assert code == 0, err
    assert "panel of 3 methods, 80 images, 1 folds" in err
    table = uol("experiment", "table", "color-feret", "--format", "markdown")[1]
    assert "| methods | regression | 1 | 80 |" in table
    assert len(json.loads(uol("experiment", "table", "color-feret", "--json")[1])) == 3


@pytest.mark.slow
def test_recipes_are_trained_and_read_and_compared_on_held_out_images(uol, place):
    chosen = [word for name in ("strong", "strong-plain", "strong-six-views") for word in ("--recipe", name)]
    call = ("experiment", "run", "recipes", "--root", "there", "--set", "scoring.mirror=true")
    code, out, err = uol(*call, *chosen, "--add", "--slim", "--json")
    assert code == 0, err
    assert [row["recipe"] for row in json.loads(out)][::2] == ["strong", "strong-plain", "strong-six-views"]
    pairs = json.loads(uol("experiment", "table", "recipes", "--show", "pairs", "--json")[1])
    assert {(row["recipe"], row["against"]) for row in pairs} == {
        ("strong-plain", "uol (strong)"), ("strong-six-views", "uol (strong)"),
    }  # fmt: skip
    assert "`strong-plain`" not in uol("experiment", "table", "scut-fbp5500", "--show", "brief")[1]  # it has a table
    assert "uol, recipe `strong-plain`" in uol("experiment", "table", "recipes", "--show", "brief")[1]
    names = ["runs/recipes/uol-strong", "runs/recipes/uol-strong-six-views"]
    code, out, err = uol("experiment", "held-out", *names, "--json")
    rows = json.loads(out)
    assert (code, err) == (0, "")
    assert [(row["run"], row["folds"], row["images"]) for row in rows] == [
        (name, 2, 16) for name in (*names, "average")
    ]
    assert "average" in uol("experiment", "held-out", *names)[1]
    assert uol("experiment", "held-out", "runs/recipes")[0] == 2


def test_a_row_that_lacks_what_it_needs_is_left_out(uol, place, monkeypatch):
    from uol.experiments import runner

    monkeypatch.setattr(runner, "run_job", lambda job, *_: ("there", None))
    call = ("experiment", "run", "recipes", "--root", "there", "--json", "--set", "histogram_weight=0.5")
    code, out, err = uol(*call)
    assert code == 0, err
    assert "left out: uol (distilled), which requires --set teachers=…" in err
    assert "distilled" not in out
    assert "strong-six-views" in out
    recipes = {row["recipe"] for row in json.loads(uol(*call, "--set", "teachers=[a]")[1])}
    assert recipes >= {"strong", "distilled"}


def test_every_idea_can_be_run_without_more_being_said(uol, place, monkeypatch):
    from uol.experiments import runner

    monkeypatch.setattr(runner, "run_job", lambda job, *_: ("there", None))
    as_half = ("--set", "model.framing=face", "--set", "histogram_weight=0.5")
    code, out, err = uol("experiment", "run", "ideas", "--root", "there", "--json", *as_half)
    assert code == 0, err
    assert "left out" not in err
    assert {row["recipe"] for row in json.loads(out)} == {row.recipe for row in find_plan("ideas").rows}


@pytest.mark.slow
def test_what_fails_ends_with_one_and_the_rest_is_there(uol, place, monkeypatch):
    from uol.experiments import runner

    def broken(packed, name, *rest, **more):
        if name == "fold-1":
            raise RuntimeError("out of memory")
        return whole(packed, name, *rest, **more)

    whole = runner.train_and_test
    monkeypatch.setattr(runner, "train_and_test", broken)
    code, out, err = uol("experiment", "run", "modules", "--root", "there", "--method", "regression", "--json")
    assert code == 1
    assert [row["state"] for row in json.loads(out)] == ["failed", "done"]
    assert (
        "uol: 1 of 2 networks failed; the first: regression (matched), fold-1, seed 0: RuntimeError: out of mem" in err
    )


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["module"], "there are modules, losses"),
        (["modules", "--method", "crnet"], "experiment modules has no method 'crnet'"),
        (["modules", "--recipe", "strong"], "experiment modules has no recipe 'strong'"),
        (["recipes", "--recipe", "distilled"], "distilled needs --set teachers=…"),
        (["readings"], "nothing to run: every row of readings requires --set teachers=…"),
        (
            ["recipes", "--recipe", "strong", "--set", "teachers=[a]"],
            "is for distilled alone",
        ),
        (["modules", "--fold", "9"], "no fold 'fold-9'"),
        (["modules", "--also", "mebeauty"], "write it as NAME=FOLDER"),
        (["modules", "--also", "here=there"], "--also here: there are mebeauty"),
        (["modules", "--also", "mifs=a", "--also", "mifs=b"], "given twice"),
        (["modules", "--set", "seed=3"], "use --seed and --method"),
        (["modules", "--set", "epoch=3"], "did you mean 'epochs'"),
        (["modules", "--init", "absent.safetensors"], "no such file of weights"),
        (["modules", "--add", "--results", "nowhere"], "no such folder of results"),
    ],
)
def test_mistakes_are_found_before_anything_is_read(uol, place, words, match):
    code, _, err = uol("experiment", "run", *words, "--root", "there")
    assert code == 2
    assert match in err.splitlines()[-1]
    assert not (place / "runs").exists()


def test_results_that_nobody_could_repeat_are_refused_before_training(uol, place, monkeypatch):
    from uol.storage import provenance

    monkeypatch.setattr(provenance, "commit", lambda: provenance.Commit("ab" * 20, True))
    code, _, err = uol("experiment", "run", "modules", "--root", "there", "--add")
    assert code == 2
    assert "uncommitted changes" in err


def test_figures_need_results_and_a_known_ending(uol, place):
    assert uol("experiment", "figure", "modules", "--out", "a.gif")[0] == 2
    code, _, err = uol("experiment", "figure", "modules", "--out", "a.png")
    assert code == 1
    assert "no results yet" in err
    assert uol("experiment", "figure", "scores", "--out", "a.png")[0] == 1
    code, _, err = uol("experiment", "figure", "modules", "--show", "groups", "--out", "a.png")
    assert code == 1
    assert "no result has figures by group" in err
