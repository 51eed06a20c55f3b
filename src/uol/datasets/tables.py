"""Read tables of any usual format (CSV, TSV, XLSX, Parquet) and find columns by their usual names."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.datasets.dataset_info import examples
from uol.errors import CallError, UolError

SUFFIXES = (".csv", ".tsv", ".txt", ".xlsx", ".xlsm", ".parquet")
GAPS = frozenset({"", "na", "n/a", "nan", "null", "none", "."})
"""What people write where there is nothing, in lower case."""

_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d{1,2}")


def read_table(path: str | os.PathLike[str], sheet: str | int = 0) -> pd.DataFrame:
    """Read a table; its index counts the rows as a spreadsheet shows them, the first below the header being 2.

    Cells of text files stay text, so that an image called 001 does not become 1. Rows that are empty throughout
    are left out.
    """
    file = Path(path)
    if not file.is_file():
        raise CallError(f"{file}: no such table file")
    suffix = file.suffix.lower()
    if suffix not in SUFFIXES:
        raise CallError(f"{file}: not a known table format; save it as one of {', '.join(SUFFIXES)}")
    try:
        if suffix == ".parquet":
            table = pd.read_parquet(file)
        elif suffix in (".xlsx", ".xlsm"):
            table = pd.read_excel(file, sheet_name=sheet, dtype=object, engine="openpyxl")
        else:
            table = _read_text(file)
    except ImportError as error:
        package = "pyarrow" if suffix == ".parquet" else "openpyxl"
        raise UolError(f"{file}: reading {suffix} needs {package}; install it with: pip install 'uol[data]'") from error
    except Exception as error:  # parsers raise many kinds: ParserError, BadZipFile, ArrowInvalid, KeyError
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UolError(f"{file}: cannot be read as a {suffix} table ({reason[:120]})") from error
    table.columns = pd.Index([str(column).strip() for column in table.columns])
    if not table.columns.is_unique:
        raise UolError(f"{file}: two columns are called {table.columns[table.columns.duplicated()][0]}; rename one")
    table.index = pd.RangeIndex(2, len(table) + 2)
    table = table[~table.map(is_gap).all(axis=1)]
    if table.empty:
        raise UolError(f"{file}: the table has no rows")
    return table


def is_gap(value: Any) -> bool:
    """Whether a cell holds nothing."""
    if isinstance(value, str):
        return value.strip().lower() in GAPS
    if isinstance(value, float):
        return value != value
    return value is None or bool(pd.isna(value))


def numbers(column: pd.Series[Any], table: str) -> npt.NDArray[np.float64]:
    """The cells of a column as numbers, gaps as NaN; the first cell that is neither is named in the error."""
    return np.array([_number(cell, row, column.name, table) for row, cell in column.items()], np.float64)


def has_numbers(column: pd.Series[Any]) -> bool:
    """Whether any cell of a column is a number."""
    return any(not is_gap(cell) and _parsed(cell) is not None for cell in column)


def texts(column: pd.Series[Any]) -> list[str]:
    """The cells of a column as text: gaps become empty, and whole numbers lose the .0 that spreadsheets add."""
    return ["" if is_gap(cell) else _text(cell) for cell in column]


def find_column(table: pd.DataFrame, chosen: str | None, usual: Sequence[str], what: str) -> str | None:
    """The column that the caller named, else the first column of a usual name, else None.

    Case, spaces, hyphens and underscores do not matter.
    """
    found: dict[str, str] = {}
    for column in table.columns:
        found.setdefault(_plain(column), column)
    if chosen is not None:
        if chosen in table.columns:
            return chosen
        if _plain(chosen) in found:
            return found[_plain(chosen)]
        raise CallError(f"no column {chosen!r} for the {what}: the table has {examples(list(table.columns), 12)}")
    return next((found[_plain(name)] for name in usual if _plain(name) in found), None)


def find_columns(table: pd.DataFrame, usual: Iterable[str]) -> list[str]:
    """All columns that have one of the usual names."""
    wanted = {_plain(name) for name in usual}
    return [column for column in table.columns if _plain(column) in wanted]


def _read_text(file: Path) -> pd.DataFrame:
    raw = file.read_bytes()
    try:
        encoding = "utf-8-sig"
        header = raw.decode(encoding).split("\n", 1)[0]
    except UnicodeDecodeError:  # spreadsheets on Windows still write this
        encoding = "cp1252"
        header = raw.decode(encoding, errors="replace").split("\n", 1)[0]
    separator = "\t" if file.suffix.lower() == ".tsv" else max(",;\t", key=header.count)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a row longer than the header is a mistake, not to be cut off
        return pd.read_csv(
            file,
            sep=separator,
            encoding=encoding,
            index_col=False,
            dtype=str,
            keep_default_na=False,
            skip_blank_lines=False,
            skipinitialspace=True,
        )


def _number(cell: Any, row: Any, column: Any, table: str) -> float:
    if is_gap(cell):
        return np.nan
    value = _parsed(cell)
    if value is None:
        raise UolError(f"{table}, row {row}: {cell!r} in column {column} is not a number; correct it or leave it empty")
    return value


def _parsed(cell: Any) -> float | None:
    if isinstance(cell, str):
        text = cell.strip()
        cell = text.replace(",", ".") if _DECIMAL_COMMA.fullmatch(text) else text
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return None
    return value if np.isfinite(value) else None


def _text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()


def _plain(name: str) -> str:
    return re.sub(r"[\s_\-]+", "", name).casefold()
