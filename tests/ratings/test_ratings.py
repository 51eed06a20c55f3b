"""Ratings: long and wide forms, gaps, means, variances, histograms, and what cannot be used."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from examples import examples
from simulated import NAN, as_ratings, gappy
from uol.errors import CallError, UolError
from uol.ratings.ratings import Ratings

# --- Ratings ---------------------------------------------------------------------------------------------------------


def test_from_long_averages_repeated_ratings_and_drops_empty_ones() -> None:
    ratings = Ratings.from_long(
        ["b", "a", "b", "b", "a", "a"], [1, 2, 2, 1, 3, 1], ["4", 2.0, None, 5, "", float("nan")]
    )
    assert ratings.images == ("b", "a")
    assert ratings.raters == ("1", "2")  # rater 3 gave an empty rating only
    np.testing.assert_array_equal(ratings.matrix, [[4.5, NAN], [NAN, 2]])
    np.testing.assert_array_equal(ratings.count, [1, 1])


def test_from_long_takes_columns_of_a_frame_whatever_their_index() -> None:
    frame = pd.DataFrame({"image": ["x", "y", "x"], "rater": ["p", "p", "q"], "rating": [1, 2, 3]}, index=[5, 5, 9])
    ratings = Ratings.from_long(frame["image"], frame["rater"], frame["rating"])
    np.testing.assert_array_equal(ratings.matrix, [[1, 3], [2, NAN]])


@given(gappy())
@settings(max_examples=examples(40), deadline=None)
def test_long_and_wide_forms_agree(matrix: np.ndarray) -> None:
    ratings = as_ratings(matrix)
    wide = Ratings.from_wide(pd.DataFrame(matrix, index=list(ratings.images), columns=list(ratings.raters)))
    rows, columns = np.nonzero(~np.isnan(matrix))
    long = Ratings.from_long(
        [ratings.images[i] for i in rows], [ratings.raters[j] for j in columns], matrix[rows, columns]
    )
    assert long.images == wide.images == ratings.images
    assert set(long.raters) == set(wide.raters)
    np.testing.assert_array_equal(long.matrix[:, [long.raters.index(r) for r in wide.raters]], wide.matrix)


def test_from_wide_reads_any_kind_of_column_and_leaves_idle_raters_out() -> None:
    frame = pd.DataFrame(
        {
            "text": ["1", " ", "3.5"],
            "nullable": pd.array([2, None, 4], dtype="Int64"),
            "idle": [None, None, None],
            "plain": [NAN, 5.0, NAN],
        },
        index=["a", "b", "c"],
    )
    ratings = Ratings.from_wide(frame)
    assert ratings.raters == ("text", "nullable", "plain")
    np.testing.assert_array_equal(ratings.matrix, [[1, 2, NAN], [NAN, NAN, 5], [3.5, 4, NAN]])


@given(gappy())
@settings(max_examples=examples(40), deadline=None)
def test_mean_variance_and_count_are_those_of_each_row(matrix: np.ndarray) -> None:
    ratings = as_ratings(matrix)
    for row, values in enumerate(matrix):
        given_ratings = values[~np.isnan(values)]
        assert ratings.count[row] == len(given_ratings)
        assert ratings.mean[row] == pytest.approx(given_ratings.mean())
        expected = given_ratings.var(ddof=1) if len(given_ratings) > 1 else NAN
        assert ratings.variance[row] == pytest.approx(expected, nan_ok=True)


def test_subset_takes_indices_in_order_or_a_mask() -> None:
    ratings = as_ratings(np.array([[1, NAN], [2, 3], [NAN, 4]]))
    chosen = ratings.subset([2, 0])
    assert chosen.images == ("i2", "i0")
    assert chosen.raters == ratings.raters
    np.testing.assert_array_equal(chosen.matrix, [[NAN, 4], [1, NAN]])
    assert ratings.subset(np.array([True, False, True])).images == ("i0", "i2")
    with pytest.raises(UolError, match="no rated images"):
        ratings.subset([])


def test_mapped_leaves_gaps_alone() -> None:
    mapped = as_ratings(np.array([[1, NAN], [2, 3]])).mapped(lambda r: np.nan_to_num(r) * 2)
    np.testing.assert_array_equal(mapped.matrix, [[2, NAN], [4, 6]])


def test_histogram_counts_levels_and_shares_what_lies_between() -> None:
    ratings = as_ratings(np.array([[1, 1, 3, NAN], [2.5, 5, NAN, 2]]))
    histogram = ratings.histogram([1, 2, 3, 5])
    np.testing.assert_allclose(histogram, [[2, 0, 1, 0], [0, 1.5, 0.5, 1]])
    np.testing.assert_allclose(histogram @ [1, 2, 3, 5] / ratings.count, ratings.mean)
    with pytest.raises(UolError, match=r"image i1: rating 5 is outside the levels 1 to 4"):
        ratings.histogram([1, 2, 3, 4])
    with pytest.raises(CallError, match="rising"):
        ratings.histogram([3, 2])


@given(gappy())
@settings(max_examples=examples(30), deadline=None)
def test_histogram_of_whole_ratings_is_a_plain_count(matrix: np.ndarray) -> None:
    expected = [[np.sum(row == level) for level in range(1, 6)] for row in matrix]
    np.testing.assert_array_equal(as_ratings(matrix).histogram(range(1, 6)), expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ratings.from_long([], [], []), "no rated images"),
        (lambda: Ratings.from_long(["a"], ["r"], [None]), "no raters"),
        (lambda: Ratings.from_long(["a", "b"], ["r", "r"], [1, NAN]), "image b has no rating"),
        (lambda: Ratings.from_long(["a"], ["r", "s"], [1]), "same length"),
        (lambda: Ratings.from_long(["a", "b"], ["r", "r"], [1, "good"]), "image b: rating good is not a finite"),
        (lambda: Ratings.from_long(["a"], ["r"], [math.inf]), "image a: rating inf is not a finite"),
        (lambda: Ratings.from_long(["a"], ["r"], [pd.Timestamp("2020-05-01")]), "image a: rating 2020-05-01"),
        (lambda: Ratings.from_long(["a", None], ["r", "r"], [1, 2]), "image 2 has no name"),
        (lambda: Ratings.from_wide(pd.DataFrame({"r": [1, 2]}, index=["a", "a"])), "image a occurs 2 times"),
        (lambda: Ratings.from_wide(pd.DataFrame([[1, 2]], index=["a"], columns=["r", "r"])), "rater r occurs 2"),
        (lambda: Ratings.from_wide(pd.DataFrame()), "no rated images"),
        (lambda: Ratings.from_wide(pd.DataFrame(index=["a"])), "no raters"),
        (lambda: Ratings(np.array([[math.inf]]), ("a",), ("r",)), "image a: the rating by r is infinite"),
        (lambda: Ratings(np.ones((2, 1)), ("a",), ("r",)), "1 images and 1 raters"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(make: object, message: str) -> None:
    with pytest.raises(UolError, match=message) as caught:
        make()  # type: ignore[operator]
    assert "\n" not in str(caught.value)


# --- ICC -------------------------------------------------------------------------------------------------------------
