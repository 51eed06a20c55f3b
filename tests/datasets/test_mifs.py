from __future__ import annotations

import numpy as np
import pytest

from uol.datasets.mifs import load_mifs, pairs
from uol.errors import UolError


@pytest.fixture
def root(tmp_path):
    for folder, letter in (("before", "B"), ("after", "A")):
        (tmp_path / "MIFS" / folder).mkdir(parents=True)
        for person in ("002", "001", "010"):
            for take in (2, 1):
                (tmp_path / "MIFS" / folder / f"{person}_{letter}_{take}.jpg").touch()
    return tmp_path / "MIFS"


def named(images, indices):
    return [[images.names[i] for i in pair] for pair in indices]


def test_groups_tell_person_make_up_and_take(root):
    images = load_mifs(root)
    assert len(images) == 12
    assert not images.rated
    assert np.isnan(images.scores).all()
    assert not images.notes
    first = images.groups.iloc[0].to_dict()
    assert first == {"person": "001", "makeup": "with", "take": 1}
    assert images.names[0] == "001_A_1.jpg"
    assert images.images[0] == root / "after" / "001_A_1.jpg"


def test_one_pair_per_person_is_the_first_take(root):
    images = load_mifs(root)
    assert named(images, pairs(images)) == [[f"{p}_A_1.jpg", f"{p}_B_1.jpg"] for p in ("001", "002", "010")]
    every = named(images, pairs(images, all_takes=True))
    assert every[:4] == [[f"001_A_{i}.jpg", f"001_B_{j}.jpg"] for i in (1, 2) for j in (1, 2)]
    assert len(every) == 12


def test_pairs_of_a_subset_and_of_people_with_one_side(root):
    (root / "before" / "010_B_1.jpg").unlink()
    (root / "before" / "010_B_2.jpg").unlink()
    (root / "before" / "001_B_1.jpg").unlink()
    images = load_mifs(root)
    assert named(images, pairs(images)) == [["001_A_1.jpg", "001_B_2.jpg"], ["002_A_1.jpg", "002_B_1.jpg"]]
    few = images.subset(np.arange(len(images))[::-1])
    assert named(few, pairs(few)) == named(images, pairs(images))


def test_the_folder_above_will_do_and_odd_files_are_noted(root):
    (root / "before" / "readme.txt").touch()
    (root / "after" / "001_B_1.jpg").touch()
    images = load_mifs(root.parent)
    assert len(images) == 12
    assert images.notes == ("2 files have unexpected names and were skipped: after/001_B_1.jpg, before/readme.txt",)


def test_folders_without_photographs_are_refused(tmp_path):
    (tmp_path / "before").mkdir()
    (tmp_path / "after").mkdir()
    with pytest.raises(UolError, match="no photographs before/NNN_B_k"):
        load_mifs(tmp_path)
