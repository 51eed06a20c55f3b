from __future__ import annotations

import pytest

from uol import datasets
from uol.datasets.dataset_info import DatasetInfo, examples
from uol.errors import CallError
from uol.ratings.scale import Scale

REAL = ["scut-fbp5500", "mebeauty", "hot-or-not", "color-feret", "mifs", "omi"]


@pytest.mark.parametrize("name", [*REAL, "own", "votes", "synthetic"])
def test_every_data_set_is_described(name):
    info = datasets.info(name)
    assert info.name == name
    assert info.title
    assert info.terms
    assert info.expects
    assert "\n" not in info.terms + info.expects


def test_names_include_the_generated_and_the_users_own():
    assert datasets.names() == [*REAL, "own", "votes", "synthetic"]


def test_unknown_name_lists_all_and_suggests_the_nearest():
    with pytest.raises(CallError, match=r"did you mean scut-fbp5500\?.*mebeauty.*synthetic"):
        datasets.info("SCUT_FBP_5500")
    with pytest.raises(CallError, match="unknown data set 'xyz': there are scut-fbp5500"):
        datasets.load("xyz")


@pytest.mark.parametrize("name", REAL)
def test_a_wrong_folder_is_refused_in_one_line(name, tmp_path):
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(CallError) as caught:
        datasets.load(name, tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert datasets.info(name).title in message
    assert "missing: " in message
    with pytest.raises(CallError, match="no such folder"):
        datasets.load(name, tmp_path / "absent")


def test_missing_folder_and_misspelt_option(tmp_path):
    with pytest.raises(CallError, match="mifs needs a folder: a folder with before"):
        datasets.load("mifs")
    with pytest.raises(CallError, match="data set mifs has no setting 'tkae'"):
        datasets.load("mifs", tmp_path, tkae=1)


def test_the_synthetic_data_set_needs_no_folder(tmp_path):
    assert len(datasets.load("synthetic", n=6, test=2, size=32)) == 6
    with pytest.raises(CallError, match="leave out the folder"):
        datasets.load("synthetic", tmp_path)


def test_folder_is_the_root_or_its_only_fitting_child(tmp_path):
    info = DatasetInfo("toy", "Toy", 1, Scale(1, 5), "free", "a folder with a.txt", lambda root: None)
    for child in ("v1", "other"):
        (tmp_path / child).mkdir()
    (tmp_path / "v1" / "a.txt").touch()
    assert info.folder(tmp_path, "a.txt") == tmp_path / "v1"
    (tmp_path / "other" / "a.txt").touch()
    with pytest.raises(CallError, match="several copies of Toy in it"):
        info.folder(tmp_path, "*.txt")
    (tmp_path / "a.txt").touch()
    assert info.folder(tmp_path, "a.txt") == tmp_path


def test_examples_are_cut_short():
    assert examples(["a", "b"]) == "a, b"
    assert examples(["a", "b", "c", "d"]) == "a, b, c, …"
