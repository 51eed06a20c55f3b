from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uol.datasets.matching import ImageIndex, match_names, plain_stem
from uol.errors import UolError

FOLDER = Path("faces")
FILES = [
    "a/One Two.jpg",
    "a/same.jpg",
    "b/same.jpg",
    "b/same.png",
    "top.PNG",
    "b/top.png",
    "v1.2.jpg",
    "na\u00efve.jpg",
]
INDEX = ImageIndex(FOLDER, [FOLDER / name for name in FILES])


def found(name: str) -> list[str]:
    return [path.relative_to(FOLDER).as_posix() for path in INDEX.find(name)]


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("a/One Two.jpg", ["a/One Two.jpg"]),
        ("one_two", ["a/One Two.jpg"]),
        ("https://host/a/One%20Two.JPEG", ["a/One Two.jpg"]),
        ("C:\\faces\\A\\same.jpg", ["a/same.jpg"]),
        ("/elsewhere/b/same.png", ["b/same.png"]),
        ("b/same", ["b/same.jpg", "b/same.png"]),
        ("same.jpg", ["a/same.jpg", "b/same.jpg"]),
        ("top", ["top.PNG"]),
        ("v1.2", ["v1.2.jpg"]),
        ("v1", []),
        ("nai\u0308ve", ["na\u00efve.jpg"]),
        ('"one two.jpg"', ["a/One Two.jpg"]),
        ("", []),
    ],
)
def test_names_find_their_files(name, files):
    assert found(name) == files


@given(st.sampled_from(FILES))
def test_every_file_finds_itself(name):
    assert found(name) == [name]


@given(st.text("abz09-. _", max_size=12), st.sampled_from(["", ".jpg", ".JPEG", ".png"]))
def test_spelling_does_not_matter(middle, suffix):
    name = f"x{middle}y"
    assert plain_stem(f"folder/{name.upper().replace(' ', '%20')}{suffix}") == plain_stem(f"{name}.webp")


def test_match_names_notes_what_does_not_fit():
    notes: list[str] = []
    matched = match_names(["top", "same.jpg", "gone.jpg", "top"], INDEX, "t.csv", notes)
    assert matched == {"top": FOLDER / "top.PNG"}
    assert notes == [
        "left out: 1 image of t.csv without a file: gone.jpg",
        "left out: 1 image of t.csv with several files (name their sub-folders): same.jpg",
    ]
    with pytest.raises(UolError, match=r"no image of t\.csv is in faces: .* such as 'x1', .* such as 'a/One Two\.jpg'"):
        match_names(["x1"], INDEX, "t.csv", notes)
