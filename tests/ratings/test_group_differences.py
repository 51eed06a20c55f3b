"""Differences between groups: the figures themselves, and intervals that hold what they should."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from uol.ratings.group_differences import group_differences
from uol.ratings.rated_images import RatedImages
from uol.ratings.ratings import Ratings
from uol.ratings.scale import Scale
from uol.ratings.stats import data_stats


def simulated(seed, gap=0.0, images=40, raters=12, taste=0.0):
    """Two groups of images; `taste` is how far raters differ in the gap that they see."""
    random = np.random.default_rng(seed)
    group = np.arange(images) % 2
    truth = random.normal(4, 0.8, images)[:, None] + group[:, None] * (gap + random.normal(0, taste, raters))
    matrix = truth + random.normal(0, 0.5, (images, raters)) + random.normal(0, 0.3, raters)
    names = tuple(f"i{k}" for k in range(images))
    ratings = Ratings(matrix, names, tuple(f"r{k}" for k in range(raters)))
    groups = pd.DataFrame({"sex": np.where(group, "m", "f")})
    return RatedImages(
        "t", names, names, ratings.mean, Scale(-50, 50), ratings.variance, ratings.count, groups=groups, ratings=ratings
    )


def test_difference_and_effect_size_equal_a_slow_reading():
    rated = simulated(1, gap=1.0)
    found = group_differences(rated, "sex")
    (row,) = found["rows"]
    f, m = (rated.scores[rated.groups["sex"] == sex] for sex in "fm")
    assert (row["group"], row["other"], row["images"], row["other_images"]) == ("f", "m", 20, 20)
    assert row["difference"] == pytest.approx(f.mean() - m.mean())
    pooled = np.sqrt((f.var(ddof=1) + m.var(ddof=1)) / 2)
    assert row["effect_size"] == pytest.approx((f.mean() - m.mean()) / pooled * (1 - 3 / (4 * 38 - 1)))
    assert row["difference_low_95"] < row["difference"] < row["difference_high_95"]
    assert row["effect_size_low_95"] < row["effect_size"] < row["effect_size_high_95"]
    assert "raters and images" in found["method"]
    assert group_differences(rated, "sex") == found  # the same every time


@pytest.mark.slow
@pytest.mark.parametrize("taste", [0.0, 0.8])
def test_intervals_hold_the_truth_about_as_often_as_they_say(taste):
    inside = 0
    for seed in range(60):
        (row,) = group_differences(simulated(seed, gap=0.5, taste=taste), "sex")["rows"]
        inside += row["difference_low_95"] <= -0.5 <= row["difference_high_95"]
    assert inside >= 52  # of 57 expected


def test_raters_count_as_a_sample():
    rated = simulated(2, raters=6, taste=1.0)
    (both,) = group_differences(rated, "sex")["rows"]
    found = group_differences(replace(rated, ratings=None), "sex")
    (images,) = found["rows"]
    assert "raters are not known" in found["method"]
    widths = [row["difference_high_95"] - row["difference_low_95"] for row in (both, images)]
    assert widths[0] > widths[1]


def test_many_groups_are_compared_with_the_rest_and_the_unknown_left_out():
    rated = simulated(3, images=60)
    rated = replace(rated, groups=pd.DataFrame({"country": [*("abcdef" * 9), *[""] * 5, "g"]}))
    found = group_differences(rated, "country")["rows"]
    assert [row["group"] for row in found] == list("abcdef")  # one image is no group
    assert {row["other"] for row in found} == {"all others"}
    assert {row["images"] + row["other_images"] for row in found} == {54}
    assert group_differences(replace(rated, groups=pd.DataFrame({"one": ["x"] * 60})), "one") is None


def test_intervals_stay_within_the_scale():
    matrix = np.array([[1.0, 1], [1, 1.2], [5, 5], [5, 4.8]])
    names = tuple("abcd")
    ratings = Ratings(matrix, names, ("r", "s"))
    rated = RatedImages(
        "t", names, names, ratings.mean, Scale(1, 5), ratings.variance, ratings.count,
        groups=pd.DataFrame({"g": ["x", "x", "y", "y"]}), ratings=ratings,
    )  # fmt: skip
    (row,) = group_differences(rated, "g")["rows"]
    assert row["difference_low_95"] >= -4
    stats = data_stats(rated)
    for group in stats["by_group"]["g"]:
        assert group["mean_low_95"] >= 1
        assert group["mean_high_95"] <= 5
