from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from uol.datasets.mebeauty import load_mebeauty
from uol.errors import UolError
from uol.ratings.scale import Scale

LONG = "a-photographer-with-a-long-name-unsplash"
FILES = [
    "female/asian/one.jpg",
    "female/asian/two.png",
    "male/black/twin.jpg",
    "female/black/twin.jpg",
    f"male/indian/{LONG[:32]}.jpg",
    "male/indian/Last%20One.jpg",
    "male/indian/nobody.jpg",
]
PREFIX = "/home/ubuntu/images/"
ROWS: list[tuple[object, ...]] = [
    # image, path, then three raters
    ("one.jpg", PREFIX + "female/asian/one.jpg", 1, 3, None),
    ("two.jpg", None, 4, None, 5.5),
    ("twin.jpg", PREFIX + "male/black/twin.jpg", 10, 9, 8),
    (f"{LONG}.jpg", PREFIX + f"male/indian/{LONG}.jpg", 6, None, None),
    ("last one.jpg", None, 7, 8, None),
    ("one.jpg", PREFIX + "female/asian/one.jpg", 2, 3, None),
    ("gone.jpg", None, 2, 2, 2),
]


def write_scores(root, rows=ROWS):
    table = pd.DataFrame(rows, columns=["image", "path", "r1", "r2", "r3"])
    table.insert(0, "mean", 5.0)
    table.to_excel(root / "scores" / "generic_scores_all_2022.xlsx", index=False)


@pytest.fixture
def root(tmp_path):
    for name in FILES:
        file = tmp_path / "original_images" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (tmp_path / "scores").mkdir()
    write_scores(tmp_path)
    crop = "./cropped_images/images_crop_align_mtcnn/"
    sides = {
        "train": [f"{crop}female/asian/one.jpg 2.0", f"{crop}male/black/twin.jpg 9", f"{crop}x/gone.jpg 2"],
        "test": [f"{crop}male/indian/{LONG}.jpg 6"],
        "val": [f'"{crop}male/indian/last one.jpg" 7.5', f"{crop}female/asian/one.jpg 2.1"],
    }
    for side, lines in sides.items():
        (tmp_path / "scores" / f"{side}_2022.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_rows_meet_their_files(root):
    images = load_mebeauty(root)
    assert set(images.names) == {*FILES[:3], FILES[4], FILES[5]}
    score = dict(zip(images.names, images.scores, strict=True))
    assert score["female/asian/one.jpg"] == 2  # the first of two rows
    assert score["female/asian/two.png"] == 4.75
    assert score["male/black/twin.jpg"] == 9  # not its namesake in female/black
    assert score["male/indian/Last%20One.jpg"] == 7.5
    assert score[FILES[4]] == 6
    assert images.scale == Scale(1, 10)
    assert images.groups.iloc[images.names.index("male/black/twin.jpg")].to_dict() == {
        "gender": "male",
        "ethnicity": "black",
    }


def test_ratings_variances_and_histograms(root):
    images = load_mebeauty(root)
    assert images.ratings is not None
    assert images.ratings.raters == ("r1", "r2", "r3")
    row = images.names.index("male/black/twin.jpg")
    assert images.variances[row] == 1
    assert images.counts[row] == 3
    assert np.isnan(images.variances[images.names.index(FILES[4])])  # one rating
    np.testing.assert_allclose(images.histograms @ images.levels / images.counts, images.scores)


def test_splits_of_2022(root):
    images = load_mebeauty(root)
    names = np.array(images.names)
    official, validation = images.splits["2022"], images.splits["2022-validation"]
    assert set(names[official.train]) == {"female/asian/one.jpg", "male/black/twin.jpg"}
    assert names[official.test].tolist() == [FILES[4]]
    assert names[validation.test].tolist() == ["male/indian/Last%20One.jpg"]
    assert np.array_equal(official.train, validation.train)


def test_notes_report_everything_that_does_not_fit(root):
    assert load_mebeauty(root).notes == (
        "1 rows repeat an image; the first counts: one.jpg",
        f"1 images are named by the beginning of the name in the table: {LONG[:32]}.jpg",
        "1 rows have no image file: gone.jpg",
        "2 image files have no row: female/black/twin.jpg, male/indian/nobody.jpg",
        "1 lines of the split files name no rated image: gone",
        "1 lines of the split files repeat an image: one",
    )


def test_ratings_off_the_scale_are_dropped_and_noted(root):
    write_scores(
        root, [*ROWS[:2], ("twin.jpg", PREFIX + "male/black/twin.jpg", 0, 77, 8), ("nobody.jpg", None, 11, None, None)]
    )
    images = load_mebeauty(root)
    assert images.scores[images.names.index("male/black/twin.jpg")] == 8
    assert "male/indian/nobody.jpg" not in images.names
    assert "3 ratings are not within 1 to 10 and were dropped, such as 0" in images.notes
    assert "1 images have no rating and were left out" in images.notes


def test_other_folders_of_images_and_missing_splits(root):
    (root / "scores" / "val_2022.txt").unlink()
    crops = root / "cropped_images" / "mtcnn"
    crops.parent.mkdir()
    (root / "original_images").rename(crops)
    images = load_mebeauty(root, images="cropped_images/mtcnn")
    assert len(images) == 5
    assert images.splits == {}
    assert "no splits: scores/val_2022.txt is missing" in images.notes


def test_a_table_about_other_images_is_refused(root):
    write_scores(root, [("x.jpg", None, 1, 2, 3)])
    with pytest.raises(UolError, match=r"none of the images in scores/generic_scores_all_2022\.xlsx"):
        load_mebeauty(root)
