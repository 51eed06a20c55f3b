"""Statistics of a rated set: by rater, from counts alone, and from means alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from uol.errors import UolError
from uol.ratings.rated_images import RatedImages
from uol.ratings.reliability import reliability, split_half
from uol.ratings.scale import Scale
from uol.ratings.stats import data_stats, group_rows, groupings


def test_of_ratings_by_rater(drawn):
    stats = data_stats(drawn)
    assert (stats["name"], stats["images"], stats["raters"]) == ("synthetic-a", 80, 60)
    assert stats["mean_rating_variance"] == pytest.approx(drawn.variances.mean())
    assert stats["score"]["sd"] == pytest.approx(drawn.scores.std(ddof=1))
    assert stats["reliability"] == reliability(drawn.ratings)
    assert sum(stats["histogram"]["images"]) == 80
    assert stats["splits"] == {"default": {"train": 60, "test": 20}}
    assert {"skin", "hair"} <= set(stats["by_group"])


def test_of_counts_alone(drawn):
    counted = data_stats(replace(drawn, ratings=None))
    assert counted["raters"] is None  # 60 ratings of an image may come from more people
    assert data_stats(replace(drawn, ratings=None, people=75))["raters"] == 75
    assert counted["reliability"]["icc_1_1"] == pytest.approx(data_stats(drawn)["reliability"]["icc_2_1"], abs=0.1)
    assert {"icc_1_k", "krippendorff_alpha", "split_half", "spearman_brown"} <= set(counted["reliability"])


def test_of_means_alone(drawn):
    plain = RatedImages("plain", drawn.images, drawn.names, drawn.scores, drawn.scale)
    stats = data_stats(plain)
    assert stats["raters"] is None
    assert stats["mean_rating_variance"] is None
    assert stats["reliability"] == {}
    assert stats["by_group"] == {}
    unrated = RatedImages("unrated", drawn.images, drawn.names, np.full(80, np.nan), Scale(1, 5))
    with pytest.raises(UolError, match="nobody rated"):
        data_stats(unrated)


def test_groups_equal_a_slow_reading(drawn):
    for row in group_rows(drawn, ["skin"]):
        members = [i for i in range(80) if drawn.groups["skin"][i] == row["group"]]
        assert row["images"] == len(members)
        assert row["mean"] == pytest.approx(np.mean([drawn.scores[i] for i in members]))
        assert row["mean_low_95"] < row["mean"] < row["mean_high_95"]
    assert sum(row["images"] for row in group_rows(drawn, ["skin"])) == 80


def test_each_group_has_its_own_reliability(drawn):
    largest = max(group_rows(drawn, ["skin"]), key=lambda row: row["images"])
    members = np.flatnonzero(drawn.groups["skin"] == largest["group"])
    alone = split_half(drawn.ratings.matrix[members]).spearman_brown
    assert largest["spearman_brown"] == pytest.approx(alone)
    counted = max(group_rows(replace(drawn, ratings=None), ["skin"]), key=lambda row: row["images"])
    assert counted["spearman_brown"] == pytest.approx(alone, abs=0.1)


def test_two_columns_are_crossed_where_their_groups_are_few():
    columns = pd.DataFrame({"a": [1, 1, 2, 2], "b": [3, 4, 3, 4], "same": [0] * 4})
    assert groupings(columns) == [("a",), ("b",), ("a", "b")]
    many = pd.DataFrame({"a": range(30), "b": range(30)})
    assert groupings(many) == [("a",), ("b",), ("a", "b")]
    assert groupings(pd.DataFrame({"a": [*range(7)] * 7, "b": [k // 7 for k in range(49)]})) == [("a",), ("b",)]
    assert groupings(pd.DataFrame()) == []


def test_groups_are_crossed_and_the_untold_named(drawn):
    groups = drawn.groups[["skin", "hair"]].astype(object)
    groups.loc[:11, "hair"] = [None, ""] * 6
    crossed = data_stats(replace(drawn, groups=groups))["by_group"]["skin × hair"]
    assert sum(row["images"] for row in crossed) == 80
    assert sum(row["images"] for row in crossed if row["group"].endswith("× unknown")) == 12
    few = [row for row in crossed if row["images"] < 10]
    assert all(row["spearman_brown"] is None for row in few)
