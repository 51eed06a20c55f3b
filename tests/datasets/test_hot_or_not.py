from __future__ import annotations

import numpy as np
import pytest

from uol.datasets.hot_or_not import load_hot_or_not
from uol.errors import UolError
from uol.ratings.scale import Scale

FACES = {
    "female_18_P_face_0": -2.5,
    "female_18_Q_face_1": 0.1,
    "female_18_R_face_2": 1.0,
    "female_18_S_face_3": 2.25,
}


def write_split(root, number, sides, scores=FACES):
    rows = (f"{name}.bmp,{score},{side}\n" for (name, score), side in zip(scores.items(), sides, strict=True))
    (root / f"eccv2010_split{number}.csv").write_text("".join(rows))


@pytest.fixture
def root(tmp_path):
    base = tmp_path / "eccv2010_beauty_data"
    (base / "hotornot_face").mkdir(parents=True)
    for name in FACES:
        (base / "hotornot_face" / f"{name}.jpg").touch()
    for number in range(1, 6):
        write_split(base, number, ["train", "test", "train", "test"] if number < 5 else ["test"] * 3 + ["train"])
    return base


def test_faces_scores_and_splits(root):
    images = load_hot_or_not(root.parent)
    assert images.scale == Scale(-3, 3)
    assert images.names == [f"{name}.jpg" for name in FACES]
    assert images.scores.tolist() == list(FACES.values())
    assert images.images[0].is_file()
    assert list(images.splits) == [f"split-{k}" for k in range(1, 6)]
    assert images.splits["split-1"].train.tolist() == [0, 2]
    assert images.splits["split-5"].test.tolist() == [0, 1, 2]
    assert images.groups.to_dict("list") == {"gender": ["female"] * 4, "person": list("PQRS")}
    assert np.isnan(images.variances).all()
    assert not images.notes


def test_images_may_lie_beside_the_tables(root):
    for path in (root / "hotornot_face").iterdir():
        path.rename(root / path.name)
    (root / "hotornot_face").rmdir()
    assert len(load_hot_or_not(root)) == 4


def test_missing_images_are_noted_and_leave_the_splits(root):
    (root / "hotornot_face" / "female_18_P_face_0.jpg").unlink()
    images = load_hot_or_not(root)
    assert len(images) == 3
    assert images.splits["split-1"].train.tolist() == [1]
    assert images.notes == ("1 rated images are not in hotornot_face: female_18_P_face_0.bmp",)
    for path in (root / "hotornot_face").iterdir():
        path.rename(path.with_name("x" + path.name))
    with pytest.raises(UolError, match=r"none of the images in eccv2010_split1\.csv"):
        load_hot_or_not(root)


def test_contradictions_are_refused(root):
    write_split(root, 3, ["train"] * 4, {**FACES, "female_18_S_face_3": 2.0})
    with pytest.raises(UolError, match=r"split3\.csv, row 4: .* has score 2 here and 2\.25 elsewhere"):
        load_hot_or_not(root)
    write_split(root, 3, ["train", "test", "train", "both"])
    with pytest.raises(UolError, match=r"row 4: .* must occur once, with a score and train or test"):
        load_hot_or_not(root)
    (root / "eccv2010_split3.csv").write_text("name,score,set\n")
    with pytest.raises(UolError, match="row 1: expected file name, score, train or test"):
        load_hot_or_not(root)
