"""How lenient the raters of tested images are: by other images alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quick import quick_recipe
from uol.ratings.rated_images import RatedImages, Split
from uol.ratings.rater_effects import raters_leniency
from uol.runs.known_raters import known_leniency
from uol.training.packed import PackedImages
from uol.training.panels import pixel_digests

SPLIT = Split(np.arange(20, 80), np.arange(20))


def packed(rated: RatedImages) -> PackedImages:
    return PackedImages.pack(rated, quick_recipe().model)


def otherwise_rated(rated: RatedImages, row: int) -> RatedImages:
    matrix = rated.ratings.matrix.copy()
    matrix[row] = 11 - matrix[row]
    ratings = replace(rated.ratings, matrix=matrix)
    return replace(rated, ratings=ratings, scores=ratings.mean)


def test_by_what_they_said_of_the_images_that_train(drawn_b):
    expected = raters_leniency(drawn_b.ratings, SPLIT.train)[:20]
    np.testing.assert_array_equal(known_leniency(packed(drawn_b), SPLIT), expected)


def test_a_copy_of_a_test_image_says_nothing(drawn_b):
    images = list(drawn_b.images)
    images[30] = images[5]
    copied = replace(drawn_b, images=images)
    expected = known_leniency(packed(copied), SPLIT)
    np.testing.assert_array_equal(known_leniency(packed(otherwise_rated(copied, 30)), SPLIT), expected)
    assert not np.allclose(known_leniency(packed(otherwise_rated(drawn_b, 30)), SPLIT), expected)


def test_of_a_whole_set_each_by_the_images_that_are_in_other_tenths(drawn_b):
    images = list(drawn_b.images)
    images[30] = images[5]
    copied = replace(drawn_b, images=images)
    found = known_leniency(packed(copied), None)
    part = np.array([int(digest, 16) % 10 for digest in pixel_digests(packed(copied))])
    assert len(set(part)) > 5
    for row in range(80):  # slowly: who rated the image, and what they gave in other tenths
        others = copied.ratings.subset(np.flatnonzero(part != part[row]))
        whole = replace(
            others, matrix=np.vstack([others.matrix, copied.ratings.matrix[row]]), images=(*others.images, "x")
        )
        assert found[row] == pytest.approx(raters_leniency(whole, np.arange(len(others.images)))[-1])
    moved = known_leniency(packed(otherwise_rated(copied, 30)), None)
    assert (moved[5], moved[30]) == (found[5], found[30])  # neither its own ratings nor its copy's
    assert not np.allclose(moved, found)


def test_unknown_where_nobody_tells_who_rated_or_everybody_did(drawn, drawn_b):
    for split in (SPLIT, None):
        assert known_leniency(packed(drawn), split) is None
        assert known_leniency(packed(replace(drawn_b, ratings=None)), split) is None
    assert known_leniency(packed(drawn_b), Split(np.arange(0), np.arange(80))) is None
    one = drawn_b.subset([0])
    assert known_leniency(packed(one), None) is None
