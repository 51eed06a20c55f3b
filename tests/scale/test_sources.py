"""Sources: folders, lists and Parquet files, divided into parts that are always the same."""

from __future__ import annotations

import pytest

from uol.errors import CallError
from uol.scale.sources import (
    Columns,
    TableFile,
    image_pairs,
    is_table,
    marks_in,
    parts_of,
    table_files,
    write_list,
)

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("fsspec")


def write(path, **columns):
    parquet.write_table(pa.table(columns), path)
    return str(path)


def keys(*names, lines=()):
    return [key for key, _ in image_pairs(names, lines, lambda line: None)]


def test_parts_are_runs_of_row_groups_of_one_file():
    files = [TableFile("a", 0, [3, 3, 3, 1]), TableFile("b", 0, [0]), TableFile("c", 0, [20, 1])]
    parts = [(part.number, part.address, part.groups, part.first_row, part.images) for part in parts_of(files, 5)]
    assert parts == [(0, "a", [0, 1], 0, 6), (1, "a", [2, 3], 6, 4), (2, "c", [0], 0, 20), (3, "c", [1], 20, 1)]


def test_a_folder_is_its_images_in_order(photographs):
    found = keys(str(photographs))
    assert len(found) == 40
    assert found == sorted(found)


def test_a_list_names_each_image_once(tmp_path):
    (tmp_path / "list.txt").write_text("\ufeffs3://a/1.jpg\r\n\nhttps://b/2.png\ns3://a/1.jpg\n")
    assert keys(str(tmp_path / "list.txt")) == ["s3://a/1.jpg", "https://b/2.png"]
    assert keys("-", lines=["x.jpg\n", "y.jpg\n", "x.jpg"]) == ["x.jpg", "y.jpg"]


def test_a_missing_file_of_several_stays(tmp_path, photographs):
    assert str(tmp_path / "gone.jpg") in keys(str(photographs), str(tmp_path / "gone.jpg"))
    with pytest.raises(CallError, match="no such file"):
        keys(str(tmp_path / "gone.jpg"))


def test_a_list_is_kept_in_one_row_group_for_each_part(tmp_path):
    files = write_list(((f"{n}", f"{n}.jpg") for n in range(25)), str(tmp_path), 10)
    assert [file.groups for file in files] == [[10, 10, 5]]
    assert parquet.ParquetFile(files[0].address).metadata.num_row_groups == 3
    assert table_files([str(tmp_path)], {}) == (files, Columns("key", None, "address"))


def test_http_has_no_folders():
    with pytest.raises(CallError, match="HTTP has no folders"):
        keys("https://example.org/photographs/")


def test_images_and_parquet_do_not_mix(tmp_path, photographs):
    table = write(tmp_path / "t.parquet", bytes=[b"x"])
    assert is_table([table])
    assert is_table([str(tmp_path)])
    assert not is_table([str(photographs)])
    with pytest.raises(CallError, match="cannot be scored by one command"):
        is_table([table, str(photographs)])
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(CallError, match="has Parquet files and images"):
        is_table([str(tmp_path)])


@pytest.mark.parametrize(
    ("columns", "asked", "chosen"),
    [
        ({"key": ["a"], "bytes": [b"x"]}, {}, Columns("key", "bytes", None)),
        ({"url": ["a"]}, {}, Columns("url", None, "url")),
        ({"id": [1], "image": [{"bytes": b"x", "path": "p"}]}, {}, Columns("id", "image", None)),
        ({"who": ["a"], "jpg": [b"x"]}, {"key": "who"}, Columns("who", "jpg", None)),
        ({"a": ["x"], "b": ["y"]}, {"image": "b"}, Columns("b", None, "b")),
        ({"blob": [b"x"]}, {"image": "blob"}, Columns(None, "blob", None)),
    ],
)
def test_columns_are_found_by_name_and_type(tmp_path, columns, asked, chosen):
    assert table_files([write(tmp_path / "t.parquet", **columns)], asked)[1] == chosen


def test_unknown_columns_are_refused(tmp_path):
    table = write(tmp_path / "t.parquet", a=["x"])
    with pytest.raises(CallError, match="which column has the images"):
        table_files([table], {})
    with pytest.raises(CallError, match="no column b; there are a"):
        table_files([table], {"image": "b"})


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        ({"id": ["a"], "jpg": [b"x"]}, "2.parquet: no column bytes, which other files of this job have"),
        ({"bytes": [b"x"]}, "2.parquet: no column id, which"),
        ({"id": ["a"], "bytes": ["x.jpg"]}, "2.parquet: another type of column bytes, which"),
    ],
)
def test_files_with_other_columns_are_named(tmp_path, other, problem):
    write(tmp_path / "1.parquet", id=["a"], bytes=[b"x"])
    write(tmp_path / "2.parquet", **other)
    with pytest.raises(CallError, match=problem):
        table_files([str(tmp_path)], {})


def test_a_repeated_name_is_reported(tmp_path):
    lines = []
    assert len(list(image_pairs(["-"], ["a.jpg", "./a.jpg", "b.jpg"], lines.append))) == 2
    assert lines == ["1 repeated name passed over: each image is scored once"]


def test_what_a_list_has_already_is_passed_over(tmp_path, photographs, monkeypatch):
    files = write_list(image_pairs([str(photographs)], (), lambda line: None), str(tmp_path), 10)
    monkeypatch.chdir(photographs.parent)
    for name in (str(photographs), photographs.name):  # another spelling is the same folder
        assert list(image_pairs([name], (), lambda line: None, marks_in(files))) == []
    (new,) = image_pairs(["-"], [str(photographs / "b" / "00.jpg"), "new.jpg"], lambda line: None, marks_in(files))
    assert new == ("new.jpg", str(photographs.parent / "new.jpg"))
