"""A new study: from a folder of images to a folder that can be served."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from uol.errors import CallError, UolError
from uol.study.folder import open_study
from uol.study.new import Wanted, new_study
from uol.study.trials import choose_sets


@pytest.fixture
def photos(tmp_path):
    for name in ("a.png", "b.png", "before/1.png", "after/1.png", "before/2.png", "after/2.png"):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(path)
    return tmp_path / "photos"


@pytest.mark.parametrize("kind", ["ratings", "pairs", "best-of-four"])
@pytest.mark.parametrize("copy", [False, True])
def test_every_kind_can_be_opened(photos, tmp_path, kind, copy):
    study = new_study(photos, tmp_path / "deep" / "study", Wanted(kind, copy=copy))
    assert study.settings.kind == kind
    assert len(study.ids) == 6
    assert choose_sets(study, 0)
    again = open_study(tmp_path / "deep" / "study")
    assert again == study
    assert (tmp_path / "deep" / "study" / "images" / "after" / "1.png").exists() == copy


@pytest.mark.parametrize("choice", ["all", "random", "adaptive"])
def test_choices_of_pairs(photos, tmp_path, choice):
    study = new_study(photos, tmp_path / "study", Wanted(choice=choice, similar=True, question="Größer: 'a' or #b?"))
    assert study.settings.pairs.choice == choice
    assert study.settings.similar
    assert study.settings.question == "Größer: 'a' or #b?"
    assert len(choose_sets(study, 0)) == 15


def test_given_pairs_name_files_as_the_table_does(photos, tmp_path):
    table = tmp_path / "mifs.csv"
    table.write_text("person,with,without\n7,after/1,before/1\n8,after/2.PNG,before/2\n9,after/9,before/9\n")
    said = []
    study = new_study(photos, tmp_path / "study", Wanted(table=table), said.append)
    assert study.given == (("after/1.png", "before/1.png"), ("after/2.png", "before/2.png"))
    assert study.people == ("7", "8")
    assert set(study.ids) == {"after/1.png", "before/1.png", "after/2.png", "before/2.png"}
    assert any("left out: 1 row" in line for line in said)


def test_nothing_is_overwritten_or_left_behind(photos, tmp_path):
    out = tmp_path / "study"
    with pytest.raises(CallError, match="at least"):
        new_study(photos / "before", out, Wanted("best-of-four"))
    assert not out.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos"]
    new_study(photos, out, Wanted())
    with pytest.raises(CallError, match="exists already"):
        new_study(photos, out, Wanted())
    table = tmp_path / "odd.csv"
    table.write_text("x,y\n1,2\n")
    with pytest.raises(UolError, match="name them first and second"):
        new_study(photos, tmp_path / "other", Wanted(table=table))


def test_names_that_tables_cannot_hold_leave_no_folder(photos, tmp_path):
    (photos / "a.png").rename(photos / "a\nb.png")
    with pytest.raises(UolError):
        new_study(photos, tmp_path / "study", Wanted())
    assert not (tmp_path / "study").exists()
