"""A folder of aligned faces: same names, a table, nothing done twice and no photograph overwritten."""

from __future__ import annotations

import csv
import time

import numpy as np
import pytest
from PIL import Image

from uol.errors import CallError, UolError
from uol.images import face_cache
from uol.images.align_folder import TABLE, FaceRow, align_into
from uol.images.faces import AlignedFace, Face, FaceError
from uol.images.read import read_image

NAMES = ["a.jpg", "women/b.png", "women/c.webp", "wall.jpg"]


@pytest.fixture
def looked(monkeypatch, tmp_path):
    """The images in which a face was looked for; a grey wall has none, a red picture a doubtful one."""
    seen = []

    def find_face(image, size):
        seen.append(image)
        pixel = np.asarray(read_image(image))[0, 0]
        if np.ptp(pixel) < 20:
            raise FaceError(f"{image}: no face found")
        face = Face((1.0, 2.0, 3.0, 4.0), np.zeros((5, 2)), 0.99)
        problems = ("turned away", "tiny face") if pixel[0] > 200 else ()
        return AlignedFace(np.full((size, size, 3), pixel, np.uint8), face, problems)

    monkeypatch.setattr(face_cache, "opencv", lambda: None)
    monkeypatch.setattr(face_cache, "find_face", find_face)
    monkeypatch.setenv("UOL_CACHE", str(tmp_path / "cache"))
    return seen


@pytest.fixture
def photographs(tmp_path):
    paths = [tmp_path / "photos" / name for name in NAMES]
    colours = [(250, 10, 10), (10, 200, 10), (10, 10, 200), (90, 90, 90)]
    for path, colour in zip(paths, colours, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (30, 30), colour).save(path)
    return paths


def table(folder):
    with open(folder / TABLE, encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_faces_and_table(looked, photographs, tmp_path):
    calls = []
    rows = align_into(tmp_path / "out", photographs, NAMES, 32, lambda *call: calls.append(call))
    assert rows[0] == FaceRow("a.jpg", "a.png", "turned away; tiny face")
    assert rows[2] == FaceRow("women/c.webp", "women/c.png", "")
    assert rows[3].face is None
    assert "no face found" in rows[3].problems
    assert calls == [(k, 4) for k in (1, 2, 3, 4)]
    assert [line["face"] for line in table(tmp_path / "out")] == ["a.png", "women/b.png", "women/c.png", ""]
    with Image.open(tmp_path / "out" / "women" / "b.png") as face:
        assert face.size == (32, 32)
        assert face.getpixel((5, 5)) == (10, 200, 10)


def test_a_stopped_run_goes_on_and_keeps_what_it_has(looked, photographs, tmp_path):
    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        align_into(tmp_path / "out", photographs, NAMES, 32, stop)
    before = len(table(tmp_path / "out"))
    assert 0 < before < 4
    Image.new("RGB", (32, 32), (1, 2, 3)).save(tmp_path / "out" / "a.png")  # by hand: must stay
    looked.clear()
    calls = []
    rows = align_into(tmp_path / "out", photographs, NAMES, 32, lambda *call: calls.append(call))
    assert [row.image for row in rows] == NAMES
    assert rows[0].problems == "turned away; tiny face"
    assert calls[-1] == (4, 4)
    assert len(calls) == 4 - before
    assert photographs[0] not in looked
    with Image.open(tmp_path / "out" / "a.png") as face:
        assert face.getpixel((0, 0)) == (1, 2, 3)


def test_another_size_and_a_lost_or_broken_face_are_made_anew(looked, photographs, tmp_path):
    align_into(tmp_path / "out", photographs, NAMES, 32)
    (tmp_path / "out" / "a.png").unlink()
    (tmp_path / "out" / "women" / "b.png").write_bytes(b"broken")
    align_into(tmp_path / "out", photographs, NAMES, 32)
    for name in ("a.png", "women/b.png"):
        assert read_image(tmp_path / "out" / name).size == (32, 32)
    align_into(tmp_path / "out", photographs, NAMES, 48)
    assert read_image(tmp_path / "out" / "women" / "c.png").size == (48, 48)


def test_reading_the_photographs_is_progress_too(looked, photographs, tmp_path):
    calls = []
    for _ in range(2):
        align_into(
            tmp_path / "out", photographs, NAMES, 32,
            progress=lambda *call: calls.append(("aligned", *call)),
            reading=lambda *call: calls.append(("read", *call)),
        )  # fmt: skip
    read = [("read", k, 4) for k in (1, 2, 3, 4)]
    assert calls == [*read, *(("aligned", k, 4) for k in (1, 2, 3, 4)), *read, ("aligned", 4, 4)]  # one has no face


def test_a_stop_while_photographs_are_read_does_not_wait_for_all(photographs, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    seen, place = [], face_cache.FaceCache.place

    def slow(self, image):
        seen.append(image)
        time.sleep(0.01)
        return place(self, image)

    monkeypatch.setattr(face_cache.FaceCache, "place", slow)
    with pytest.raises(KeyboardInterrupt):
        align_into(tmp_path / "out", photographs[:1] * 500, [f"{k}.jpg" for k in range(500)], 32, reading=stop)
    assert len(seen) < 250


@pytest.mark.parametrize("text", ["image,score\na.jpg,3\n", "image,face,problems\na.jpg\n", "\0"])
def test_a_table_that_no_run_wrote_is_not_lost(looked, photographs, tmp_path, text):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / TABLE).write_text(text)
    with pytest.raises(CallError, match="not a table of aligned faces, and would be lost; choose another folder"):
        align_into(tmp_path / "out", photographs, NAMES, 32)
    assert (tmp_path / "out" / TABLE).read_text() == text
    assert not looked


def test_rows_of_other_photographs_stay_while_their_faces_do(looked, photographs, tmp_path):
    out = tmp_path / "out"
    align_into(out, photographs[:2], NAMES[:2], 32)
    (out / "women" / "b.png").unlink()
    assert [row.image for row in align_into(out, photographs[2:], NAMES[2:], 32)] == NAMES[2:]
    assert [row["image"] for row in table(out)] == [NAMES[2], NAMES[3], NAMES[0]]


def test_unreadable_files_are_not_counted_as_files_without_a_face(looked, photographs, tmp_path):
    photographs[0].write_bytes(b"no image")
    rows = align_into(tmp_path / "out", photographs, NAMES, 32)
    assert [(row.face is None, row.unreadable) for row in rows] == [
        (True, True), (False, False), (False, False), (True, False),
    ]  # fmt: skip
    assert list(table(tmp_path / "out")[0]) == ["image", "face", "problems", "digest"]


def test_photographs_are_never_overwritten(looked, photographs, tmp_path):
    before = photographs[1].read_bytes()
    with pytest.raises(CallError, match="is a photograph and would be overwritten"):
        align_into(tmp_path / "photos", photographs, NAMES)
    assert photographs[1].read_bytes() == before
    assert not (tmp_path / "photos" / TABLE).exists()
    with pytest.raises(UolError, match="two photographs would become"):
        align_into(tmp_path / "out", photographs[:2], ["a.jpg", "a.webp"])


def test_arrays_have_names_too(looked, tmp_path):
    pixels = np.full((2, 20, 20, 3), (10, 200, 10), np.uint8)
    rows = align_into(tmp_path / "out", pixels, ["face-1", "face-2"], 16)
    assert [row.face for row in rows] == ["face-1.png", "face-2.png"]


def test_a_photograph_named_like_a_formula_is_not_aligned_twice(looked, photographs, tmp_path):
    out = tmp_path / "out"
    align_into(out, photographs[:1], ["=1+1.jpg"], 32)
    assert "\n'=1+1.jpg,'=1+1.png," in (out / TABLE).read_text()
    looked.clear()
    assert align_into(out, photographs[:1], ["=1+1.jpg"], 32)[0].image == "=1+1.jpg"
    assert not looked


def colour(path):
    with Image.open(path) as face:
        return face.getpixel((0, 0))


def test_another_photograph_of_the_same_name_is_aligned_again(looked, photographs, tmp_path):
    out = tmp_path / "out"
    align_into(out, photographs, NAMES, 32)
    other = tmp_path / "other.png"
    Image.new("RGB", (30, 30), (10, 10, 99)).save(other)
    looked.clear()
    align_into(out, [other, *photographs[2:]], [NAMES[0], *NAMES[2:]], 32)
    assert photographs[2] not in looked
    assert colour(out / "a.png") == (10, 10, 99)
    assert [row["image"] for row in table(out)] == [NAMES[0], NAMES[2], NAMES[3], NAMES[1]]
    Image.new("RGB", (30, 30), (90, 90, 90)).save(other)  # edited in place: no face
    align_into(out, [other], NAMES[:1], 32)
    assert not (out / "a.png").exists()


def test_a_table_without_digests_has_its_faces_aligned_again(looked, photographs, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / TABLE).write_text("image,face,problems\na.jpg,a.png,\n")
    Image.new("RGB", (32, 32), (1, 2, 3)).save(out / "a.png")
    align_into(out, photographs[1:2], NAMES[1:2], 32)
    assert [row["image"] for row in table(out)] == [NAMES[1], NAMES[0]]
    assert colour(out / "a.png") == (1, 2, 3)
    align_into(out, photographs[:1], NAMES[:1], 32)
    assert colour(out / "a.png")[0] == 250


def test_a_killed_run_leaves_no_face_of_another_photograph(looked, photographs, tmp_path, monkeypatch):
    out = tmp_path / "out"
    align_into(out, photographs[:1], NAMES[:1], 32)
    before = (out / TABLE).read_bytes()

    def kill(*_):
        assert (out / TABLE).read_bytes() != before
        killed.append((out / TABLE).read_bytes())
        raise KeyboardInterrupt

    killed = []
    with pytest.raises(KeyboardInterrupt):
        align_into(out, photographs[1:2], NAMES[:1], 32, kill)
    (out / TABLE).write_bytes(killed[0])
    align_into(out, photographs[:1], NAMES[:1], 32)
    assert colour(out / "a.png")[0] == 250


def test_two_photographs_with_one_face_file_do_not_share_it(looked, photographs, tmp_path):
    out = tmp_path / "out"
    align_into(out, photographs[:1], ["a.jpg"], 32)
    align_into(out, photographs[1:2], ["a.webp"], 32)
    assert [row["image"] for row in table(out)] == ["a.webp"]
    align_into(out, photographs[:1], ["a.jpg"], 32)
    assert colour(out / "a.png")[0] == 250


@pytest.mark.parametrize("name", ["caf\udcff.jpg", "a\rb.jpg", "a\nb.jpg", "a\r\nb.jpg", "\rb.jpg", 'a",b.jpg'])
def test_any_name_of_a_file_comes_back(looked, photographs, tmp_path, name):
    for _ in range(3):
        assert align_into(tmp_path / "out", photographs[:1], [name], 32)[0].image == name
    assert len(looked) == 1


def test_a_name_that_is_too_long_costs_one_row(looked, photographs, tmp_path):
    names = ["x" * 251 + ".jpg", "y" * 252, "women/b.png", "wall.jpg"]
    rows = align_into(tmp_path / "out", photographs, names, 32)
    assert [row.face is not None for row in rows] == [True, False, True, False]
    assert "too long" in rows[1].problems
    assert rows[1].unreadable


def test_another_size_keeps_the_rows_of_other_photographs(looked, photographs, tmp_path):
    out = tmp_path / "out"
    align_into(out, photographs[:2], NAMES[:2], 32)
    align_into(out, photographs[1:3], NAMES[1:3], 16)
    assert [row["image"] for row in table(out)] == [NAMES[1], NAMES[2], NAMES[0]]
    assert [read_image(out / row["face"]).size for row in table(out)] == [(16, 16), (16, 16), (32, 32)]
    looked.clear()
    align_into(out, photographs[:1], NAMES[:1], 32)
    assert not looked
