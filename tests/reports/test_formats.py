"""Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io

from uol.reports.formats import cell, comma_separated, latex, markdown

ROWS = [{"method": "a_b|c", "pc": 0.92345, "difference_pc": -0.00055, "folds": 5}, {"method": "100 %", "pc": None}]
COLUMNS = {"method": "method", "pc": "PC", "difference_pc": "a − b", "folds": "folds"}


def test_cells():
    assert [cell("pc", value) for value in (None, 0.5, 5, "x")] == ["–", "0.5000", "5", "x"]
    assert [cell("difference_pc", value) for value in (0.001, -0.001)] == ["+0.0010", "-0.0010"]


def test_markdown():
    assert markdown(ROWS, COLUMNS).splitlines() == [
        "| method | PC | a − b | folds |",
        "| --- | ---: | ---: | ---: |",
        "| a_b\\|c | 0.9234 | -0.0006 | 5 |",
        "| 100 % | – | – | – |",
    ]


def test_the_smallest_p_is_a_bound():
    assert [cell("p", value) for value in (2 / 501, 4 / 501, None)] == ["≤ 0.004", "0.0080", "–"]


def test_csv_keeps_all_digits():
    read = list(csv.DictReader(io.StringIO(comma_separated(ROWS, COLUMNS))))
    assert read[0] == {"method": "a_b|c", "pc": "0.92345", "difference_pc": "-0.00055", "folds": "5"}
    assert read[1] == {"method": "100 %", "pc": "", "difference_pc": "", "folds": ""}


def test_latex():
    lines = latex(ROWS, COLUMNS).splitlines()
    assert lines[0] == r"\begin{tabular}{lrrr}"
    assert r"method & PC & a $-$ b & folds \\" in lines
    assert r"a\_b|c & 0.9234 & -0.0006 & 5 \\" in lines
    assert r"100 \% & -- & -- & -- \\" in lines
    assert lines[-1] == r"\end{tabular}"
