"""CSV that a spreadsheet opens as it is meant: a name such as =1+1.jpg stays a name and becomes no formula.

Text that a spreadsheet would compute is written after an apostrophe, and reading removes it: `'=1+1.jpg`.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uol.errors import CallError, UolError, install
from uol.storage.files import check_output, replacing, write_text

if TYPE_CHECKING:
    import pandas as pd

FRAME_SUFFIXES = (".csv", ".parquet")
_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")  # with apostrophes before it: each one more is taken off again
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def csv_text(columns: Iterable[Any], rows: Iterable[Iterable[Any]], digits: int | None = None) -> str:
    """Columns and rows as CSV; None and NaN are empty, and `digits` are the significant ones of fractions."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    quoting = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    heading = [guarded(name) for name in columns]
    for cells in chain([heading], ([_cell(value, digits) for value in row] for row in rows)):
        returns = any(isinstance(cell, str) and "\r" in cell for cell in cells)  # which the module does not quote
        (quoting if returns else writer).writerow(cells)
    return text.getvalue()


def frame_text(table: pd.DataFrame, digits: int | None = None) -> str:
    """A table as CSV, without its index."""
    return csv_text(table.columns, table.itertuples(index=False, name=None), digits)


def write_frame(path: str | os.PathLike[str], table: pd.DataFrame) -> None:
    """Write a table in one step: as Parquet if the name ends in .parquet, else as CSV."""
    if not os.fspath(path).lower().endswith(".parquet"):
        write_text(path, frame_text(table))
        return
    with replacing(path) as temporary:
        try:
            table.to_parquet(temporary, index=False)
        except ImportError as error:
            raise UolError(f"{path}: Parquet needs a package; install it with: {install('data')}") from error


def check_frame_output(path: Path, inputs: Iterable[Path], columns: Collection[str], only: bool = False) -> None:
    """Refuse a table to write as `check_output` does, and in place of a table without these columns: somebody else's.

    With `only`, the table may have no others.
    """
    check_output(path, FRAME_SUFFIXES, inputs)
    if path.exists() and path.stat().st_size:
        found = heading(path)
        if not set(columns) <= set(found) or (only and len(found) > len(columns)):
            raise CallError(f"{path}: exists, and is no table that this command wrote; choose another name")


def heading(path: Path) -> list[str]:
    """The names of a table's columns; none if it is damaged or no table."""
    try:
        if path.suffix.lower() == ".parquet":
            from pyarrow import parquet  # type: ignore[import-untyped]

            return list(parquet.read_schema(path).names)
        with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            return next(csv.reader(file), [])
    except (OSError, ValueError, csv.Error):  # pyarrow's errors are ValueErrors
        return []


def as_written(value: float, digits: int) -> float:
    """The number that is read from CSV where this one was written with so many significant digits."""
    return float(f"{value:.{digits}g}")


def guarded(value: Any) -> Any:
    """A cell as it is written: text that begins like a formula after an apostrophe, numbers as they are."""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def unguarded(value: Any) -> Any:
    """A cell as it was before `guarded`."""
    if isinstance(value, str) and value.startswith("'") and _FORMULA.match(value):
        return value[1:]
    return value


def unguarded_frame(table: pd.DataFrame) -> pd.DataFrame:
    """A table that was read from CSV, with headings and text as they were before `guarded`."""
    words = table.select_dtypes(exclude=["number", "bool"]).columns
    plain = table.assign(**{name: table[name].map(unguarded) for name in words})
    return plain.rename(columns=unguarded)


def unguarded_rows(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    """Rows that were read from CSV, with text as it was before `guarded`."""
    return [[unguarded(cell) for cell in row] for row in rows]


def _cell(value: Any, digits: int | None) -> Any:
    if value is None or type(value).__name__ == "NAType":  # pandas' gap, of integers
        return ""
    if isinstance(value, float):
        if value != value:
            return ""
        return value if digits is None else f"{value:.{digits}g}"
    return guarded(value)
