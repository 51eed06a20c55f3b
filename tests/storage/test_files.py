"""Nothing is half-written: a file or folder is there whole, as it was before, or not at all."""

from __future__ import annotations

import json
import os
import re

import numpy as np
import pytest

from uol.errors import CallError, UolError
from uol.storage.files import check_output, replacing, replacing_folder, write_json, write_text


def test_writing_replaces_in_one_step(tmp_path):
    path = tmp_path / "new" / "file.txt"
    write_text(path, "first")
    write_text(path, "second")
    assert path.read_text() == "second"
    write_json(path, {"é": 1})
    assert json.loads(path.read_text(encoding="utf-8")) == {"é": 1}
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]
    write_json(path, {"nan": float("nan"), "array": [np.float64(1.5), np.inf]})
    assert json.loads(path.read_text()) == {"nan": None, "array": [1.5, None]}


def test_failure_keeps_what_was_there(tmp_path):
    path = tmp_path / "file.txt"
    write_text(path, "kept")
    with pytest.raises(RuntimeError), replacing(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "kept"
    assert list(tmp_path.iterdir()) == [path]


def test_folders_likewise(tmp_path):
    folder = tmp_path / "model"
    for content in ("one", "two"):
        with replacing_folder(folder) as temporary:
            (temporary / "file").write_text(content)
    with pytest.raises(RuntimeError), replacing_folder(folder) as temporary:
        (temporary / "file").write_text("half")
        raise RuntimeError
    assert (folder / "file").read_text() == "two"
    assert list(tmp_path.iterdir()) == [folder]


def test_what_cannot_be_written_is_said_in_one_line(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UolError, match="cannot write"):
        write_text(tmp_path / "file" / "below.txt", "text")
    with pytest.raises(UolError, match="a file has that name"), replacing_folder(tmp_path / "file"):
        pass


def test_a_full_disk_is_said_in_one_line(tmp_path):
    with pytest.raises(UolError, match="No space left"), replacing(tmp_path / "file") as temporary:
        temporary.write_text("half")
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_can_be_read_by_others_whoever_wrote_it(tmp_path):
    plain = tmp_path / "plain"
    plain.touch()
    with replacing(tmp_path / "file") as temporary:
        temporary.unlink()
        temporary.touch(mode=0o600)
    assert (tmp_path / "file").stat().st_mode == plain.stat().st_mode


def test_the_umask_counts_and_is_never_changed(tmp_path, monkeypatch):
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("other threads would create files with this umask"))
        write_text(tmp_path / "file", "text")
        with replacing_folder(tmp_path / "folder"):
            pass
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o750


def test_a_name_that_is_too_long_is_said_in_one_line(tmp_path):
    with pytest.raises(UolError, match="cannot write .*too long"):
        write_text(tmp_path / ("x" * 256), "text")
    with pytest.raises(UolError, match="cannot write .*too long"), replacing_folder(tmp_path / ("x" * 256)):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_name_as_long_as_the_system_allows_can_be_written(tmp_path):
    write_text(tmp_path / ("x" * 255), "text")
    for content in ("one", "two"):
        with replacing_folder(tmp_path / ("é" * 127)) as temporary:
            (temporary / "file").write_text(content)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x" * 255, "é" * 127]


def test_a_target_is_a_file_of_its_format_and_no_input(tmp_path):
    table, data = tmp_path / "ratings.csv", tmp_path / "data"
    data.mkdir()
    for path in (table, data / "scores.csv"):
        path.write_text("image,rating")
    (tmp_path / "folder.csv").mkdir()
    for wrong, reason in (
        (tmp_path / "out.txt", "must end in .csv or .parquet"),
        (tmp_path / "folder.csv", "a folder is there"),
        (tmp_path / "data" / ".." / "ratings.csv", "would overwrite what this command reads"),
        (data / "scores.csv", "would overwrite what this command reads"),
    ):
        with pytest.raises(CallError, match=re.escape(reason)):
            check_output(wrong, (".csv", ".parquet"), [table, data])
    for right in (data / "new.csv", tmp_path / "OTHER.CSV"):
        check_output(right, (".csv", ".parquet"), [table, data])
