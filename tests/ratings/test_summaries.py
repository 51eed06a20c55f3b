"""A row per image and a row per rater: the figures equal slow readings, and bad raters are found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from uol.errors import CallError
from uol.ratings.rated_images import RatedImages
from uol.ratings.rater_effects import adjusted_means
from uol.ratings.ratings import Ratings
from uol.ratings.reliability import krippendorff_alpha, one_way_from_moments, one_way_icc_from_counts
from uol.ratings.scale import Scale
from uol.ratings.summaries import image_table, rater_summary


def rated_by(matrix, scale=(1, 7), **more):
    names = [f"i{k}" for k in range(len(matrix))]
    ratings = Ratings(np.asarray(matrix, float), tuple(names), tuple(f"r{k}" for k in range(len(matrix[0]))))
    return RatedImages(
        "t", names, names, ratings.mean, Scale(*scale), ratings.variance, ratings.count, ratings=ratings, **more
    )


@pytest.fixture
def simulated():
    """200 images by 12 raters with gaps; the last four are random, turned round, monotonous and lenient."""
    random = np.random.default_rng(0)
    truth = random.normal(4, 1.2, 200)
    matrix = truth[:, None] + random.normal(0, 0.7, (200, 12))
    matrix[:, 8] = random.integers(1, 8, 200)
    matrix[:, 9] = 8 - matrix[:, 9]
    matrix[:, 10] = 4
    matrix[:, 11] += 3
    matrix = np.clip(np.round(matrix), 1, 7)
    matrix[:10, 0] = np.nan
    return rated_by(matrix)


def test_a_row_per_image_equals_a_slow_reading(simulated):
    levels = np.arange(1.0, 8)
    rated = replace(simulated, levels=levels, histograms=simulated.ratings.histogram(levels))
    table = image_table(rated)
    assert list(table)[:8] == [
        "image", "n", "mean", "sd", "standard_error", "mean_low_95", "mean_high_95", "adjusted_mean",
    ]  # fmt: skip
    for row, given in zip(table.to_dict("records"), rated.ratings.matrix, strict=True):
        known = given[~np.isnan(given)]
        assert (row["n"], row["mean"]) == (len(known), pytest.approx(known.mean()))
        assert row["sd"] == pytest.approx(known.std(ddof=1))
        assert row["standard_error"] == pytest.approx(scipy_stats.sem(known))
        low, high = scipy_stats.t.interval(0.95, len(known) - 1, known.mean(), scipy_stats.sem(known))
        assert row["mean_low_95"] == pytest.approx(max(low, 1))
        assert row["mean_high_95"] == pytest.approx(min(high, 7))
        assert [row[f"rated_{level}"] for level in range(1, 8)] == [np.sum(known == level) for level in range(1, 8)]
    np.testing.assert_allclose(table["adjusted_mean"], adjusted_means(rated.ratings))


def test_intervals_never_leave_the_scale():
    table = image_table(rated_by([[7, 7, 1], [7, 7, 6], [1, 2, 1]]))
    assert table["mean_low_95"].min() >= 1
    assert table["mean_high_95"].max() <= 7


def test_what_is_unknown_is_empty():
    table = image_table(RatedImages("t", ["a", "b"], ["a", "b"], np.array([2.0, 3.0]), Scale(1, 5)))
    assert table.drop(columns=["image", "mean"]).isna().all().all()
    one = image_table(rated_by([[3], [4]]))
    assert one["n"].tolist() == [1, 1]
    assert one[["sd", "standard_error", "mean_low_95"]].isna().all().all()


def test_groups_of_any_name_are_kept():
    table = image_table(rated_by([[3, 4], [4, 5]], groups=pd.DataFrame({"mean": ["x", "y"], "hair": ["p", "q"]})))
    assert table["group_mean"].tolist() == ["x", "y"]
    assert table["hair"].tolist() == ["p", "q"]


def test_bad_raters_are_flagged_with_the_reason(simulated):
    table = rater_summary(simulated).set_index("rater")
    assert {"n", "mean", "leniency", "agreement", "sd", "flagged", "reason"} == set(table)
    assert table.index[table["flagged"]].tolist() == ["r8", "r9", "r10", "r11"]
    for rater, why in {"r8": "hardly agrees", "r9": "against the others", "r10": "the same", "r11": "above"}.items():
        assert why in table.loc[rater, "reason"]
    assert table.loc["r0", "n"] == 190
    assert (table.loc[~table["flagged"], "reason"] == "").all()
    few = rater_summary(rated_by([[1, 5], [2, 4], [3, 3]]))
    assert not few["flagged"].any()


def test_without_raters_there_is_no_table_of_them(simulated):
    with pytest.raises(CallError, match="raters are not known"):
        rater_summary(replace(simulated, ratings=None))


def test_reliability_from_moments_equals_that_from_ratings(simulated):
    ratings, levels = simulated.ratings, np.arange(1.0, 8)
    icc, alpha = one_way_from_moments(ratings.mean, ratings.variance, ratings.count)
    counted = one_way_icc_from_counts(ratings.histogram(levels), levels)
    assert icc.single == pytest.approx(counted.single)
    assert icc.average == pytest.approx(counted.average)
    assert alpha == pytest.approx(krippendorff_alpha(ratings.matrix))
    assert np.isnan(one_way_from_moments([1, 2], [np.nan, np.nan], [1, 1])[1])
