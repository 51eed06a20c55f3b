"""The one form of every data set."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from uol.errors import UolError
from uol.ratings.rated_images import RatedImages, Split
from uol.ratings.ratings import Ratings
from uol.ratings.scale import Scale


@pytest.fixture
def rated():
    matrix = np.array([[1.0, 2, 3], [4, 5, np.nan], [3, 3, 3]])
    ratings = Ratings(matrix, ("a", "b", "c"), ("x", "y", "z"))
    return RatedImages(
        name="tiny",
        images=np.zeros((3, 8, 8, 3), np.uint8),
        names=["a", "b", "c"],
        scores=ratings.mean,
        scale=Scale(1, 5),
        variances=ratings.variance,
        counts=ratings.count,
        histograms=ratings.histogram([1, 2, 3, 4, 5]),
        levels=np.arange(1.0, 6),
        groups=pd.DataFrame({"gender": ["f", "m", "f"]}),
        splits={"default": Split(np.array([0, 1]), np.array([2]))},
        ratings=ratings,
    )


def test_scales_map_linearly_and_back():
    values = np.array([-3.0, 0.0, 3.0])
    mapped = Scale(-3, 3).rescale(values, Scale(1, 5))
    assert mapped == pytest.approx([1, 3, 5])
    assert Scale(1, 5).rescale(mapped, Scale(-3, 3)) == pytest.approx(values)
    assert Scale(1, 5).unit == 1
    assert Scale(1, 10).unit == 2.25


def test_rescaling_takes_all_that_depends_on_the_scale(rated):
    ten = rated.rescaled(Scale(1, 10))
    assert ten.scores == pytest.approx(1 + (rated.scores - 1) * 9 / 4)
    assert ten.ratings is not None
    assert ten.scores == pytest.approx(ten.ratings.mean)
    assert ten.variances == pytest.approx(ten.ratings.variance)
    assert ten.levels == pytest.approx([1, 3.25, 5.5, 7.75, 10])
    assert ten.rescaled(Scale(1, 5)).scores == pytest.approx(rated.scores)


def test_subsets_keep_rows_together(rated):
    part = rated.subset([2, 0])
    assert list(part.names) == ["c", "a"]
    assert part.scores == pytest.approx([3, 2])
    assert part.groups["gender"].tolist() == ["f", "f"]
    assert part.histograms is not None
    assert part.histograms.sum(1).tolist() == [3, 3]
    assert part.ratings is not None
    assert part.ratings.images == ("c", "a")
    assert len(part.images) == 2
    assert part.splits == {}


def test_what_is_unknown_has_a_default():
    plain = RatedImages("plain", ["x.png"], ["x"], np.array([2.0]), Scale(1, 5))
    assert np.isnan(plain.variances).all()
    assert plain.counts.tolist() == [0]
    assert plain.rated


def test_unrated_sets_and_bad_ones():
    nan = np.array([np.nan, np.nan])
    assert not RatedImages("unrated", ["a", "b"], ["a", "b"], nan, Scale(1, 5)).rated
    with pytest.raises(UolError, match="1 of 2 images have no score .first: b."):
        RatedImages("half", ["a", "b"], ["a", "b"], np.array([1.0, np.nan]), Scale(1, 5))
    with pytest.raises(UolError, match="no rated images"):
        RatedImages("none", [], [], np.empty(0), Scale(1, 5))
    with pytest.raises(UolError, match="2 images but 1 scores"):
        RatedImages("short", ["a", "b"], ["a", "b"], np.array([1.0]), Scale(1, 5))
