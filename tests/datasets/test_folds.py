"""Splits from a table of folds."""

from __future__ import annotations

import pandas as pd
import pytest

from uol.datasets.folds import make_splits, with_folds
from uol.errors import UolError


def test_folds_take_the_place_of_splits(drawn, tmp_path):
    table = pd.DataFrame({"Image": drawn.names, "Fold": [k % 3 + 1 for k in range(len(drawn))]})
    table.sample(frac=1, random_state=0).to_csv(tmp_path / "folds.csv", index=False)
    splits = with_folds(drawn, tmp_path / "folds.csv").splits
    assert list(splits) == ["fold-1", "fold-2", "fold-3"]
    assert splits["fold-2"].test.tolist() == list(range(1, len(drawn), 3))
    assert splits["fold-2"].train.tolist() == [k for k in range(len(drawn)) if k % 3 != 1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("image,rating\na,1\n", "columns image and fold are required"),
        ("image,fold\nface-0001,1\nface-0001,2\n", "face-0001 is in two folds, 1 and 2"),
        ("image,fold\nelsewhere,1\n", "80 of 80 images have no fold"),
    ],
)
def test_tables_that_do_not_fit(drawn, tmp_path, text, reason):
    (tmp_path / "folds.csv").write_text(text)
    with pytest.raises(UolError, match=reason):
        with_folds(drawn, tmp_path / "folds.csv")


def test_too_many_folds():
    with pytest.raises(UolError, match="51 different values; at most 50 are folds"):
        make_splits(pd.Series(range(51), name="fold"), "table.csv")
