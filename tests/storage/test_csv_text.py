"""No cell that a spreadsheet would compute, and every cell back as it was."""

from __future__ import annotations

import csv
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uol.storage.csv_text import csv_text, frame_text, guarded, unguarded, unguarded_frame, write_frame

FORMULAS = ["=1+1.jpg", "+a.jpg", "-a.jpg", "@SUM(A1)", "\tx", "\rx", "=cmd|' /C calc'!A0", "＝1", "-1+2", "-inf"]


@pytest.mark.parametrize("name", FORMULAS)
def test_names_that_look_like_formulas_are_guarded(name):
    written = guarded(name)
    assert written == f"'{name}"
    assert unguarded(written) == name


@pytest.mark.parametrize("value", ["a=b", "x-1", "'", "'a'", "", "-1.5", "+3", "-2e-05", -1.5, 3, None, True])
def test_numbers_and_plain_names_stay(value):
    assert guarded(value) == value
    assert unguarded(value) == value


@given(st.text())
def test_every_text_comes_back(text):
    written = guarded(text)
    assert unguarded(written) == text
    number = pd.to_numeric(pd.Series([written], dtype=object), errors="coerce").notna().item()
    assert number or not written.startswith(("=", "+", "-", "@", "\t", "\r"))


def test_a_lone_carriage_return_does_not_break_the_table():
    rows = [["a\rb.jpg", "1"], ["plain.jpg", "2"]]
    text = csv_text(["image", "score"], rows)
    assert list(csv.reader(io.StringIO(text, newline=""))) == [["image", "score"], *rows]
    assert text.endswith("\nplain.jpg,2\n")


def test_a_frame_and_its_headings_come_back():
    table = pd.DataFrame({"image": ["=a", "b", "'=c"], "-group": ["@x", "", "y"], "value": [-1.5, np.nan, 1 / 3]})
    text = frame_text(table, digits=6)
    assert text.splitlines()[:2] == ["image,'-group,value", "'=a,'@x,-1.5"]
    found = unguarded_frame(pd.read_csv(io.StringIO(text), keep_default_na=False, na_values={"value": [""]}))
    assert found["image"].tolist() == ["=a", "b", "'=c"]
    assert found["-group"].tolist() == ["@x", "", "y"]
    assert found["value"].tolist()[::2] == [-1.5, 0.333333]


def test_undefined_cells_are_empty():
    assert list(csv.reader(io.StringIO(csv_text(["a", "b", "c"], [(None, float("nan"), -2)])))) == [
        ["a", "b", "c"],
        ["", "", "-2"],
    ]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_frames_are_written_in_the_format_of_the_name(name, tmp_path):
    table = pd.DataFrame({"image": ["=a", "b"], "mean": [1.5, 2]})
    write_frame(tmp_path / name, table)
    read = pd.read_parquet if name.endswith("parquet") else pd.read_csv
    pd.testing.assert_frame_equal(unguarded_frame(read(tmp_path / name)), table)
