"""The cells of a sheet as rows, with merged cells filled down and formulas by their results."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

from uol.errors import CallError

Rows = list[list[Any]]


def read_xlsx(file: Path, sheet: str | int, notes: list[str]) -> Rows:
    """The rows of a sheet of an Excel file; a formula without a result stays as it is written, and begins with =."""
    import openpyxl

    formulas, merged = _has(file, rb"<f[ >/]"), _has(file, rb"<mergeCell ")
    book = openpyxl.load_workbook(file, read_only=not (formulas or merged), data_only=True)
    try:
        name = _sheet(book.sheetnames, sheet, file, notes)
        cells = book[name]
        if not (formulas or merged):
            cells.reset_dimensions()
        rows = [list(row) for row in cells.iter_rows(values_only=True)]
        if formulas:
            written = openpyxl.load_workbook(file)[name]
            for row in written.iter_rows():
                for cell in row:
                    result = cells.cell(cell.row, cell.column)
                    if cell.data_type == "f" and result.value is None and result.data_type == "n":
                        rows[cell.row - 1][cell.column - 1] = str(cell.value)
        if merged:
            _fill_down(rows, cells.merged_cells.ranges, notes)
    finally:
        book.close()
    return rows


def read_ods(file: Path, sheet: str | int, notes: list[str]) -> Rows:
    """The rows of a sheet of an OpenDocument file."""
    import pandas as pd

    with pd.ExcelFile(file, engine="odf") as book:
        name = _sheet([str(name) for name in book.sheet_names], sheet, file, notes)
        table = book.parse(name, header=None, dtype=object, na_filter=False)
    return [list(row) for row in table.itertuples(index=False, name=None)]


def _has(file: Path, pattern: bytes) -> bool:
    """Whether a sheet of an Excel file matches: quick, where reading it with formulas or merged cells is slow."""
    with zipfile.ZipFile(file) as packed:
        sheets = [name for name in packed.namelist() if name.startswith("xl/worksheets/") and name.endswith(".xml")]
        return any(re.search(pattern, packed.read(name)) for name in sheets)


def _sheet(names: list[str], wanted: str | int, file: Path, notes: list[str]) -> str:
    """The name of a sheet, given by name, by place from 0, or by place from 1 if that is written as text."""
    if isinstance(wanted, str) and wanted not in names and wanted.isdecimal():
        wanted = int(wanted) - 1
    if isinstance(wanted, str):
        if wanted not in names:
            raise CallError(f"{file}: no sheet {wanted!r}; there are {', '.join(names)}")
        return wanted
    if not 0 <= wanted < len(names):
        raise CallError(f"{file}: no sheet {wanted + 1}; there are {', '.join(names)}")
    if len(names) > 1:
        others = ", ".join(name for name in names if name != names[wanted])
        notes.append(f"read sheet {names[wanted]}; --read sheet=NAME reads another ({others})")
    return names[wanted]


def _fill_down(rows: Rows, ranges: Any, notes: list[str]) -> None:
    """Give each row of a merged cell the value of the first."""
    tall = [merged for merged in ranges if merged.max_row > merged.min_row]
    for merged in tall:
        for row in range(merged.min_row, merged.max_row):
            rows[row][merged.min_col - 1] = rows[merged.min_row - 1][merged.min_col - 1]
    if tall:
        notes.append(f"{len(tall)} merged cells were read as if each row had their value")
