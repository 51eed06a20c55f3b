"""Trials on several panels: what is kept of each, that no test label reaches training, and that no table mixes them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from safetensors.torch import load_file

from quick import quick_recipe
from uol.errors import CallError, UolError
from uol.experiments.rows import Source, make_rows
from uol.experiments.tables import view
from uol.ratings import metrics
from uol.ratings.rated_images import RatedImages, Split
from uol.ratings.rater_effects import raters_leniency
from uol.runs.evaluating import evaluate_on
from uol.runs.folder import RunFolder
from uol.runs.lineage import Lineage
from uol.runs.multi_panel import PanelSplit
from uol.runs.predictions import keep_evaluation
from uol.runs.read_run import read_run
from uol.runs.result import Result, Transfer, read_result, write_result
from uol.runs.result_checks import check_together
from uol.runs.train_and_test import Origin, finished, train_and_test
from uol.scoring.scorer import Scorer
from uol.training.packed import PackedImages

ORIGIN = Origin("quick", {})
RECIPE = quick_recipe(order_target="soft", score_weight=1.0, histogram_weight=0.5)
SPLIT = Split(np.arange(20, 80), np.arange(20))


def divided(rated: RatedImages, split: Split = SPLIT) -> PanelSplit:
    return PanelSplit(PackedImages.pack(rated, RECIPE.model), "default", split)


def tried(first: RatedImages, second: RatedImages, folder, split: Split = SPLIT, other: Split = SPLIT, recipe=RECIPE):
    main = divided(first, split)
    return train_and_test(main.packed, "default", split, recipe, folder, ORIGIN, others=[divided(second, other)])


@pytest.fixture(scope="module")
def joint(drawn, drawn_b, tmp_path_factory):
    """A finished run on both panels: its folder and its result."""
    folder = tmp_path_factory.mktemp("joint") / "run"
    return folder, tried(drawn, drawn_b, folder)


def test_each_panel_has_its_model_and_its_predictions(joint, drawn, drawn_b):
    folder, result = joint
    for rated, place, figures in (
        (drawn, folder, result.metrics),
        (drawn_b, folder / "panels" / "synthetic-b", result.beside["synthetic-b"]),
    ):
        table_ = pd.read_csv(place / "predictions.csv")
        assert np.allclose(table_["score"], rated.scores[:20], rtol=1e-5)
        assert figures.images == 20
        assert figures.mae == pytest.approx(metrics.mae(table_["score"], table_["value"]), abs=1e-3)
        scorer = Scorer.from_pretrained(folder / "model", panel=rated.name)
        assert (scorer.panel.name, *scorer.panel.scale) == (rated.name, *rated.scale)
        assert np.isin(scorer.references.scores.astype(np.float32), rated.scores[20:].astype(np.float32)).all()
        again, _ = evaluate_on(scorer, PackedImages.pack(rated, RECIPE.model).subset(np.arange(20)))
        assert again["mae"] == pytest.approx(figures.mae, abs=1e-4)
    assert [panel.name for panel in Scorer.from_pretrained(folder / "model").panels] == ["synthetic-a", "synthetic-b"]
    assert len([*folder.rglob("model.safetensors")]) == 1  # no copy of the weights


def test_told_who_rated_is_the_prediction_and_their_leniency_by_the_training_images(joint, drawn, drawn_b):
    folder, result = joint
    assert result.known_raters is None  # everybody rated everything
    assert "known_raters_leniency" not in pd.read_csv(folder / "predictions.csv")
    expected = raters_leniency(drawn_b.ratings, np.arange(20, 80))[:20]
    table_ = pd.read_csv(folder / "panels" / "synthetic-b" / "predictions.csv")
    assert np.allclose(table_["known_raters_leniency"], expected, atol=1e-5)
    known, alone = result.beside["synthetic-b"].known_raters, result.beside["synthetic-b"]
    told = table_["value"] + expected
    assert known.pc == pytest.approx(metrics.pearson(table_["score"], told), abs=1e-5)
    assert (known.mae, known.rmse) == pytest.approx(
        (metrics.mae(table_["score"], told), metrics.rmse(table_["score"], told)), abs=1e-4
    )
    assert known.pc != alone.pc
    assert len(known.replicates.pc) == len(alone.replicates.pc)


def test_the_result_tells_all_that_trained(joint, drawn, drawn_b):
    folder, result = joint
    assert result == read_result(folder / "result.json")
    assert result.trained_on == result.experiment == "synthetic-a+synthetic-b"
    assert result.transfer == {}
    assert result.beside["synthetic-b"].trained
    assert result.beside["synthetic-b"].split == "default"
    first, second = result.provenance.panels
    assert (first.fingerprint, second.fingerprint) == (drawn.fingerprint, drawn_b.fingerprint)
    assert (second.training, second.held_out, second.test, second.left_out) == (48, 12, 20, 0)
    assert result.provenance.learnt_from == {"synthetic-a", "synthetic-b"}
    text = json.loads((folder / "result.json").read_text())
    assert text["beside"]["synthetic-b"]["trained"] is True
    lineage = Lineage.of(result)
    assert lineage.split_of(drawn_b.fingerprint).folder(RunFolder(folder)).path == folder / "panels" / "synthetic-b"
    assert lineage.split_of(drawn.fingerprint).folder(RunFolder(folder)).path == folder
    assert lineage.split_of("another") is None


def test_a_result_of_one_panel_is_written_as_before(finished_run):
    text = (finished_run / "result.json").read_text()
    assert '"beside"' not in text
    assert '"panels"' not in text
    assert '"known_raters"' not in text
    assert not (finished_run / "panels").exists()


def test_no_transfer_is_told_to_a_panel_that_trained(joint, drawn_b, tmp_path):
    folder, result = joint
    figures = result.metrics.model_dump() | {"split": None, "framing": "whole"}
    values = json.loads((folder / "result.json").read_text()) | {"transfer": {"synthetic-b": figures}}
    with pytest.raises(ValidationError, match="transfer.synthetic-b: the network was trained on images of synthetic-b"):
        Result.model_validate_json(json.dumps(values))
    scorer = Scorer.from_pretrained(folder / "model")
    found = evaluate_on(scorer, PackedImages.pack(drawn_b, RECIPE.model))
    run = tmp_path / "run"
    run.mkdir()
    write_result(run / "result.json", result)
    for name in ("synthetic-b", "elsewhere"):
        keep_evaluation(RunFolder(run), name, None, "whole", *found)
    assert set(read_run(RunFolder(run)).transfer) == {"elsewhere"}


def test_tables_keep_joint_networks_apart(joint):
    _, result = joint
    alone = result.model_copy(
        update={"trained_on": "synthetic-a", "beside": None}
        | {"provenance": result.provenance.model_copy(update={"panels": None})}
        | {"transfer": {"synthetic-b": Transfer(**result.metrics.model_dump(), split=None, framing="whole")}}
    )
    rows = make_rows([alone, result])
    assert [(row["trained_on"], list(row["transfer"])) for row in rows] == [
        ("synthetic-a", ["synthetic-b"]),
        ("synthetic-a+synthetic-b", []),
    ]


def test_the_table_of_other_panels_has_figures_that_know_the_raters_where_all_networks_have_them(joint):
    _, result = joint
    there = result.beside["synthetic-b"]
    (row,) = view("beside", Source([result])).rows
    assert (row["known_pc"], row["known_mae"], row["known_rmse"]) == (
        there.known_raters.pc,
        there.known_raters.mae,
        there.known_raters.rmse,
    )
    low, high = (float(end) for end in row["known_interval"].split("–"))
    assert low < row["known_pc"] < high
    older = result.model_copy(
        update={"split": "fold-2", "beside": {"synthetic-b": there.model_copy(update={"known_raters": None})}}
    )
    (row,) = view("beside", Source([result.model_copy(update={"split": "fold-1"}), older])).rows
    assert row["models"] == 2
    assert row["known_pc"] is row["known_interval"] is None


def test_results_of_one_row_have_the_same_panels(joint, tmp_path):
    _, result = joint
    result = result.model_copy(
        update={"provenance": result.provenance.model_copy(update={"commit": "0" * 40, "modified": False})}
    )
    second = result.provenance.panels[1].model_copy(update={"fingerprint": "other"})
    made = result.provenance.model_copy(update={"panels": [result.provenance.panels[0], second]})
    other = result.model_copy(update={"seed": 1, "provenance": made})
    with pytest.raises(UolError, match="panels that trained together differ from those"):
        check_together({tmp_path / "a.json": result, tmp_path / "b.json": other})


def mixed(rated: RatedImages) -> RatedImages:
    """The same with everything that was said of the test images in another order."""
    rows = np.arange(len(rated))
    rows[SPLIT.test] = np.random.default_rng(0).permutation(SPLIT.test)
    return replace(
        rated, scores=rated.scores[rows], variances=rated.variances[rows], counts=rated.counts[rows],
        histograms=rated.histograms[rows], ratings=None,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1])
def test_shuffled_test_labels_of_either_panel_change_nothing(joint, drawn, drawn_b, which, tmp_path):
    folder, result = joint
    panels = [drawn, drawn_b]
    panels[which] = mixed(panels[which])
    other = tried(*panels, tmp_path)
    for file in ("checkpoint.safetensors", "model/model.safetensors", "model/references.safetensors",
                 "model/panels/synthetic-b/references.safetensors"):  # fmt: skip
        one, two = load_file(folder / file), load_file(tmp_path / file)
        assert all(one[key].equal(two[key]) for key in one), file
    for place in ("", "panels/synthetic-b/"):
        name = f"model/{place}config.json"
        assert (folder / name).read_bytes() == (tmp_path / name).read_bytes()
        tables = [pd.read_csv(run / f"{place}predictions.csv") for run in (folder, tmp_path)]
        for column in ("value", "low", "high", "dispersion"):
            assert np.array_equal(tables[0][column], tables[1][column])
    changed = (result.metrics.mae != other.metrics.mae, result.beside != other.beside)
    assert changed == (which == 0, which == 1)


@pytest.mark.slow
def test_a_photograph_that_tests_one_panel_does_not_train_another(drawn, drawn_b, tmp_path):
    """Both panels rated the same faces: what tests the first is left out of the second's training, and the reverse."""
    result = tried(drawn, drawn_b, tmp_path, SPLIT, Split(np.arange(70), np.arange(70, 80)), quick_recipe(epochs=1))
    first, second = result.provenance.panels
    assert (first.left_out, first.training + first.held_out, first.test) == (10, 50, 20)
    assert (second.left_out, second.training + second.held_out, second.test) == (20, 50, 10)
    assert result.provenance.data.training == first.training


def test_a_finished_run_is_found_and_another_second_panel_is_noticed(joint, drawn, drawn_b):
    folder, result = joint
    assert tried(drawn, drawn_b, folder) == result
    packed = divided(drawn).packed
    pixels = packed.checksum
    assert finished(RunFolder(folder), drawn, pixels, "default", RECIPE, [divided(drawn_b)]) == result
    assert finished(RunFolder(folder), drawn, pixels, "default", RECIPE) is None
    assert finished(RunFolder(folder), drawn, pixels, "default", RECIPE, [divided(mixed(drawn_b))]) is None
    other = PanelSplit(divided(drawn_b).packed, "another", SPLIT)
    assert finished(RunFolder(folder), drawn, pixels, "default", RECIPE, [other]) is None
    with pytest.raises(CallError, match="run on other images"):
        train_and_test(packed, "default", SPLIT, RECIPE, folder, ORIGIN)
    scores = drawn_b.scores.copy()
    scores[50] += 0.1
    with pytest.raises(CallError, match="run on other images"):
        tried(drawn, replace(drawn_b, scores=scores), folder)


@pytest.mark.slow
def test_without_test_images_both_have_a_model(drawn, drawn_b, tmp_path):
    whole = Split(np.arange(80), np.arange(0))
    assert tried(drawn, drawn_b, tmp_path, whole, whole, quick_recipe(epochs=1)) is None
    assert Scorer.from_pretrained(tmp_path, panel="synthetic-b").panel.high == 10
    made = json.loads((tmp_path / "provenance.json").read_text())
    assert [panel["name"] for panel in made["panels"]] == ["synthetic-a", "synthetic-b"]


def test_a_teacher_may_not_have_seen_the_test_images_of_either_panel(joint, drawn, drawn_b, tmp_path):
    folder, _ = joint
    recipe = RECIPE.with_changes({"teachers": [str(folder)], "epochs": 1})
    main = divided(drawn_b, Split(np.arange(60), np.arange(60, 80)))
    with pytest.raises(CallError, match="was trained on default, with images that fold-9 tests on"):
        train_and_test(main.packed, "fold-9", main.split, recipe, tmp_path, ORIGIN)
