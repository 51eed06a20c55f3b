import numpy as np
import pandas as pd
import pytest

from uol.errors import CallError
from uol.ratings.rated_images import RatedImages, Split
from uol.ratings.scale import Scale
from uol.ratings.splits import find_split


@pytest.fixture
def rated() -> RatedImages:
    n, half = 40, np.arange(20)
    groups = pd.DataFrame({"gender": ["Female", "male"] * (n // 2), "ethnicity": ["asian"] * 30 + ["caucasian"] * 10})
    return RatedImages(
        name="faces", images=np.zeros((n, 3, 4, 4), np.uint8), names=[f"{i}.jpg" for i in range(n)],
        scores=np.linspace(1, 5, n), scale=Scale(1, 5), groups=groups,
        splits={"fold-1": Split(np.arange(0, 36), np.arange(36, 40)), "fold-2": Split(half, 20 + half)},
    )  # fmt: skip


def test_a_split_of_the_data_set_is_found_as_it_is(rated):
    assert find_split(rated, "fold-1") is rated.splits["fold-1"]
    assert find_split(rated, "fold-9") is None
    assert find_split(rated, "fold-9-inner") is None
    assert find_split(rated, "inner") is None


def test_inner_images_are_a_quarter_of_the_training_images_and_no_test_image(rated):
    inner = find_split(rated, "fold-1-inner")
    assert len(inner.test) == 9
    assert sorted([*inner.train, *inner.test]) == list(range(36))
    again = find_split(rated, "fold-1-inner")
    assert np.array_equal(again.test, inner.test)


@pytest.mark.parametrize("group", ["caucasian", "female", "asian"])
def test_without_a_group_it_is_tested_alone(rated, group):
    column = "gender" if group == "female" else "ethnicity"
    split = find_split(rated, f"fold-1-without-{group}")
    words = rated.groups[column].str.lower().to_numpy()
    assert (words[split.test] == group).all()
    assert (words[split.train] != group).all()
    assert sorted([*split.train, *split.test]) == list(range(36))


def test_what_is_missing_is_said(rated):
    for group in ("martian", "Asian", ""):  # groups are named in small letters
        with pytest.raises(CallError, match=f"no group '{group}'; there are asian, caucasian, female, male"):
            find_split(rated, f"fold-1-without-{group}")
    with pytest.raises(CallError, match="fold-2 and asian has no image to train on"):
        find_split(rated, "fold-2-without-asian")
    plain = RatedImages("plain", rated.images, rated.names, rated.scores, rated.scale, splits=rated.splits)
    with pytest.raises(CallError, match="there are none"):
        find_split(plain, "fold-1-without-asian")
