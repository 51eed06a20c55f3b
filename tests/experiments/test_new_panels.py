"""Intervals for panels that nobody has seen: learnt elsewhere, and as stored results have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from uol.experiments.leave_one_out import read_left_out
from uol.experiments.new_panels import coverage_table, new_panel_error
from uol.order.calibration import NEW_PANEL

RESULTS = Path(__file__).parents[2] / "results" / "leave-one-out"
UNITS = {"scut-fbp5500": 1.0, "mebeauty": 9 / 4, "omi": 25.0}
NAMES = {"scut-fbp5500": "scut", "mebeauty": "mebeauty", "omi": "omi"}


@pytest.fixture(scope="module")
def found():
    return read_left_out(RESULTS)


def obvious_error(trained: str, tested: str) -> float:
    """The largest of all networks of one panel that were tested on another."""
    names = f"uol-*-only-{NAMES[trained]}-without-{tested}-seed-0-on-{trained}.csv.gz"
    tables = [pd.read_csv(path) for path in (RESULTS / "predictions").glob(names)]
    return max(float(np.sqrt(((table["score"] - table["value"]) ** 2).mean())) for table in tables) / UNITS[trained]


def test_the_error_on_a_new_panel_is_the_largest_of_all_pairs_of_panels(found):
    pairs = [(one, two) for one in UNITS for two in UNITS if one != two]
    largest = max(obvious_error(*pair) for pair in pairs)
    assert new_panel_error(found) == pytest.approx(largest, abs=1e-4)
    assert pytest.approx(largest, abs=5e-4) == NEW_PANEL


@pytest.mark.parametrize("left_out", UNITS)
def test_the_panel_left_out_has_no_part_in_what_is_learnt(found, left_out):
    one, two = (name for name in UNITS if name != left_out)
    expected = max(obvious_error(one, two), obvious_error(two, one))
    assert new_panel_error(found, without=left_out) == pytest.approx(expected, abs=1e-4)


def test_without_networks_of_one_panel_nothing_is_learnt(found):
    several = [one for one in found if len(one.panels) > 1]
    assert new_panel_error(several) is None
    assert coverage_table(several, RESULTS).rows == []


def test_coverage_counts_the_means_within_the_interval(found):
    rows = coverage_table(found, RESULTS).rows
    assert len(rows) == sum(len(one.readings) for one in found)
    row = next(r for r in rows if (r["recipe"], r["left_out"], r["read_on"]) == ("strong-only-omi", "mebeauty", "omi"))
    table = pd.read_csv(RESULTS / "predictions" / "uol-strong-only-omi-without-mebeauty-seed-0-on-omi.csv.gz")
    half = 1.96 * new_panel_error(found, without="mebeauty") * 25
    obvious = [abs(score - value) <= half for score, value in zip(table["score"], table["value"], strict=True)]
    assert row["new_panel"] == pytest.approx(np.mean(obvious), abs=2e-3)
    assert row["panel"] == pytest.approx(((table["low"] <= table["score"]) & (table["score"] <= table["high"])).mean())
