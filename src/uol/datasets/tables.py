"""Read tables of any usual format (CSV, TSV, XLSX, ODS, SAV, Parquet) and find columns by their usual names.

Notes on how a table was read are in `attrs["notes"]` of the data frame.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.datasets import spreadsheets
from uol.datasets.column_names import GROUPS, HEADINGS, IMAGE, ROLES, VOTER, WINNER, plain_name
from uol.datasets.dataset_info import examples
from uol.errors import CallError, UolError, counted, install
from uol.storage.csv_text import unguarded_rows

SUFFIXES = (".csv", ".tsv", ".txt", ".xlsx", ".xlsm", ".ods", ".sav", ".zsav", ".parquet")
GAPS = frozenset({"", "na", "n/a", "n.a.", "#n/a", "nan", "null", "none", ".", "-", "–", "—", "missing"})
"""What people write where there is nothing, in lower case."""

_PACKAGES = {".parquet": "pyarrow", ".ods": "odfpy", ".sav": "pyreadstat", ".zsav": "pyreadstat"}
_ENCODINGS = ("cp1252", "cp1251", "gb18030", "shift_jis", "big5", "euc_kr", "cp1250")  # the first is the usual one
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
_MAYBE_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")
_MOST_TITLES = 20  # rows above the header
_WIDTH_ROWS = 200  # rows that show how wide a table is
_UNANSWERED = re.compile(
    r"no (answer|response)|not? applicable|missing|refused|don.?t know|keine (angabe|antwort)|k\. ?a\.|weiß nicht|"
    r"sans réponse|sin respuesta|nessuna risposta|sem resposta|geen antwoord|нет ответа|无回答|未回答|無回答",
    re.IGNORECASE,
)

Rows = list[list[Any]]


def read_table(
    path: str | os.PathLike[str], sheet: str | int = 0, encoding: str | None = None, decimal: str | None = None
) -> pd.DataFrame:
    """Read a table; its index counts the rows as a spreadsheet shows them, the first below the header often being 2.

    Cells of text files stay text, so that an image called 001 does not become 1. Title rows above the header are passed
    over, and rows that are empty throughout are left out. `encoding` and `decimal` ("comma" or "point") are guessed.
    """
    file = Path(path)
    if not file.is_file():
        raise CallError(f"{file}: no such table file")
    suffix = file.suffix.lower()
    if suffix not in SUFFIXES:
        raise CallError(f"{file}: not a known table format; save it as one of {', '.join(SUFFIXES)}")
    if decimal not in (None, "comma", "point"):
        raise CallError(f"decimal={decimal}: say comma or point")
    notes: list[str] = []
    try:
        if suffix == ".parquet":
            table = _numbered(pd.read_parquet(file), 2)
        elif suffix in (".sav", ".zsav"):
            table = _numbered(_read_spss(file, notes), 1)
        elif suffix in (".xlsx", ".xlsm", ".ods"):
            read = spreadsheets.read_ods if suffix == ".ods" else spreadsheets.read_xlsx
            table = _headed(read(file, sheet, notes), file, notes)
        else:
            rows, separator = _read_text(file, encoding, notes)
            table = _headed(rows, file, notes)
            decimal = decimal or (None if separator == "," else "comma")
    except ImportError as error:
        package = _PACKAGES.get(suffix, "openpyxl")
        raise UolError(f"{file}: reading {suffix} needs {package}; install it with: {install('data')}") from error
    except UolError:
        raise
    except Exception as error:  # parsers raise many kinds: BadZipFile, ArrowInvalid, KeyError, ReadstatError
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UolError(f"{file}: cannot be read as a {suffix} table ({reason[:120]})") from error
    table.columns = pd.Index([str(column).strip() for column in table.columns])
    if not table.columns.is_unique:
        raise UolError(f"{file}: two columns are called {table.columns[table.columns.duplicated()][0]}; rename one")
    table = table[~table.map(is_gap).all(axis=1)]
    if table.empty:
        raise UolError(f"{file}: the table has no rows")
    table.attrs = {"notes": notes, "decimal": decimal}
    return table


def is_gap(value: Any) -> bool:
    """Whether a cell holds nothing."""
    if isinstance(value, str):
        return value.strip().lower() in GAPS
    if isinstance(value, float):
        return value != value
    return value is None or bool(pd.isna(value))


def numbers(column: pd.Series[Any], table: str, missing: Iterable[str] | None = None) -> npt.NDArray[np.float64]:
    """The cells of a column as numbers, gaps as NaN; the first cell that is neither is named in the error.

    `missing` are words that stand for a gap, None where a caller cannot name any. A comma is a decimal one, unless it
    may separate thousands.
    """
    words = {word.casefold() for word in missing or ()}
    cells = {row: "" if isinstance(cell, str) and cell.strip().casefold() in words else cell
             for row, cell in enumerate(column)}  # fmt: skip
    _check_commas(column, table)
    named = missing is not None
    return np.array([_number(cell, column.index[row], column.name, table, named) for row, cell in cells.items()], float)


def has_numbers(column: pd.Series[Any]) -> bool:
    """Whether any cell of a column is a number, or a formula that a spreadsheet has yet to compute."""
    return any(not is_gap(cell) and (_parsed(cell) is not None or _is_formula(cell)) for cell in column)


def texts(column: pd.Series[Any]) -> list[str]:
    """The cells of a column as text: gaps become empty, and whole numbers lose the .0 that spreadsheets add."""
    return ["" if is_gap(cell) else _text(cell) for cell in column]


def find_column(table: pd.DataFrame, chosen: str | None, usual: Sequence[str], what: str) -> str | None:
    """The column that the caller named, else the first column of a usual name, else None.

    Case, accents, spaces, hyphens and underscores do not matter.
    """
    found: dict[str, str] = {}
    for column in table.columns:
        found.setdefault(plain_name(column), column)
    if chosen is not None:
        if chosen in table.columns:
            return chosen
        if plain_name(chosen) in found:
            return found[plain_name(chosen)]
        raise CallError(f"no column {chosen!r} for the {what}: the table has {examples(list(table.columns), 12)}")
    return next((found[plain_name(name)] for name in usual if plain_name(name) in found), None)


def find_columns(table: pd.DataFrame, usual: Iterable[str]) -> list[str]:
    """All columns that have one of the usual names."""
    wanted = {plain_name(name) for name in usual}
    return [column for column in table.columns if plain_name(column) in wanted]


def _read_text(file: Path, encoding: str | None, notes: list[str]) -> tuple[Rows, str]:
    """The rows of a text file, and what separates its cells."""
    text = _decoded(file.read_bytes(), encoding, file, notes)
    if "\0" in text:
        raise UolError(f"{file}: holds bytes that are no text; export the table as CSV with the encoding UTF-8")
    hint = re.match(r"sep=(.)\r?\n", text)  # a line that Excel writes and hides
    separator = hint[1] if hint else "\t" if file.suffix.lower() == ".tsv" else _separator(text)
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True))
    return unguarded_rows([[], *rows[1:]] if hint else rows), separator


def _decoded(raw: bytes, encoding: str | None, file: Path, notes: list[str]) -> str:
    if encoding is not None:
        try:
            return raw.decode(encoding).removeprefix("\ufeff")
        except LookupError:
            raise CallError(f"encoding={encoding}: no such encoding; usual ones are utf-8, utf-16, cp1252") from None
        except UnicodeDecodeError:
            raise CallError(f"{file}: is not text in the encoding {encoding}; name another one") from None
    marks = {b"\xff\xfe\0\0": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8"}
    start = raw[:2000]
    found = next((name for mark, name in marks.items() if raw.startswith(mark)), None)
    if found is None and start.count(0) > len(start) // 5:  # UTF-16 without its mark: every other byte is 0
        found = "utf-16-le" if start[1::2].count(0) > start[::2].count(0) else "utf-16-be"
    try:
        return raw.decode(found or "utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        if found is not None:
            raise
    found = next((name for name in _ENCODINGS if _has_foreign_heading(raw, name)), _ENCODINGS[0])
    notes.append(f"not UTF-8: read as {found}; if names look wrong, name the encoding (--read encoding=…)")
    return raw.decode(found, errors="replace")


def _has_foreign_heading(raw: bytes, encoding: str) -> bool:
    """Whether bytes read in an encoding begin with a usual name of a column that is not ASCII."""
    lines = re.split(r"[\r\n]+", raw.decode(encoding, errors="replace"))[:_MOST_TITLES]
    cells = {cell.strip(" \"'") for line in lines for cell in re.split(r"[,;\t|]", line)}
    return any(not cell.isascii() and plain_name(cell) in HEADINGS for cell in cells)


def _separator(text: str) -> str:
    """The separator that gives the most rows the same number of cells, two or more; a comma if none does."""
    lines = text[:100_000].splitlines()[:_WIDTH_ROWS]

    def regularity(separator: str) -> tuple[float, int]:
        widths = [len(row) for row in csv.reader(lines, delimiter=separator) if any(row)]
        width, rows = Counter(widths).most_common(1)[0] if widths else (1, 0)
        return (rows / len(widths), width) if width > 1 else (0.0, 1)

    return max(",;\t|", key=regularity)


def _headed(rows: Rows, file: Path, notes: list[str]) -> pd.DataFrame:
    """Rows as a table under their header, which may have titles above it."""
    if not any(map(_filled, rows)):
        raise UolError(f"{file}: cannot be read as a table: it is empty")
    place = _header_row(rows)
    titles = [str(next(cell for cell in row if not is_gap(cell))).strip() for row in rows[:place] if _filled(row)]
    if titles:
        shown = examples([title[:40] for title in titles])
        notes.append(f"passed over: {counted(len(titles), 'row')} above the header: {shown}")
    header = _trimmed(rows[place])
    body = [_trimmed(row) for row in rows[place + 1 :]]
    too_long = [number for number, row in enumerate(body, place + 2) if len(row) > len(header)]
    if too_long:
        unnamed = max(map(len, body)) if len(too_long) > len(body) / 2 else 0
        if not unnamed:
            raise UolError(
                f"{file}: cannot be read: row {too_long[0]} has {len(body[too_long[0] - place - 2])} cells, but row "
                f"{place + 1} names {len(header)} columns; put cells that hold a separator in quotes"
            )
        raise UolError(
            f"{file}: cannot be read: row {place + 1} names {len(header)} columns, but rows have up to {unnamed} "
            "cells; give every column a name"
        )
    names = [f"column {i + 1}" if is_gap(name) else _text(name) for i, name in enumerate(header)]
    cells = [[*row, *[None] * (len(header) - len(row))] for row in body]
    return _numbered(pd.DataFrame(cells, columns=names, dtype=object), place + 2)


def _header_row(rows: Rows) -> int:
    """Which row names the columns: the first with two usual names, or as full as any row and not of numbers."""
    width = max(_filled(row) for row in rows[:_WIDTH_ROWS])
    first = next(i for i, row in enumerate(rows) if _filled(row))
    some: int | None = None
    for place, row in enumerate(rows[: first + _MOST_TITLES]):
        usual = sum(isinstance(cell, str) and plain_name(cell.strip()) in HEADINGS for cell in row)
        if usual and some is None:
            some = place
        is_comment = str(next((cell for cell in row if not is_gap(cell)), "")).startswith("#")
        no_numbers = all(is_gap(cell) or _parsed(cell) is None for cell in row)
        full = _filled(row) >= width and (place == first or no_numbers or bool(usual))
        if (usual > 1 or full) and not is_comment:
            return place
    return first if some is None else some


def _filled(row: Sequence[Any]) -> int:
    return sum(not is_gap(cell) for cell in row)


def _trimmed(row: list[Any]) -> list[Any]:
    """A row without the empty cells at its end."""
    size = next((i for i in range(len(row), 0, -1) if not is_gap(row[i - 1])), 0)
    return row[:size]


def _numbered(table: pd.DataFrame, first: int) -> pd.DataFrame:
    table.index = pd.RangeIndex(first, len(table) + first)
    return table


def _read_spss(file: Path, notes: list[str]) -> pd.DataFrame:
    """A table of SPSS: what is declared missing is a gap, ratings are numbers, and groups are words by their labels."""
    import pyreadstat

    table, about = pyreadstat.read_sav(file, user_missing=False, output_format="pandas")
    declared = [name for name in about.missing_ranges if name in table]
    if declared:
        notes.append(f"values that SPSS declares missing were read as empty, in {examples(declared)}")
    words = set(find_columns(table, (*GROUPS, *IMAGE, *ROLES["rater"], *ROLES["split"], *VOTER, *WINNER)))
    for name, labels in about.variable_value_labels.items():
        if name in words:
            table[name] = [labels.get(cell, cell) for cell in table[name]]
            continue
        empty = {code for code, label in labels.items() if _UNANSWERED.search(str(label))}
        if table[name].isin(empty).any():
            table[name] = table[name].mask(table[name].isin(empty))
            codes = ", ".join(f"{code:g} ({labels[code]})" for code in sorted(empty))
            notes.append(f"{codes} in {name} is no rating by its label and was read as empty")
    found: pd.DataFrame = table.astype(object)
    return found


def _check_commas(column: pd.Series[Any], table: str) -> None:
    """Refuse 1,000 where nothing shows whether its comma is a decimal one; a column with 2,5 shows it."""
    decided = column.attrs.get("decimal")
    if decided == "comma":
        return
    cells = [cell.strip() for cell in column if isinstance(cell, str) and "," in cell]
    cells = [cell for cell in cells if _DECIMAL_COMMA.fullmatch(cell)]
    if not cells or (decided is None and not all(map(_MAYBE_THOUSANDS.fullmatch, cells))):
        return
    raise UolError(
        f"{table}: {cells[0]!r} in column {column.name} is not a number for sure: it may be "
        f"{cells[0].replace(',', '.')} or {cells[0].replace(',', '')}; "
        "say that the comma is a decimal one (--read decimal=comma), or remove it"
    )


def _number(cell: Any, row: Any, column: Any, table: str, named: bool) -> float:
    if is_gap(cell):
        return np.nan
    value = _parsed(cell)
    if value is None and _is_formula(cell):
        raise UolError(
            f"{table}, row {row}: column {column} has a formula without its result; open the file in a spreadsheet and "
            "save it"
        )
    if value is None:
        gap = f"if it stands for no rating, add --read missing={cell}" if named else "leave it empty"
        raise UolError(f"{table}, row {row}: {cell!r} in column {column} is not a number; correct it, or {gap}")
    return value


def _parsed(cell: Any) -> float | None:
    if isinstance(cell, str):
        text = cell.strip().replace("−", "-")
        if "_" in text:  # Python reads 1_2 as 12
            return None
        cell = text.replace(",", ".") if _DECIMAL_COMMA.fullmatch(text) else text
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _is_formula(cell: Any) -> bool:
    return isinstance(cell, str) and cell.startswith("=")


def _text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()
