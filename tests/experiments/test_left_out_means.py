"""Means of several networks on a panel left out: the obvious mean of their stored predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from uol.experiments.leave_one_out import read_left_out
from uol.experiments.left_out_means import MEMBERS, means_table

RESULTS = Path(__file__).parents[2] / "results" / "leave-one-out"
BALANCED = MEMBERS[0]


def stored(recipe: str) -> pd.Series:
    name = f"uol-{recipe}-without-mebeauty-seed-0-on-omi.csv.gz"
    return pd.read_csv(RESULTS / "predictions" / name).set_index("image")


def test_the_mean_is_over_the_members_predictions_image_by_image():
    found = read_left_out(RESULTS)
    rows = means_table(found, RESULTS).rows
    row = next(row for row in rows if (row["left_out"], row["read_on"]) == ("mebeauty", "omi"))
    tables = [stored(recipe) for recipe in BALANCED]
    mean = sum(table["value"] for table in tables) / len(tables)  # pandas matches images by name
    expected = np.corrcoef(mean, tables[0].loc[mean.index, "score"])[0, 1]
    assert row["pc"] == pytest.approx(expected, abs=1e-9)
    alone = np.corrcoef(tables[0]["value"], tables[0]["score"])[0, 1]
    assert row["difference"] == pytest.approx(expected - alone, abs=1e-6)
    assert row["members"] == ", ".join(BALANCED)


def test_a_member_without_predictions_of_a_reading_has_no_part_in_its_mean():
    rows = means_table(read_left_out(RESULTS), RESULTS).rows
    row = next(row for row in rows if (row["left_out"], row["read_on"]) == ("scut-fbp5500", "omi"))
    assert row["members"] == ", ".join(BALANCED[:2])
    assert means_table([], RESULTS).rows == []
