"""Rows as text: Markdown, CSV and LaTeX, from the same columns as tables on the terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from uol.storage.csv_text import csv_text

Rows = Sequence[Mapping[str, Any]]
Columns = Mapping[str, str]

_SIGNED = ("difference", "gain", "bias")  # how the keys of columns begin whose figures lie about 0

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "−": "$-$", "≤": r"$\leq$",
}  # fmt: skip


def format_interval(ends: tuple[float, float] | None, signed: bool = False) -> str | None:
    """The ends of an interval as tables have them; `signed` for those that lie about 0."""
    if ends is None:
        return None
    return "{:+.4f} to {:+.4f}".format(*ends) if signed else "{:.4f}–{:.4f}".format(*ends)


def markdown(rows: Rows, columns: Columns) -> str:
    """A Markdown table."""
    rules = ["---:" if _numeric(rows, key) else "---" for key in columns]
    lines = [list(columns.values()), rules, *([cell(key, row.get(key)) for key in columns] for row in rows)]
    return "".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |\n" for line in lines)


def latex(rows: Rows, columns: Columns) -> str:
    """A LaTeX tabular with the rules of booktabs."""
    sides = "".join("r" if _numeric(rows, key) else "l" for key in columns)
    lines = [list(columns.values()), *([cell(key, row.get(key)) for key in columns] for row in rows)]
    heading, *body = (" & ".join(_escaped(text) for text in line) + r" \\" for line in lines)
    parts = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", heading, r"\midrule", *body, r"\bottomrule"]
    return "\n".join([*parts, r"\end{tabular}"]) + "\n"


def comma_separated(rows: Rows, columns: Columns) -> str:
    """CSV under the keys of the columns, with all digits; what is undefined is empty."""
    return csv_text(columns, ([row.get(key) for key in columns] for row in rows))


def cell(key: str, value: Any) -> str:
    """A value as a person reads it: figures to four digits, those about 0 with their sign, a dash where undefined."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if key == "p":
        from uol.runs.bootstrap import LEAST_P  # here: it imports numpy, which help texts do without

        return f"≤ {LEAST_P:.3f}" if value <= LEAST_P else f"{value:.4f}"
    if isinstance(value, float):
        return f"{value:+.4f}" if key.startswith(_SIGNED) else f"{value:.4f}"
    return str(value)


def _numeric(rows: Rows, key: str) -> bool:
    return any(isinstance(row.get(key), int | float) for row in rows)


def _escaped(text: str) -> str:
    return re.sub(r"[\\&%$#_{}~^–−≤]", lambda found: _LATEX[found.group()], text)
