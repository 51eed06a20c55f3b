"""A study folder is read and checked; one line says what is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from uol.errors import CallError, UolError
from uol.study.folder import images_text, is_study, open_study, pairs_text

SETTINGS = "title: T\nkind: pairs\nquestion: Q\nimages: {folder: photos}\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "photos").mkdir()
    for name in ("a", "b", "=c"):
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "photos" / f"{name}.png")
    (tmp_path / "study.yaml").write_text(SETTINGS)
    (tmp_path / "images.csv").write_text(images_text({name: f"{name}.png" for name in ("a", "b", "=c")}))
    return tmp_path


def test_ids_and_files(folder):
    study = open_study(folder)
    assert is_study(folder)
    assert study.ids == ("a", "b", "=c")  # what looks like a formula stays a name
    assert study.files["=c"] == folder / "photos" / "=c.png"
    assert study.places == {"a": 0, "b": 1, "=c": 2}


def test_files_in_another_encoding_are_refused_in_plain_words(folder):
    (folder / "study.yaml").write_bytes("title: Schön".encode("latin-1"))
    with pytest.raises(UolError, match=r"study.yaml: cannot be read \(not a text file in UTF-8\)$"):
        open_study(folder)


def test_given_pairs_and_people(folder):
    (folder / "study.yaml").write_text(SETTINGS + "pairs: {choice: given, table: pairs.csv}\n")
    (folder / "pairs.csv").write_text(pairs_text([("a", "b"), ("b", "=c")], ["007", "008"]))
    study = open_study(folder)
    assert study.given == (("a", "b"), ("b", "=c"))
    assert study.people == ("007", "008")


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("study.yaml", "title: [", "not readable as YAML"),
        ("study.yaml", "just words", "not a list of settings"),
        ("study.yaml", SETTINGS + "kind: ratings\n", "occurs twice"),
        ("study.yaml", SETTINGS + "colour: red\n", "colour"),
        ("study.yaml", SETTINGS + "checks: [{images: [a, x], accepted: [a]}]\n", "no image has the id 'x'"),
        ("study.yaml", SETTINGS + "pairs: {choice: given, table: none.csv}\n", "no such file"),
        ("study.yaml", SETTINGS + "trials: 4\n", "trials: at most 3, not 4"),
        ("study.yaml", SETTINGS + "trials: 3\nrepeats: 3\n", "repeats: at most 2, not 3"),
        ("study.yaml", SETTINGS + "repeats: 3\n", "repeats: at most 2, not 3"),
        ("study.yaml", SETTINGS + "practice: 1001\n", "practice: must be at most 1000"),
        ("study.yaml", SETTINGS.replace("pairs", "ratings") + "trials: 4\n", "trials: at most 3, not 4"),
        ("images.csv", "id;file\n", "no column id"),
        ("images.csv", "id,file\na,a.png\n", "at least 2 images"),
        ("images.csv", "id,file\na,a.png\na,b.png\n", "occurs twice"),
        ("images.csv", "id,file\na,a.png\nsimilar,b.png\n", "cannot be the id"),
        ("images.csv", "id,file\na,a.png\nb,../../etc/passwd\n", "not inside"),
        ("images.csv", "id,file\na,a.png\nb,/etc/passwd\n", "not inside"),
        ("images.csv", "id,file\na,a.png\nb,\n", "file is empty"),
        ("images.csv", "id,file\na,a.png\nb,gone.png\n", "no such file"),
    ],
)
def test_what_is_wrong_is_one_line(folder, file, text, problem):
    (folder / file).write_text(text)
    with pytest.raises(UolError, match=problem) as caught:
        open_study(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("row", ["a,x", "a,a", "a,b\nb,a", ""])
def test_wrong_pairs(folder, row):
    (folder / "study.yaml").write_text(SETTINGS + "pairs: {choice: given, table: pairs.csv}\n")
    (folder / "pairs.csv").write_text(f"first,second\n{row}\n")
    with pytest.raises(CallError, match=r"pairs\.csv"):
        open_study(folder)


def test_no_folder(tmp_path):
    with pytest.raises(CallError, match="uol study new"):
        open_study(tmp_path / "none")
    with pytest.raises(CallError, match="no study.yaml"):
        open_study(tmp_path)
    assert not is_study(tmp_path)
