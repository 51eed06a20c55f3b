"""Rows of a long job: whole in every format, nothing lost on interruption, taken up by the same job only."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from uol.errors import CallError, UolError
from uol.scoring.row_file import RowFile, as_csv, write_rows

COLUMNS = ("image", "face", "value", "error")
JOB = {"model": "abc"}


def row(name, value=1.5):
    return {"image": name, "face": {"box": [1.0, 2.5, 3.0, 4.0]}, "value": value, "error": None}


@pytest.fixture
def inputs(tmp_path):
    paths = [tmp_path / f"{k}.jpg" for k in range(4)]
    for path in paths:
        path.write_bytes(b"x")
    return paths


def interrupted(path, inputs, error, job=JOB):
    with pytest.raises(type(error)), RowFile(path, job, COLUMNS) as kept:
        for one in inputs:
            kept.add(one, [row(str(one))])
        raise error


@pytest.mark.parametrize("suffix", [".csv", ".json", ".jsonl", ".parquet"])
def test_every_format_says_the_same(tmp_path, suffix):
    rows = [row("a, b.jpg"), {"image": 'c "d".jpg', "face": None, "value": None, "error": "broken"}]
    path = tmp_path / f"rows{suffix}"
    write_rows(path, rows, COLUMNS)
    if suffix == ".csv":
        read = pd.read_csv(path)
    elif suffix == ".parquet":
        read = pd.read_parquet(path)
    else:
        text = path.read_text()
        found = json.loads(text) if suffix == ".json" else [json.loads(line) for line in text.splitlines()]
        assert found == rows
        return
    assert list(read.columns) == list(COLUMNS)
    assert read["image"].tolist() == ["a, b.jpg", 'c "d".jpg']
    assert read["face"].iloc[0] == "1 2.5 3 4"
    assert read["value"].iloc[0] == 1.5
    assert pd.isna(read["value"].iloc[1])
    assert read["error"].iloc[1] == "broken"


WIDE = ("image", "face", "face_left", "face_top", "face_width", "face_height", "problems", "value", "error")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_have_the_box_and_the_problems_of_a_face(tmp_path, suffix):
    face = {"box": [1.0, 2.5, 3.0, 4.0], "confidence": 0.9, "problems": ["2 faces: largest taken", "turned away"]}
    rows = [row("a") | {"face": face}, row("b"), row("c") | {"face": None}]
    path = tmp_path / f"rows{suffix}"
    write_rows(path, rows, WIDE)
    read = pd.read_csv(path) if suffix == ".csv" else pd.read_parquet(path)
    assert list(read.columns) == list(WIDE)
    assert read.loc[0, list(WIDE[2:6])].tolist() == face["box"]
    assert read.loc[2, list(WIDE[2:6])].isna().all()
    assert read["problems"].iloc[0] == "2 faces: largest taken; turned away"
    assert pd.isna(read["problems"].iloc[2])
    if suffix == ".parquet":
        assert read["problems"].iloc[1] == ""
        assert read["face_left"].dtype == "float64"


def test_a_job_half_done_with_fewer_columns_goes_on(tmp_path, inputs):
    out = tmp_path / "rows.csv"
    interrupted(out, inputs[:2], RuntimeError("killed"))
    with RowFile(out, JOB, WIDE) as kept:
        assert kept.missing(inputs) == inputs[2:]
    assert pd.read_csv(out)["face_height"].tolist() == [4.0, 4.0]


def test_a_finished_job_leaves_the_file_alone_in_its_folder(tmp_path, inputs):
    out = tmp_path / "out" / "rows.csv"
    with RowFile(out, JOB, COLUMNS) as kept:
        assert kept.missing(inputs) == inputs
        for one in reversed(inputs):
            kept.add(one, [row(str(one))])
        kept.order(inputs)
        assert [r["image"] for r in kept.rows] == [str(path) for path in inputs]
    assert [path.name for path in out.parent.iterdir()] == ["rows.csv"]
    assert len(pd.read_csv(out)) == 4


def test_an_interrupted_job_has_its_rows_and_goes_on(tmp_path, inputs):
    out = tmp_path / "rows.csv"
    interrupted(out, inputs[:2], KeyboardInterrupt())
    assert len(pd.read_csv(out)) == 2
    with RowFile(out, JOB, COLUMNS) as kept:
        assert kept.missing(inputs) == inputs[2:]
        for one in inputs[2:]:
            kept.add(one, [row(str(one), 2.0)])
    assert pd.read_csv(out)["value"].tolist() == [1.5, 1.5, 2.0, 2.0]


def test_a_killed_job_goes_on_from_its_journal_though_the_last_line_is_cut(tmp_path, inputs):
    out = tmp_path / "rows.jsonl"
    interrupted(out, inputs[:3], RuntimeError("killed"))
    assert not out.exists()
    journal = tmp_path / ".rows.jsonl.rows"
    journal.write_text(journal.read_text()[:-9])
    with RowFile(out, JOB, COLUMNS) as kept:
        assert kept.missing(inputs) == inputs[2:]


def test_another_job_or_a_changed_input_is_done_again(tmp_path, inputs):
    out = tmp_path / "rows.csv"
    interrupted(out, inputs[:3], RuntimeError())
    other = RowFile(out, {"model": "other"}, COLUMNS)
    with pytest.warns(UserWarning, match="dropped 3 images of an unfinished job with another model or other options"):
        other.__enter__()
    assert other.missing(inputs) == inputs
    other.__exit__(None, None, None)
    interrupted(out, inputs[:3], RuntimeError())
    inputs[1].write_bytes(b"changed")
    with RowFile(out, JOB, COLUMNS) as kept:
        assert kept.missing(inputs) == [inputs[1], inputs[3]]
        kept.add(inputs[1], [row("new")])
        kept.order(inputs[:2])
        assert [r["image"] for r in kept.rows] == [str(inputs[0]), "new"]


def test_an_interrupted_repetition_leaves_the_finished_file_as_it_was(tmp_path, inputs):
    out = tmp_path / "rows.csv"
    with RowFile(out, JOB, COLUMNS) as kept:
        for one in inputs:
            kept.add(one, [row(str(one))])
    before = out.read_bytes()
    interrupted(out, inputs[:1], KeyboardInterrupt())
    assert out.read_bytes() == before


def test_interrupted_rows_are_of_what_was_asked_for_and_has_not_changed(tmp_path, inputs):
    out = tmp_path / "rows.csv"
    interrupted(out, inputs[:2], KeyboardInterrupt())
    inputs[0].write_bytes(b"changed")
    with pytest.raises(KeyboardInterrupt), RowFile(out, JOB, COLUMNS) as kept:
        assert kept.missing([inputs[0], inputs[3]]) == [inputs[0], inputs[3]]
        raise KeyboardInterrupt
    assert len(pd.read_csv(out)) == 0


@pytest.mark.parametrize("suffix", [".csv", ".json", ".jsonl", ".parquet"])
def test_names_that_are_no_text_are_kept_as_far_as_the_format_can(tmp_path, suffix):
    name = b"bad\xff.jpg".decode(errors="surrogateescape")
    with RowFile(tmp_path / f"rows{suffix}", JOB, COLUMNS) as kept:
        kept.add(tmp_path / name, [row(name)])
    assert (tmp_path / f"rows{suffix}").stat().st_size > 0


def test_parquet_has_numbers_even_where_nothing_was_scored(tmp_path):
    write_rows(tmp_path / "r.parquet", [{"image": "a", "value": None, "error": "broken"}], COLUMNS)
    assert pd.read_parquet(tmp_path / "r.parquet")["value"].dtype == "float64"


def test_wrong_names_and_places(tmp_path):
    with pytest.raises(CallError, match=r"must end in \.csv"):
        RowFile(tmp_path / "rows.txt", JOB, COLUMNS)
    (tmp_path / "file").write_text("")
    with pytest.raises(UolError, match="cannot write"), RowFile(tmp_path / "file" / "rows.csv", JOB, COLUMNS):
        pass


def test_the_file_that_was_asked_for_is_named_where_nothing_can_be_written(tmp_path, inputs, monkeypatch):
    def full(path, text):
        raise UolError(f"cannot write {path}: No space left") from OSError(28, "No space left")

    monkeypatch.setattr("uol.scoring.row_file.write_text", full)
    with (
        pytest.raises(UolError, match=r"^cannot write .*/scores\.csv: No space left$"),
        RowFile(tmp_path / "scores.csv", JOB, COLUMNS),
    ):
        pass


def test_csv_leaves_unknown_cells_empty():
    assert as_csv([{"image": "a", "value": None}], COLUMNS) == "image,face,value,error\na,,,\n"


def test_names_cannot_become_formulas(tmp_path):
    rows = [{"image": "=HYPERLINK(1).jpg", "value": -1.5, "error": "@x"}]
    write_rows(tmp_path / "r.csv", rows, ["image", "value", "error"])
    assert (tmp_path / "r.csv").read_text().splitlines()[1] == "'=HYPERLINK(1).jpg,-1.5,'@x"


def test_one_file_has_one_writer(tmp_path, inputs):
    path = tmp_path / "rows.csv"
    with RowFile(path, JOB, COLUMNS) as kept:
        kept.add(inputs[0], [row("a")])
        with (
            pytest.raises(CallError, match=r"rows.csv: another command is writing this file"),
            RowFile(path, JOB, COLUMNS),
        ):
            pass
        kept.add(inputs[1], [row("b")])
    assert sorted(item.name for item in tmp_path.iterdir() if item.suffix != ".jpg") == ["rows.csv"]
    assert list(pd.read_csv(path)["image"]) == ["a", "b"]
    with RowFile(path, JOB, COLUMNS) as kept:  # the lock is free again
        kept.add(inputs[0], [row("a")])
