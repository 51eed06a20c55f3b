from __future__ import annotations

import builtins

import numpy as np
import pandas as pd
import pytest

from uol.datasets.tables import find_column, has_numbers, is_gap, numbers, read_table, texts
from uol.errors import CallError, UolError

FRAME = pd.DataFrame({"image": ["001", "b", "c"], "rating": [1.0, np.nan, 2.5]})


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.xlsx", "t.parquet"])
def test_all_kinds_of_file_hold_the_same_table(name, tmp_path):
    file = tmp_path / name
    writers = {".csv": FRAME.to_csv, ".xlsx": FRAME.to_excel, ".parquet": FRAME.to_parquet}
    if name == "t.tsv":
        FRAME.to_csv(file, index=False, sep="\t")
    else:
        writers[file.suffix](file, index=False)
    table = read_table(file)
    assert list(table.columns) == ["image", "rating"]
    assert list(table.index) == [2, 3, 4]
    assert texts(table["image"]) == ["001", "b", "c"]
    np.testing.assert_array_equal(numbers(table["rating"], "t"), [1, np.nan, 2.5])


def test_spreadsheets_of_other_countries(tmp_path):
    file = tmp_path / "t.csv"
    file.write_bytes("\ufeffBild; Urteil\nM\u00e4x.jpg;3,5\n;\nb.jpg;1\n".encode())
    table = read_table(file)
    assert list(table.index) == [2, 4]
    assert texts(table["Bild"]) == ["M\u00e4x.jpg", "b.jpg"]
    np.testing.assert_array_equal(numbers(table["Urteil"], "t"), [3.5, 1])
    file.write_bytes("Bild;Urteil\nM\u00e4x.jpg;3\n".encode("cp1252"))
    assert texts(read_table(file)["Bild"]) == ["M\u00e4x.jpg"]


def test_a_sheet_can_be_chosen(tmp_path):
    file = tmp_path / "t.xlsx"
    with pd.ExcelWriter(file) as writer:
        pd.DataFrame({"a": [1]}).to_excel(writer, sheet_name="one", index=False)
        pd.DataFrame({"b": [2.0, None]}).to_excel(writer, sheet_name="two", index=False)
    assert texts(read_table(file, "two")["b"]) == ["2"]
    assert texts(read_table(file, "2")["b"]) == ["2"]
    for absent in ("three", 2):
        with pytest.raises(CallError, match=r"no sheet .*; there are one, two"):
            read_table(file, absent)


def test_what_is_not_a_table_is_refused(tmp_path):
    with pytest.raises(CallError, match=r"no such table file"):
        read_table(tmp_path / "absent.csv")
    (tmp_path / "t.doc").touch()
    with pytest.raises(CallError, match=r"save it as one of \.csv"):
        read_table(tmp_path / "t.doc")
    for name in ("t.xlsx", "t.parquet"):
        (tmp_path / name).write_bytes(b"not a table")
        with pytest.raises(UolError, match="cannot be read"):
            read_table(tmp_path / name)
    for text in ("", "a,b\n1,2,3\n"):
        (tmp_path / "t.csv").write_text(text)
        with pytest.raises(UolError, match="cannot be read"):
            read_table(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("a,b\n,\n")
    with pytest.raises(UolError, match="no rows"):
        read_table(tmp_path / "t.csv")
    FRAME.rename(columns={"image": "rating "}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(UolError, match="two columns are called rating"):
        read_table(tmp_path / "t.parquet")


def test_a_missing_package_is_named_with_the_extra(tmp_path, monkeypatch):
    file = tmp_path / "t.xlsx"
    FRAME.to_excel(file, index=False)
    usual = builtins.__import__

    def without(name, *rest, **options):
        if name.startswith("openpyxl"):
            raise ImportError(name)
        return usual(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr(pd, "read_excel", lambda *_, **__: __import__("openpyxl"))
    with pytest.raises(UolError, match=r"needs openpyxl; install it with: pip install 'uol\[data\]'"):
        read_table(file)


def test_gaps_numbers_and_texts():
    assert all(map(is_gap, ["", " NA ", "n/a", "NaN", ".", None, np.nan, pd.NA]))
    assert not any(map(is_gap, ["0", 0, "a", False]))
    assert has_numbers(pd.Series(["a", "2"], dtype=object))
    assert not has_numbers(pd.Series(["a", None], dtype=object))
    assert texts(pd.Series([3.0, 2.5, None, " x "], dtype=object)) == ["3", "2.5", "", "x"]
    column = pd.Series(["1", "good"], index=[2, 3], name="score")
    with pytest.raises(UolError, match=r"t\.csv, row 3: 'good' in column score is not a number"):
        numbers(column, "t.csv")
    with pytest.raises(UolError, match="not a number"):
        numbers(pd.Series(["1,000"], name="score"), "t.csv")


def test_columns_are_found_by_usual_names():
    table = pd.DataFrame(columns=["Rater ID", "file-name", "x"])
    assert find_column(table, None, ("subject", "rater_id"), "rater") == "Rater ID"
    assert find_column(table, "FILE_NAME", (), "image") == "file-name"
    assert find_column(table, None, ("y",), "y") is None
    with pytest.raises(CallError, match="no column 'y' for the rating: the table has Rater ID, file-name, x"):
        find_column(table, "y", (), "rating")
