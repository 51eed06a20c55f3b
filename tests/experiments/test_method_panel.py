"""Panels of methods: from what networks said to a file with its provenance, and to a table."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import trim_mean

from measured import measured
from uol.errors import CallError, UolError
from uol.experiments.method_panel import make_panel, panel_agreement, read_panels, trimmed_mean, write_panel
from uol.experiments.rows import find_source
from uol.experiments.tables import view
from uol.runs.result import write_result
from uol.storage import provenance

METHODS = ["crnet", "ldl", "regression", "uol"]


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two folds of four methods that scored thirty images."""
    monkeypatch.setenv("UOL_COMMIT", "0123456789" * 4)
    truth = np.random.default_rng(0).normal(3, 1, 30)
    for number, method in enumerate(METHODS):
        for fold in (1, 2):
            folder = tmp_path / "runs" / f"{method}-matched" / f"fold-{fold}"
            write_result(folder / "result.json", measured(f"fold-{fold}", method=method, recipe="matched"))
            value = truth + 0.3 * (number + 1) * np.random.default_rng([number, fold]).normal(size=30)
            (folder / "evaluations").mkdir()
            table = pd.DataFrame({"image": [f"{i}.pgm" for i in range(30)], "value": value})
            table.to_csv(folder / "evaluations" / "feret-gray.csv", index=False)
    return tmp_path / "runs"


def test_a_panel_is_made_kept_and_shown(runs, tmp_path):
    panel = make_panel(runs, "feret-gray", "small", METHODS)
    wanted = []
    for fold in (1, 2):
        files = {m: runs / f"{m}-matched" / f"fold-{fold}" / "evaluations" / "feret-gray.csv" for m in METHODS}
        wanted.append(panel_agreement({m: pd.read_csv(path)["value"] for m, path in files.items()}))
    assert panel.members["uol"].pc == pytest.approx(np.mean([w["uol"].pc for w in wanted]))
    assert panel.members["uol"].pc_others == pytest.approx(np.mean([w["uol"].pc_others for w in wanted]))
    assert (panel.folds, panel.images, panel.demonstration, len(panel.networks)) == (2, 30, True, 8)
    assert panel.networks[0].command == "uol train --fold fold-1 --set seed=0"
    path = write_panel(tmp_path / "results", panel)
    assert path.name == "panel-small.json"
    assert read_panels(path.parent) == [panel]
    source = find_source(tmp_path / "results", "feret-gray")
    rows, columns = view("main", source)
    assert [row["method"] for row in rows] == METHODS
    assert all(key in row for row in rows for key in columns)
    assert {row["kind"] for row in rows} == {"demonstration"}
    assert not source.empty
    path.write_text(json.dumps({"name": "small"}))
    with pytest.raises(UolError, match=r"panel-small.json: data: is missing"):
        read_panels(path.parent)


def test_panels_need_all_methods_on_the_same_images(runs):
    with pytest.raises(CallError, match="no fold has scores on mifs"):
        make_panel(runs, "mifs", methods=METHODS)
    (runs / "uol-matched" / "fold-2" / "evaluations" / "feret-gray.csv").unlink()
    assert make_panel(runs, "feret-gray", methods=METHODS).folds == 1
    path = runs / "uol-matched" / "fold-1" / "evaluations" / "feret-gray.csv"
    pd.read_csv(path)[:20].to_csv(path, index=False)
    with pytest.raises(UolError, match="fold-1: uol scored other images"):
        make_panel(runs, "feret-gray", methods=METHODS)
    write_result(
        runs / "crnet-matched" / "fold-1" / "result.json",
        measured(method="crnet", recipe="matched", provenance={"modified": True}),
    )
    with pytest.raises(UolError, match="uncommitted changes"):
        make_panel(runs, "feret-gray", methods=METHODS)


def test_a_panel_that_nobody_could_repeat_is_refused(runs, monkeypatch):
    monkeypatch.setattr(provenance, "commit", lambda: provenance.Commit("ab" * 20, True))
    with pytest.raises(UolError, match="nobody could repeat this panel"):
        make_panel(runs, "feret-gray", methods=METHODS)


@given(st.integers(3, 9), st.integers(2, 20), st.integers(0, 99))
def test_the_trimmed_mean_drops_one_at_each_end(methods, images, seed):
    scores = np.random.default_rng(seed).normal(size=(methods, images))
    assert np.allclose(trimmed_mean(scores), trim_mean(scores, 1.01 / methods, axis=0))


def test_agreement_with_a_panel():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=400)
    scores = {
        name: truth + noise * rng.normal(size=400)
        for name, noise in zip("abcde", [0.2, 0.5, 0.5, 0.5, 3.0], strict=True)
    }
    found = panel_agreement(scores)
    assert found["a"].pc == pytest.approx(np.corrcoef(trimmed_mean(list(scores.values())), scores["a"])[0, 1])
    others = trimmed_mean([scores[name] for name in "bcde"])
    assert found["a"].pc_others == pytest.approx(np.corrcoef(others, scores["a"])[0, 1])
    assert max(found, key=lambda name: found[name].pc_others) == "a"
    assert min(found, key=lambda name: found[name].pc) == "e"
    assert np.isnan(panel_agreement({name: scores[name] for name in "abc"})["a"].pc_others)
    with pytest.raises(CallError, match="three methods"):
        panel_agreement({"a": truth, "b": truth})
