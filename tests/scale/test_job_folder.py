"""The folder of a job: parts that are whole or not there, and jobs that are the same or refused."""

from __future__ import annotations

import pytest

from uol.errors import CallError
from uol.scale.job_folder import Counts, JobFolder, Plan
from uol.scale.sources import Columns, TableFile

pytest.importorskip("pyarrow")
pytest.importorskip("fsspec")

PLAN = Plan({"model": "m"}, [TableFile("x", 9, [2, 2, 1])], Columns("key", None, "address"), 2)


def row(key):
    return {"key": key, "value": 1.0, "panel": "p"}


def test_a_plan_is_read_as_it_was_written(tmp_path):
    folder = JobFolder(str(tmp_path))
    assert folder.read_plan() is None
    folder.write_plan(PLAN)
    assert folder.read_plan() == PLAN
    assert [part.images for part in PLAN.parts] == [2, 2, 1]


def test_a_part_is_finished_when_its_file_is_whole(tmp_path):
    folder, (first, second, _) = JobFolder(str(tmp_path)), PLAN.parts
    folder.write_part(first, [row("a"), row("b")], Counts(2, 2, {"missing": 1}))
    folder.write_part(second, [row("c"), row("d")], Counts(2, 2))
    assert folder.finished() == {0: Counts(2, 2, {"missing": 1}), 1: Counts(2, 2)}
    whole = (tmp_path / second.name).read_bytes()
    (tmp_path / second.name).write_bytes(whole[: len(whole) // 2])
    assert list(folder.finished()) == [0]


def test_attempts_count_until_a_part_is_finished(tmp_path):
    folder, part = JobFolder(str(tmp_path)), PLAN.parts[0]
    assert [folder.begin_part(part) for _ in range(3)] == [0, 1, 2]
    folder.write_part(part, [row("a")], Counts(1, 1))
    assert folder.begin_part(part) == 0


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(CallError, match="no job of uol score"):
        JobFolder(str(tmp_path)).read_plan()


def test_clear_leaves_other_files(tmp_path):
    folder = JobFolder(str(tmp_path))
    folder.write_plan(PLAN)
    folder.write_part(PLAN.parts[0], [row("a")], Counts(1, 1))
    (tmp_path / "notes.txt").write_text("mine")
    folder.clear()
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["notes.txt"]


def test_counts_add_up():
    assert sum([Counts(1, 2, {"a": 1}), Counts(3, 4, {"a": 1, "b": 2})], Counts()) == Counts(4, 6, {"a": 2, "b": 2})
