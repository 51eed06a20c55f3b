"""The figures of a table row."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from uol.order.order import order_accuracy
from uol.ratings import metrics
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale
from uol.runs.evaluation import LENIENCY, evaluate, figures_of, predictions_table
from uol.runs.folder import RunFolder
from uol.runs.predictions import read_predictions
from uol.training.predictions import Predictions


def test_figures_of_known_predictions(drawn):
    noise = np.random.default_rng(0).normal(0, 0.3, len(drawn))
    value = drawn.scores + noise  # six digits of it are stored: figures differ from these by less than 1e-5
    spread = np.sqrt(drawn.variances)
    figures = evaluate(drawn, Predictions(value, value - 0.6, value + 0.6, 2 * spread))
    assert figures["images"] == 80
    assert figures["pc"] == pytest.approx(metrics.pearson(drawn.scores, value), abs=1e-5)
    assert figures["mae"] == pytest.approx(np.abs(noise).mean(), abs=1e-5)
    assert figures["rmse"] == pytest.approx(np.sqrt((noise**2).mean()), abs=1e-5)
    assert figures["coverage"] == pytest.approx((np.abs(noise) <= 0.6).mean())
    assert figures["interval_width"] == pytest.approx(1.2)
    assert figures["dispersion_pc"] == pytest.approx(1)


def test_figures_are_those_of_the_table_as_it_is_written(drawn, tmp_path):
    random = np.random.default_rng(1)
    value = drawn.scores + random.normal(0, 0.3, len(drawn))
    predictions = Predictions(value, value - 0.61234567, value + 0.61234567, random.uniform(0.5, 1, len(drawn)))
    table = predictions_table(drawn, predictions, random.normal(0, 0.1, len(drawn)))
    RunFolder(tmp_path).write_predictions(table)
    read = read_predictions(RunFolder(tmp_path).predictions)
    for name in ("score", "rating_sd", "value", "low", "high", "dispersion", LENIENCY):
        assert list(read[name]) == list(table[name]), name
    assert figures_of(read, 0.2) == figures_of(table, 0.2) == evaluate(drawn, predictions)


def test_the_threshold_follows_the_scale(drawn):
    ten = drawn.rescaled(Scale(1, 10))
    here, there = (
        evaluate(r, Predictions(r.scores * 0.9, r.scores, r.scores, np.full(80, np.nan))) for r in (drawn, ten)
    )
    assert math.isnan(here["dispersion_pc"])
    assert here["order_accuracy"] == pytest.approx(there["order_accuracy"], abs=0.02)
    table = predictions_table(ten, Predictions(ten.scores * 0.9, ten.scores, ten.scores, np.full(80, np.nan)))
    assert there["order_accuracy"] == order_accuracy(table["score"], table["value"], 0.45)
    assert there["order_accuracy"] != order_accuracy(table["score"], table["value"], 0.2)


def test_a_group_is_never_taken_for_the_leniency_of_raters(drawn):
    named = replace(drawn, groups=drawn.groups.assign(**{LENIENCY: "a"}))
    predictions = Predictions(*(drawn.scores for _ in range(4)))
    assert (predictions_table(named, predictions)[f"group {LENIENCY}"] == "a").all()
    assert LENIENCY not in predictions_table(named, predictions)
    told = predictions_table(named, predictions, np.full(80, 0.5))
    assert (told[LENIENCY] == 0.5).all()


def test_unknown_spread(drawn):
    plain = RatedImages("plain", drawn.images, drawn.names, drawn.scores, drawn.scale)
    figures = evaluate(plain, Predictions(*(drawn.scores,) * 4))
    assert math.isnan(figures["dispersion_pc"])
    assert figures["coverage"] == 1
