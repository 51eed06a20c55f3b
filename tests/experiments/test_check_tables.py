"""Errors with a line for every row, and figures without near-duplicates of training images."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from measured import measured, whole_row
from uol.errors import UolError
from uol.experiments.check_tables import DUPLICATES, duplicates_table, lines_table
from uol.experiments.kept_predictions import keep_tables
from uol.experiments.rows import Source, find_source
from uol.runs.result import write_result


def test_the_best_line_leaves_what_the_correlation_leaves():
    rng = np.random.default_rng(0)
    score = rng.normal(3, 0.7, 500)
    value = 1 + 0.4 * score + rng.normal(0, 0.2, 500)
    slope, intercept = np.polyfit(value, score, 1)
    best = np.sqrt(np.mean((intercept + slope * value - score) ** 2))
    one = measured(pc=float(np.corrcoef(score, value)[0, 1]), score_sd=float(score.std()))
    (row,) = lines_table(Source([one])).rows
    assert row["best"] == pytest.approx(best)
    assert row["gain"] == pytest.approx(one.metrics.rmse - best)


@pytest.fixture
def results(tmp_path):
    """A result with predictions of four images, of which training has the last."""
    one = measured()
    path = tmp_path / "scut-fbp5500" / one.file_name
    write_result(path, one)
    table = pd.DataFrame({"image": list("abcd"), "score": [1.0, 2, 3, 4], "value": [1.5, 2, 3.5, 9]})
    keep_tables(path, {"": table}, replace=True)
    known = {"scut-fbp5500": {"fingerprint": "ab" * 32, "splits": {"fold-1": ["d"]}}}
    (tmp_path / DUPLICATES).write_text(json.dumps(known))
    return tmp_path


def test_near_duplicates_of_training_images_are_left_out(results):
    (row,) = duplicates_table(find_source(results, "scut-fbp5500")).rows
    assert (row["folds"], row["left_out"]) == (1, 1)
    assert (row["mae"], row["without_mae"]) == (pytest.approx(6 / 4), pytest.approx(1 / 3))
    assert row["without_rmse"] == pytest.approx(np.sqrt(0.5 / 3))
    assert row["without_pc"] == pytest.approx(np.corrcoef([1, 2, 3], [1.5, 2, 3.5])[0, 1])


def test_rows_without_predictions_or_of_other_ratings_are_not_shown(results):
    assert duplicates_table(Source(whole_row(), folder=results / "scut-fbp5500")).rows == []
    known = {"scut-fbp5500": {"fingerprint": "cd" * 32, "splits": {"fold-1": ["d"]}}}
    (results / DUPLICATES).write_text(json.dumps(known))
    assert duplicates_table(find_source(results, "scut-fbp5500")).rows == []
    (results / DUPLICATES).write_text(json.dumps({"scut-fbp5500": {"splits": 3}}))
    with pytest.raises(UolError, match=DUPLICATES):
        duplicates_table(find_source(results, "scut-fbp5500"))
