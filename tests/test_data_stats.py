"""Statistics of a rated set: by rater, from counts alone, and from means alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from uol.data_stats import data_stats, group_rows
from uol.errors import UolError
from uol.rated_images import RatedImages
from uol.reliability import reliability
from uol.scale import Scale


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
    assert counted["raters"] == 60
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
    for row in group_rows(drawn, "skin"):
        members = [i for i in range(80) if drawn.groups["skin"][i] == row["group"]]
        assert row["images"] == len(members)
        assert row["mean"] == pytest.approx(np.mean([drawn.scores[i] for i in members]))
        assert row["low"] < row["mean"] < row["high"]
    assert sum(row["images"] for row in group_rows(drawn, "skin")) == 80
