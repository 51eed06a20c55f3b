"""A run's results come into the folder whole, once, and never in the place of different ones by accident."""

from __future__ import annotations

import json

import pytest

from measured import elsewhere, five_folds, measured
from uol.errors import CallError, UolError
from uol.experiments.collect import add, finished_in
from uol.runs.folder import RunFolder
from uol.runs.read_run import read_run
from uol.runs.result import Transfer, read_result, write_result
from uol.runs.result_checks import read_results


def run_of(folder, results, evaluations=None):
    """Run folders with these results, one per fold."""
    for result in results:
        write_result(folder / result.split / "result.json", result)
        for name, found in (evaluations or {}).items():
            path = folder / result.split / "evaluations" / f"{name}.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps({"data": name, **found, "by_group": {}}))
    return folder


def test_folds_are_added_with_their_evaluations(tmp_path):
    found = {"mebeauty": elsewhere(0.6, images=2550), "scut-fbp5500": elsewhere(0.99)}
    run = run_of(tmp_path / "run", five_folds(), found)
    added = add(run, tmp_path / "results")
    assert [(a.path.name, a.what) for a in added] == [(f"uol-paper-fold-{k}-seed-0.json", "added") for k in range(1, 6)]
    results = read_results(tmp_path / "results" / "scut-fbp5500")
    assert [r.metrics.pc for r in results] == [r.metrics.pc for r in five_folds()]
    wanted = Transfer.model_validate(found["mebeauty"])
    assert all(r.transfer == {"mebeauty": wanted} for r in results)
    assert {a.what for a in add(run, tmp_path / "results")} == {"unchanged"}


def test_one_run_and_unfinished_folds(tmp_path):
    write_result(tmp_path / "run" / "result.json", measured())
    assert len(add(tmp_path / "run", tmp_path / "results")) == 1
    folds = run_of(tmp_path / "folds", five_folds()[:2])
    (folds / "fold-3").mkdir()
    (folds / "fold-3" / "recipe.yaml").write_text("epochs: 3")
    assert finished_in(folds) == (
        [RunFolder(folds / "fold-1"), RunFolder(folds / "fold-2")],
        [RunFolder(folds / "fold-3")],
    )
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "absent"):
        with pytest.raises(CallError, match=folder):
            add(tmp_path / folder, tmp_path / "results")


def test_a_different_result_needs_replace(tmp_path):
    results = tmp_path / "results"
    add(run_of(tmp_path / "a", [measured(pc=0.9)]), results)
    other = run_of(tmp_path / "b", [measured(pc=0.91)])
    with pytest.raises(UolError, match="--replace"):
        add(other, results)
    assert read_results(results / "scut-fbp5500")[0].metrics.pc == 0.9
    assert [a.what for a in add(other, results, replace=True)] == ["replaced"]
    assert read_results(results / "scut-fbp5500")[0].metrics.pc == 0.91


def test_later_evaluations_need_no_replace(tmp_path):
    results, run = tmp_path / "results", tmp_path / "run"
    add(run_of(run, [measured()], {"mebeauty": elsewhere(0.6)}), results)
    (run / "fold-1" / "evaluations" / "mebeauty.json").unlink()
    assert [a.what for a in add(run_of(run, [measured()], {"hot-or-not": elsewhere(0.4)}), results)] == ["replaced"]
    (result,) = read_results(results / "scut-fbp5500")
    assert {name: found.pc for name, found in result.transfer.items()} == {"mebeauty": 0.6, "hot-or-not": 0.4}
    with pytest.raises(UolError, match="--replace"):
        add(run_of(run, [measured()], {"hot-or-not": elsewhere(0.5)}), results)


def test_a_fingerprint_comes_later_but_never_another(tmp_path):
    results, run = tmp_path / "results", tmp_path / "run"
    for told, what in ((None, "added"), ("ab", "replaced"), ("ab", "unchanged")):
        found = elsewhere(0.6) if told is None else elsewhere(0.6, fingerprint=told)
        assert [a.what for a in add(run_of(run, [measured()], {"mebeauty": found}), results)] == [what]
    assert read_results(results / "scut-fbp5500")[0].transfer["mebeauty"].fingerprint == "ab"
    with pytest.raises(UolError, match="--replace"):
        add(run_of(run, [measured()], {"mebeauty": elsewhere(0.6, fingerprint="cd")}), results)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"provenance": {"modified": True}}, "fold-2/result.json: provenance.modified"),
        ({"provenance": {"commit": None}}, "fold-2/result.json: provenance.commit"),
        ({"settings": {"epochs": 7}}, "epochs is 7, but 100"),
    ],
)
def test_all_or_nothing(tmp_path, changes, match):
    run = run_of(tmp_path / "run", [measured("fold-1"), measured("fold-2", **changes)])
    assert read_run(RunFolder(run / "fold-2")).split == "fold-2"  # a run itself may have it
    with pytest.raises(UolError, match=match):
        add(run, tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_names_that_meet_and_folds_that_are_the_same(tmp_path):
    results = tmp_path / "results"
    add(run_of(tmp_path / "a", [measured(method="a-b", recipe="c")]), results)
    with pytest.raises(UolError, match="taken by another"):
        add(run_of(tmp_path / "b", [measured(method="a", recipe="b-c")]), results, replace=True)
    twice = run_of(tmp_path / "twice", [measured()])
    write_result(twice / "fold-2" / "result.json", measured())
    with pytest.raises(UolError, match="fold-2/result.json: another fold"):
        add(twice, results)


@pytest.mark.parametrize(
    ("text", "match"),
    [("{", "not readable"), ("3", "json: damaged"), ('{"images": 1}', "mebeauty.json: pc: is missing")],
)
def test_damaged_evaluations(tmp_path, text, match):
    run = run_of(tmp_path / "run", [measured()], {"mebeauty": {}})
    (run / "fold-1" / "evaluations" / "mebeauty.json").write_text(text)
    with pytest.raises(UolError, match=match):
        add(run, tmp_path / "results")
    assert read_result(run / "fold-1" / "result.json") == measured()


def test_figures_on_a_part_of_a_data_set_are_not_those_of_the_whole(tmp_path):
    run = run_of(tmp_path / "run", [measured()], {"mebeauty": elsewhere(split="test")})
    with pytest.raises(UolError, match="split test alone; tables report whole data sets"):
        add(run, tmp_path / "results")
