"""One HTML file with figures inside: sections of words, tables and pictures."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jinja2 import Environment
from matplotlib.figure import Figure

import uol
from uol.storage.files import write_text

MEANING = (
    "Predictions say what a panel of raters would say of an image. They measure nothing about a person and must not be "
    "used to judge or identify anyone."
)


@dataclass(frozen=True)
class Section:
    """A heading with words, and where wanted a table (rows of a mapping under `columns`) and figures."""

    title: str
    text: str = ""
    columns: Mapping[str, str] | None = None
    rows: Sequence[Mapping[str, Any]] = ()
    figures: Sequence[Figure] = ()


def write_report(
    path: str | os.PathLike[str], title: str, lead: str, sections: Sequence[Section], meaning: str = MEANING
) -> None:
    """Write the sections to one self-contained HTML file; `meaning` says what its figures are not."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"picture": _picture, "cell": _cell, "word_columns": _word_columns}
    template = (resources.files("uol.reports") / "templates" / "report.html").read_text(encoding="utf-8")
    page = environment.from_string(template).render(
        title=title, lead=lead, sections=sections, meaning=meaning, version=uol.__version__
    )
    write_text(path, page)


def _picture(figure: Figure) -> str:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=130)
    return "data:image/png;base64," + base64.b64encode(data.getvalue()).decode("ascii")


def _word_columns(section: Section) -> set[str]:
    """Columns of words, which stand to the left; the first does in any case."""
    return {
        key
        for key in list(section.columns or {})[1:]
        if (values := [row[key] for row in section.rows if row.get(key) is not None])
        and all(isinstance(value, str) for value in values)
    }


def _cell(value: Any) -> str:
    if value is None or value != value:  # NaN is the one value that differs from itself
        return "–"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
