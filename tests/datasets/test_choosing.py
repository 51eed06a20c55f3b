"""A data set as a person names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from uol import datasets
from uol.datasets.choosing import DataChoice, choose_panels, parse_panel
from uol.errors import CallError


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """What the loaders were asked for; a folder of photographs is there, and one with a data set's name."""
    calls = []
    monkeypatch.setattr(datasets, "load", lambda name, root, **options: calls.append((name, root, options)))
    monkeypatch.chdir(tmp_path)
    for name in ("photos", "mebeauty", "a:b"):
        Path(name).mkdir()
    return calls


TABLE = Path("ratings.csv")


@pytest.mark.parametrize(
    ("choice", "call"),
    [
        (DataChoice("photos/", table=TABLE), ("own", Path("photos"), {"table": TABLE})),
        (DataChoice("photos", table=TABLE, votes=True), ("votes", Path("photos"), {"table": TABLE})),
        (DataChoice("photos", table=TABLE, scale=(1, 7)), ("own", Path("photos"), {"table": TABLE, "scale": (1, 7)})),
        (DataChoice("mebeauty", root=Path("there")), ("mebeauty", Path("there"), {})),
        (DataChoice("./mebeauty", table=TABLE), ("own", Path("mebeauty"), {"table": TABLE})),
        (DataChoice("synthetic"), ("synthetic", None, {})),
        (DataChoice("synthetic", read=["panel=b"]), ("synthetic", None, {"panel": "b"})),
        # the forms of earlier versions
        (DataChoice("own", Path("photos"), TABLE), ("own", Path("photos"), {"table": TABLE})),
        (DataChoice("own", Path("photos"), TABLE, votes=True), ("votes", Path("photos"), {"table": TABLE})),
        (DataChoice("votes", Path("photos"), TABLE), ("votes", Path("photos"), {"table": TABLE})),
        (DataChoice("photos").with_second(TABLE), ("own", Path("photos"), {"table": TABLE})),
        (DataChoice("own", table=TABLE).with_second(Path("photos")), ("own", Path("photos"), {"table": TABLE})),
        (DataChoice("mebeauty").with_second(Path("there")), ("mebeauty", Path("there"), {})),
    ],
)
def test_names_and_folders(asked, choice, call):
    choice.load()
    assert asked == [call]


def test_settings_of_the_table(asked):
    DataChoice("photos", table=TABLE, read=["image=what", "missing=99,-1", "groups=age,gender"]).load()
    assert asked[0][2] == {"table": TABLE, "image": "what", "missing": [99, -1], "groups": ["age", "gender"]}


def test_codes_for_no_rating_may_be_given_one_by_one(asked):
    DataChoice("photos", table=TABLE, read=["missing=k.A.", "missing=99,-1"]).load()
    assert asked[0][2] == {"table": TABLE, "missing": ["k.A.", 99, -1]}


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (DataChoice("photos"), "photos: a folder of images requires --table FILE"),
        (DataChoice("photos", Path("there"), TABLE), "--root there: for a data set given by name"),
        (DataChoice("phtos/", table=TABLE), "phtos/: no such folder"),
        (DataChoice("mebeuty", table=TABLE), "unknown data set 'mebeuty': did you mean mebeauty?"),
        (DataChoice("nothing"), "there is no folder of that name"),
        (DataChoice("mebeauty", Path("there"), TABLE), "--table: for a folder of images; mebeauty comes with ratings"),
        (DataChoice("synthetic", votes=True), "--votes: for a folder of images"),
        (DataChoice("synthetic", scale=(1, 5)), "--scale: for a folder of images"),
        (DataChoice("photos", table=TABLE, scale=(5, 1)), "give the lowest rating first"),
        (DataChoice("photos", table=TABLE, votes=True, scale=(1, 5)), "--scale: for ratings"),
        (DataChoice("votes", Path("photos"), TABLE, scale=(1, 5)), "--scale: for ratings"),
        (DataChoice("photos", table=TABLE, read=["image"]), "write it as name=value"),
        (DataChoice("photos", table=TABLE, read=["missing=99,"]), "give numbers"),
        (DataChoice("photos", table=TABLE, read=["image=what", "image=who"]), "--read image: given twice"),
    ],
)
def test_mistakes_are_one_line(asked, choice, words):
    with pytest.raises(CallError) as caught:
        choice.load()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert asked == []


def test_a_file_is_not_a_folder_and_two_tables_are_one_too_many(asked):
    TABLE.write_text("image,mean")
    with pytest.raises(CallError, match="a file; give the folder of the images"):
        DataChoice("ratings.csv").load()
    with pytest.raises(CallError, match="--table ratings.csv is given already"):
        DataChoice("photos", table=TABLE).with_second(Path("other.csv"))
    with pytest.raises(CallError, match="--root there is given already"):
        DataChoice("mebeauty", root=Path("there")).with_second(Path("here"))


def test_panels(asked):
    assert parse_panel("photos/:fold-1") == ("photos/", None, "fold-1")
    assert parse_panel("photos") == ("photos", None, None)
    assert parse_panel("a:b") == ("a:b", None, None)
    assert parse_panel("a:b:2") == ("a:b", None, "2")
    assert parse_panel("own=a:b") == ("own", Path("a:b"), None)
    assert parse_panel("own=a:b:2022") == ("own", Path("a:b"), "2022")
    assert parse_panel("mebeauty") == ("mebeauty", None, None)
    assert parse_panel("mebeauty=there:2022") == ("mebeauty", Path("there"), "2022")
    assert parse_panel("synthetic=:default") == ("synthetic", None, "default")
    assert parse_panel("synthetic:default") == ("synthetic", None, "default")
    reading = ["photos:table=ratings.csv", "photos/:scale=1,10", "photos/:image=what", "mebeauty:images=cropped"]
    (first, split), (second, _) = choose_panels(["photos/:fold-1", "mebeauty=there"], reading)
    assert (first, split) == (DataChoice("photos/", None, TABLE, scale=(1, 10), read=["image=what"]), "fold-1")
    assert second == DataChoice("mebeauty", Path("there"), read=["images=cropped"])


@pytest.mark.parametrize(
    ("words", "reading", "complaint"),
    [
        (["phtos:fold-1"], [], "--with phtos:fold-1: no such data set or folder"),
        (["=photos"], [], "write it as NAME=FOLDER:SPLIT or FOLDER:SPLIT"),
        ([":fold-1"], [], "no such data set or folder"),
        (["nothing=photos"], [], "unknown data set 'nothing'"),
        (["photos:fold-1"], [], "--with-read photos:table=FILE"),
        (["photos"], ["photos"], "write it as NAME:name=value"),
        (["photos"], ["other:table=x"], "no --with names other"),
        (["photos"], ["photos:scale=1"], "as scale=1,10"),
    ],
)
def test_mistakes_in_panels(asked, words, reading, complaint):
    with pytest.raises(CallError, match=complaint):
        choose_panels(words, reading)


def test_numbers_of_drawn_faces():
    rated = DataChoice("synthetic", read=["n=12", "test=4", "size=16", "seed=3"]).load()
    assert (len(rated), rated.images.shape[1]) == (12, 16)
    with pytest.raises(CallError, match="--read n=many: a whole number is required"):
        DataChoice("synthetic", read=["n=many"]).load()
