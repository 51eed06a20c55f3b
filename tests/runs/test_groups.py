"""Figures by group: the obvious selection, intervals that widen with fewer images, and nothing for small groups."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from uol.ratings import metrics
from uol.runs.groups import group_means, groups_of
from uol.runs.result import Group, Others


def table(n=200):
    rng = np.random.default_rng(0)
    score = rng.uniform(1, 5, n)
    return pd.DataFrame(
        {
            "image": [f"{i}.jpg" for i in range(n)],
            "score": score,
            "value": score + rng.normal(0.1, 0.3, n),
            "gender": np.where(np.arange(n) % 2, "male", "female"),
            "ethnicity": np.where(np.arange(n) % 3, "asian", None),
        }
    )


def test_each_group_is_what_selecting_its_rows_gives():
    data = table()
    found = groups_of(data)
    assert list(found) == [
        "female", "male", "asian", "unknown", "female, asian", "female, unknown", "male, asian", "male, unknown",
    ]  # fmt: skip
    inside = data[data["gender"] == "female"]
    assert found["female"].images == 100
    assert found["female"].pc == pytest.approx(metrics.pearson(inside["score"], inside["value"]), abs=1e-5)
    assert found["female"].bias == pytest.approx((inside["value"] - inside["score"]).mean(), abs=1e-5)
    crossed = inside[inside["ethnicity"] == "asian"]
    assert found["female, asian"].mae == pytest.approx((crossed["value"] - crossed["score"]).abs().mean(), abs=1e-5)


def test_small_groups_and_columns_that_group_nothing_are_left_out():
    data = table(12).drop(columns="ethnicity")
    assert groups_of(data) == {}
    data["gender"] = "female"
    assert groups_of(data) == {}
    data["photographer"] = [f"p{i}" for i in range(12)]
    assert groups_of(data) == {}


def test_means_over_folds_count_all_images_and_over_networks_the_same_ones():
    parts = [{"a": Group(images=n, pc=pc, mae=0.2, rmse=0.3, bias=b)} for n, pc, b in ((50, 0.8, 0.1), (70, 0.9, -0.1))]
    (folds,) = group_means(parts, same_images=False)
    assert (folds.images, folds.pc, folds.bias) == (120, pytest.approx(0.85), pytest.approx(0))
    half = 1.959963984540054 / math.sqrt(50 + 70 - 6)
    assert folds.interval == pytest.approx((math.tanh(math.atanh(0.85) - half), math.tanh(math.atanh(0.85) + half)))
    (networks,) = group_means([parts[0], parts[0]], same_images=True)
    assert networks.images == 50
    assert networks.interval[1] - networks.interval[0] > folds.interval[1] - folds.interval[0]


def test_a_correlation_that_is_not_there_has_no_interval():
    (mean,) = group_means([{"a": Group(images=20, pc=None, mae=0.2, rmse=0.3, bias=0.0)}], same_images=False)
    assert mean.pc is None
    assert mean.interval is None


def test_the_same_word_in_two_columns_is_told_apart():
    data = table()
    data["gender"] = np.where(np.arange(200) < 20, None, data["gender"])
    found = groups_of(data)
    assert found["gender unknown"].images == 20
    assert found["ethnicity unknown"].images == 67
    assert "unknown" not in found


def test_others_are_all_images_outside_a_group():
    data = table()
    found = groups_of(data)
    for name, chosen in {
        "female": data["gender"] == "female",
        "male, asian": (data["gender"] == "male") & (data["ethnicity"] == "asian"),
    }.items():
        rest = data[~chosen]
        assert found[name].others.images == len(rest)
        assert found[name].others.pc == pytest.approx(metrics.pearson(rest["score"], rest["value"]), abs=1e-5)
    few = groups_of(table(18).assign(gender=["female"] * 12 + ["male"] * 6).drop(columns="ethnicity"))
    assert few["female"].others == Others(images=6, pc=None)  # six images say nothing


def test_a_gap_is_the_mean_over_folds_with_its_interval():
    parts = [
        {"a": Group(images=n, pc=pc, mae=0.2, rmse=0.3, bias=0.1, others=Others(images=200, pc=0.9))}
        for n, pc in ((50, 0.8), (70, 0.7))
    ]
    (folds,) = group_means(parts, same_images=False)
    assert (folds.pc_others, folds.gap) == (pytest.approx(0.9), pytest.approx(-0.15))
    assert folds.gap_interval == pytest.approx(metrics.pearson_gap(0.75, 114, 0.9, 394))
    (networks,) = group_means([parts[0]] * 5, same_images=True)
    (one,) = group_means(parts[:1], same_images=False)
    assert networks.gap_interval == pytest.approx(one.gap_interval)  # five networks see no more images than one
    assert networks.bias_interval == pytest.approx(one.bias_interval)
    (lacking,) = group_means([parts[0], {"a": parts[1]["a"].model_copy(update={"others": None})}], same_images=False)
    assert lacking.gap is lacking.gap_interval is None


def test_the_interval_of_a_bias_is_students_of_the_errors():
    data = table()
    error = (data["value"] - data["score"])[data["gender"] == "female"]
    (found, *_) = group_means([groups_of(data)], same_images=False)
    assert found.bias_interval == pytest.approx(
        stats.t.interval(0.95, len(error) - 1, error.mean(), stats.sem(error)), abs=1e-4
    )
