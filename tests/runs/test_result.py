"""Results are read as they were written, and what cannot be true or repeated is refused in one line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from measured import elsewhere, five_folds, makeup, measured, values
from uol.errors import UolError
from uol.ratings import metrics as compute
from uol.runs.result import least_rmse, read_result, write_result
from uol.runs.result_checks import read_results


def refused(path, found, match):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(found if isinstance(found, str) else json.dumps(found))
    with pytest.raises(UolError, match=match) as caught:
        read_result(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_written_and_read(tmp_path):
    result = measured(transfer={"mebeauty": elsewhere(0.5, coverage=None)})
    write_result(tmp_path / "result.json", result)
    assert read_result(tmp_path / "result.json") == result
    assert json.loads((tmp_path / "result.json").read_text()) == values(
        transfer={"mebeauty": elsewhere(0.5, coverage=None)}
    )


def test_names():
    assert measured().file_name == "uol-paper-fold-1-seed-0.json"
    assert measured(ensemble=5, seed=2).file_name == "uol-paper-fold-1-seed-2-ensemble-5.json"


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"more": 1}, "more: no such field"),
        ({"seed": "0"}, "seed: must be a whole number, not '0'"),
        ({"ensemble": 0}, "ensemble: must be at least 1, not 0"),
        ({"method": "../uol"}, "method: "),
        ({"split": ""}, "split: "),
        ({"figures": {"pc": 9.24}}, r"metrics\.pc: .*not 9.24"),
        ({"figures": {"accuracy": 1.0}}, r"metrics\.accuracy: no such field"),
        ({"transfer": {"mebeauty": {}}}, r"transfer\.mebeauty\.images: is missing"),
        ({"provenance": {"commit": "abc"}}, r"provenance\.commit: "),
        ({"provenance": {"modified": "no"}}, r"provenance\.modified: "),
        ({"figures": {"pc": 0.924, "rmse": 0.25}}, "RMSE of 0.2500 is impossible with a PC of 0.9240"),
        ({"figures": {"mae": 0.6}}, "MAE of 0.6000 above the RMSE"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, changes, match):
    refused(tmp_path / "result.json", values(**changes), match)


def test_files_that_are_no_results(tmp_path):
    refused(tmp_path / "result.json", "{", "not readable as JSON")
    refused(tmp_path / "result.json", "[]", "must be an object")
    without = values()
    del without["score_sd"]
    refused(tmp_path / "result.json", without, "score_sd: is missing")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    for name in ("binary.json", "absent.json"):
        with pytest.raises(UolError, match=f"{name}: cannot be read"):
            read_result(tmp_path / name)


@given(st.integers(2, 30), st.floats(-3, 3), st.floats(0.001, 2), st.integers(0, 2**31))
def test_figures_that_were_computed_are_never_refused(images, slope, noise, seed):
    rng = np.random.default_rng(seed)
    truth = rng.uniform(1, 5, images)
    predicted = slope * truth + rng.normal(0, noise, images)
    pc, error = compute.pearson(truth, predicted), compute.rmse(truth, predicted)
    figures = {"pc": None if np.isnan(pc) else pc, "mae": compute.mae(truth, predicted), "rmse": error}
    for digits in (4, 12):
        rounded = {key: None if value is None else round(value, digits) for key, value in figures.items()}
        result = measured(figures=rounded, score_sd=round(float(truth.std()), digits))
        assert (result.metrics.pc, result.metrics.rmse) == (rounded["pc"], rounded["rmse"])


def test_the_least_rmse_is_the_one_of_the_best_line():
    assert least_rmse(0.924, 0.688) == pytest.approx(0.688 * np.sqrt(1 - 0.924**2), abs=3e-4)
    assert least_rmse(1, 0.688) <= 0
    measured(figures={"pc": 0.924, "rmse": 0.2633, "mae": 0.1975}, score_sd=0.6880)
    with pytest.raises(ValidationError):
        measured(figures={"pc": 0.924, "rmse": 0.2620, "mae": 0.1975}, score_sd=0.6880)


def stored(folder, results):
    for number, result in enumerate(results):
        write_result(folder / f"{number}.json", result)
    return folder


def test_a_folder_of_results(tmp_path):
    assert read_results(tmp_path / "absent") == []
    folder = stored(tmp_path / "scut-fbp5500", five_folds())
    assert read_results(folder) == five_folds()


@pytest.mark.parametrize(
    ("second", "match"),
    [
        ({}, "1.json: the same method, recipe, split, seed and ensemble as 0.json"),
        ({"split": "fold-2", "provenance": {"commit": None}}, "nobody knows which code"),
        ({"split": "fold-2", "provenance": {"modified": True}}, "uncommitted changes"),
        ({"split": "fold-2", "settings": {"epochs": 50}}, "epochs is 50, but 100 in 0.json"),
        ({"split": "fold-2", "settings": {"init": None}}, "init is None, but 'vgg16.safetensors'"),
        ({"split": "fold-2", "transfer": {"mebeauty": elsewhere(images=7)}}, "images is 7, but 1100"),
        ({"split": "fold-2", "transfer": {"mebeauty": elsewhere(fingerprint="cd")}}, "fingerprint is cd, but ab"),
        ({"split": "fold-2", "makeup": makeup() | {"takes": "mean"}}, "makeup.takes is mean, but first"),
        ({"split": "fold-2", "makeup": makeup() | {"answer": "majority of votes"}}, "answer is majority of votes, but"),
        ({"split": "fold-2", "makeup": makeup() | {"framing": "whole"}}, "makeup.framing is whole, but face"),
        ({"experiment": "mebeauty"}, "a result of mebeauty, in the folder of scut-fbp5500"),
    ],
)
def test_results_that_do_not_go_together(tmp_path, second, match):
    first = measured(transfer={"mebeauty": elsewhere(fingerprint="ab")}, makeup=makeup())
    folder = stored(tmp_path / "scut-fbp5500", [first, measured(**second)])
    with pytest.raises(UolError, match=match) as caught:
        read_results(folder)
    assert "\n" not in str(caught.value)


def test_rows_may_differ_in_seed_place_of_weights_and_later_settings(tmp_path):
    others = [
        measured(seed=1),
        measured("fold-2", settings={"init": "/there/vgg16.safetensors", "new": 1}),
        measured(recipe="short", settings={"epochs": 5}),
        measured(ensemble=3, settings={"epochs": 7}),
        measured("fold-3", transfer={"mebeauty": elsewhere()}),  # from before fingerprints were kept
    ]
    first = measured(transfer={"mebeauty": elsewhere(fingerprint="ab")}, makeup=makeup())
    assert len(read_results(stored(tmp_path / "scut-fbp5500", [first, *others]))) == 6
