"""Figures are computed again from kept predictions, and a figure or a prediction that was changed is noticed."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from measured import measured
from uol.experiments.collect import add
from uol.experiments.kept_predictions import kept_path, read_kept
from uol.experiments.leave_one_out import add_left_out, read_left_out
from uol.experiments.rows import find_source
from uol.experiments.tables import view
from uol.experiments.verify import verify
from uol.order.order import order_accuracy
from uol.ratings import metrics
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale
from uol.runs.groups import groups_of
from uol.runs.predictions import replicates_elsewhere, replicates_of, spread_of
from uol.runs.result import read_result, write_result
from uol.storage.csv_text import frame_text

RESULTS = Path(__file__).parents[2] / "results"
FINGERPRINT = "ab" * 32  # of tests/measured.py


def predicted(seed, images=60, scale=(1, 5)):
    """Predictions of a panel's means, with intervals, dispersion and groups, before they are rounded."""
    random = np.random.default_rng(seed)
    score = scale[0] + (scale[1] - scale[0]) * random.integers(0, 61, images) / 60
    value = np.clip(score + random.normal(0, 0.1 * (scale[1] - scale[0]), images), *scale)
    return pd.DataFrame(
        {
            "image": [f"{seed}-{number}.jpg" for number in range(images)],
            "score": score,
            "rating_sd": random.uniform(0.5, 1, images),
            "value": value,
            "low": value - 0.5,
            "high": value + 0.5,
            "dispersion": random.uniform(0.5, 1, images),
            "gender": np.where(np.arange(images) % 2, "female", "male"),
        }
    )


def figures(table, scale=(1, 5)):
    """The figures of predictions before they are rounded, as earlier versions stored them."""
    score, value = table["score"], table["value"]
    return {
        "images": len(table),
        "pc": metrics.pearson(score, value),
        "mae": metrics.mae(score, value),
        "rmse": metrics.rmse(score, value),
        "spearman": metrics.spearman(score, value),
        "order_accuracy": order_accuracy(score, value, 0.2 * Scale(*scale).unit),
        "coverage": metrics.coverage(score, table["low"], table["high"]),
        "interval_width": float((table["high"] - table["low"]).mean()),
        "dispersion_pc": metrics.pearson(table["rating_sd"], table["dispersion"]),
    }


def elsewhere(table, scale=(1, 5)):
    return figures(table, scale) | {
        "split": None, "framing": "face", "replicates": replicates_elsewhere(table, "mebeauty").model_dump(),
        "groups": {name: group.model_dump() for name, group in groups_of(table).items()},
    }  # fmt: skip


def write_run(folder, split="fold-1", **changes):
    """A run folder with a result, and six digits of its predictions."""
    own, other = predicted(int(split[-1])), predicted(9)
    result = measured(
        split,
        figures=figures(own),
        score_sd=float(np.std(own["score"])),
        replicates=replicates_of(own, FINGERPRINT, split).model_dump(),
        spread=spread_of(own, (1.0, 5.0)).model_dump(),
        groups={name: group.model_dump() for name, group in groups_of(own).items()},
        transfer={"mebeauty": elsewhere(other)},
        **changes,
    )
    write_result(folder / "result.json", result)
    (folder / "predictions.csv").write_text(frame_text(own, digits=6))
    (folder / "evaluations").mkdir()
    (folder / "evaluations" / "mebeauty.csv").write_text(frame_text(other, digits=6))
    return result


def write_whole_run(folder, seed=0, passes=()):
    """A run on two whole panels, read on each of them."""
    panels = [
        measured().provenance.data.model_dump(exclude={"division"}) | {"name": name, "scale": scale, "split": "whole"}
        | {"left_out": 0} for name, scale in (("one", [1.0, 5.0]), ("two", [0.0, 100.0]))
    ]  # fmt: skip
    made = measured().provenance.model_dump(exclude={"teachers", "members"})
    settings = made["settings"] | {"method": "uol", "seed": 0, "panel_passes": list(passes)}
    made |= {"recipe": "strong", "settings": settings, "panels": panels, "data": made["data"] | {"name": "one"}}
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text("method: uol")
    (folder / "provenance.json").write_text(json.dumps(made))
    for place, scale in ((folder, (1, 5)), (folder / "panels" / "two", (0, 100))):
        (place / "evaluations").mkdir(parents=True)
        table = predicted(20 + seed, scale=scale)
        (place / "evaluations" / "mebeauty.json").write_text(json.dumps({"data": "mebeauty"} | elsewhere(table, scale)))
        (place / "evaluations" / "mebeauty.csv").write_text(frame_text(table, digits=6))
    return folder


@pytest.fixture(scope="module")
def added(tmp_path_factory):
    """Two folds, and a run that left a panel out, added to a folder of results."""
    tmp_path = tmp_path_factory.mktemp("added")
    for split in ("fold-1", "fold-2"):
        write_run(tmp_path / "run" / split, split)
    add(tmp_path / "run", tmp_path / "results")
    add_left_out(write_whole_run(tmp_path / "plain"), tmp_path / "results")
    add_left_out(write_whole_run(tmp_path / "even", 1, (0.5, 2.0)), tmp_path / "results", recipe="strong-balanced")
    return tmp_path


@pytest.fixture
def results(added, tmp_path):
    """A copy of what was added, to be changed; the runs are in the folder above."""
    shutil.copytree(added, tmp_path, dirs_exist_ok=True)
    return tmp_path / "results"


def test_what_was_added_is_verified(results):
    done = verify(results)
    assert done.problems == []
    assert (done.tables, len(done.verified), done.partly, done.without) == (8, 4, [], [])
    assert done.numbers > 8 * 500
    assert done.gap <= 1e-12
    assert done.tolerance == 1e-6
    assert "verified: 4 results by 8 tables" in done.summary()[0]


def test_figures_of_earlier_versions_become_those_of_the_stored_predictions(results, tmp_path):
    path = results / "scut-fbp5500" / "uol-paper-fold-1-seed-0.json"
    before, after = read_result(tmp_path / "run" / "fold-1" / "result.json"), read_result(path)
    table = pd.read_csv(tmp_path / "run" / "fold-1" / "predictions.csv")
    assert before.metrics.mae != after.metrics.mae == pytest.approx(metrics.mae(table["score"], table["value"]))
    assert (
        before.metrics.dispersion_pc
        != after.metrics.dispersion_pc
        == pytest.approx(metrics.pearson(table["rating_sd"], table["dispersion"]), abs=1e-12)
    )


def test_kept_files_are_small_the_same_each_time_and_without_groups(results, tmp_path):
    path = kept_path(results / "scut-fbp5500" / "uol-paper-fold-1-seed-0.json")
    before = path.read_bytes()
    assert gzip.decompress(before).decode().splitlines()[0] == "image,score,value,low,high,dispersion"
    path.unlink()
    assert {added.what for added in add(tmp_path / "run", results)} == {"unchanged"}
    assert path.read_bytes() == before


def test_replaced_results_lose_the_predictions_of_the_network_before(results, tmp_path):
    (tmp_path / "run" / "fold-1" / "evaluations" / "mebeauty.csv").unlink()
    changed = read_result(tmp_path / "run" / "fold-1" / "result.json").model_copy(update={"score_sd": 1.0})
    write_result(tmp_path / "run" / "fold-1" / "result.json", changed)
    add(tmp_path / "run", results, replace=True)
    path = results / "scut-fbp5500" / "uol-paper-fold-1-seed-0.json"
    assert read_kept(path) is not None
    assert read_kept(path, "mebeauty") is None
    assert verify(results).partly == ["scut-fbp5500/uol-paper-fold-1-seed-0"]


def shift_replicate(values, units):
    """Move a replicate by units of its last digit."""
    values["replicates"]["mae"][3] = round(values["replicates"]["mae"][3] + units * 1e-5, 5)


@pytest.mark.parametrize("units", [-1, 1])
def test_a_replicate_that_another_processor_rounds_the_other_way_is_the_same(results, units):
    path = results / "scut-fbp5500" / "uol-paper-fold-1-seed-0.json"
    values = json.loads(path.read_text())
    shift_replicate(values, units)
    path.write_text(json.dumps(values))
    assert verify(results).problems == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r["metrics"].update(pc=r["metrics"]["pc"] + 2e-6), "pc: "),
        (lambda r: r["metrics"].update(mae=r["metrics"]["mae"] + 2e-6), "mae: "),
        (lambda r: r["metrics"].update(spearman=r["metrics"]["spearman"] - 2e-6), "spearman: "),
        (lambda r: r.update(score_sd=r["score_sd"] + 2e-6), "score_sd: "),
        (lambda r: r["replicates"]["rmse"].__setitem__(7, 0.5), "replicates.rmse: by up to"),
        (lambda r: shift_replicate(r, 2), "replicates.mae: by up to 2e-05"),
        (lambda r: r["spread"]["panel"].__setitem__(0, 99), "spread.panel: "),
        (lambda r: r["transfer"]["mebeauty"].update(coverage=0.1), r"transfer\.mebeauty\.coverage: "),
        (lambda r: r["transfer"]["mebeauty"]["replicates"]["pc"].pop(), "499 numbers is stored, 500 numbers computed"),
    ],
)
def test_a_changed_figure_is_noticed(results, change, message):
    path = results / "scut-fbp5500" / "uol-paper-fold-1-seed-0.json"
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))
    problems = verify(results).problems
    assert problems
    assert problems[0].startswith("scut-fbp5500/uol-paper-fold-1-seed-0")
    assert re.search(message, problems[0])


def test_a_changed_prediction_and_one_without_a_result_are_noticed(results):
    path = kept_path(results / "leave-one-out" / "uol-strong-without-mebeauty-seed-0.json", "two")
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    cells = lines[1].split(",")
    cells[2] = str(float(cells[2]) + 1)
    path.write_bytes(gzip.compress("\n".join([lines[0], ",".join(cells), *lines[2:]]).encode(), mtime=0))
    stray = kept_path(results / "scut-fbp5500" / "uol-gone-fold-1-seed-0.json")
    stray.write_bytes(path.read_bytes())
    problems = verify(results).problems
    assert any("without-mebeauty-seed-0 on two: pc" in problem for problem in problems)
    assert f"{stray}: predictions without a result" in problems


def test_with_a_data_set_scores_groups_and_dispersion_are_checked(results):
    table = predicted(9)
    names, score = list(table["image"]), table["score"].to_numpy()
    variances = table["rating_sd"].to_numpy() ** 2
    rated = RatedImages("mebeauty", names, names, score, Scale(1, 5), variances, groups=table[["gender"]])
    (results / "leave-one-out").rename(results.parent / "apart")
    done = verify(results, data={"mebeauty": rated})
    assert done.problems == []
    assert done.gap <= 1e-12
    assert done.numbers > verify(results).numbers + len(names)
    moved = replace(rated, scores=rated.scores + 0.01)
    assert any("mebeauty: score: by up to 0.01" in line for line in verify(results, data={"mebeauty": moved}).problems)


def test_documents_that_differ_are_noticed(results, tmp_path):
    document = tmp_path / "results.md"
    document.write_text("<!-- table: leave-one-out -->\n\nold\n<!-- end -->\n")
    assert "results.md: its tables are not those of the results" in verify(results, {document: ""}).problems[0]


def test_leave_one_out_has_a_table_differences_and_groups(results):
    source = find_source(results, "leave-one-out")
    rows, columns = view("main", source)
    assert list(columns.values())[:5] == ["left out", "recipe", "trained on", "passes", "read on"]
    assert [(row["recipe"], row["passes"], row["read_on"]) for row in rows] == [
        ("strong", "1 each", "one"), ("strong", "1 each", "two"),
        ("strong-balanced", "0.50 and 2.00", "one"), ("strong-balanced", "0.50 and 2.00", "two"),
    ]  # fmt: skip
    assert rows[0]["trained_on"] == "one + two"
    assert rows[0]["pc"] == read_left_out(results / "leave-one-out")[0].readings["one"].pc
    assert len(view("differences", source).rows) == 2
    assert [row["group"] for row in view("groups", source).rows] == ["female", "male"]
    assert len(view("gaps", source).rows) == 8
    assert view("makeup", source).rows == []
    assert [row["recipe"] for row in view("main", source.only(["strong"])).rows] == ["strong", "strong"]


@pytest.mark.slow
def test_the_results_of_this_project_follow_from_their_predictions():
    done = verify(RESULTS)
    assert done.problems == []
    assert all("-paper-small" in name for name in done.partly)  # of these, predictions on MEBeauty are not kept
    shown = {name: headlines(RESULTS.parent / name) for name in ("README.md", "docs/results.md")}
    assert all("paper" in recipes for recipes in shown.values())
    for recipe in set().union(*shown.values()):
        used = [r for r in find_source(RESULTS, "scut-fbp5500").results if r.recipe == recipe and r.seed == 0]
        assert len(used) == 5
        assert {f"scut-fbp5500/{Path(r.file_name).stem}" for r in used} <= set(done.verified)


def headlines(document):
    """The recipes that a document's headline tables show."""
    tables = re.findall(r"<!-- table: scut-fbp5500 headline .*?<!-- end -->", document.read_text(), flags=re.S)
    return set(re.findall(r"^\| `(.*?)`", "".join(tables), flags=re.M))
