from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from uol.datasets.scut_fbp5500 import groups, landmarks, load_ratings, load_scut_fbp5500, read_landmarks
from uol.errors import CallError, UolError

NAMES = ["AF1.jpg", "AF2.jpg", "AF10.jpg", "AM1.jpg", "CF1.jpg", "CM1.jpg", "CM2.jpg", "CM3.jpg", "CM4.jpg", "CM5.jpg"]
RATINGS = np.random.default_rng(0).integers(1, 6, (10, 4))
SCORES = dict(zip(NAMES, RATINGS.mean(axis=1), strict=True))


def write_side(file, names):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{name} {SCORES[name]:.6f}\n" for name in names))


def write_ratings(file, ratings=RATINGS):
    rows = [(rater + 1, name, ratings[i, rater], None) for rater in range(4) for i, name in enumerate(NAMES)]
    pd.DataFrame(rows, columns=["Rater", "Filename", "Rating", "original Rating"]).to_excel(file, index=False)


def write_counts(file):
    counts = [[int((row == level).sum()) for level in range(1, 6)] for row in RATINGS]
    pd.DataFrame(counts, index=pd.Index(NAMES, name="filename"), columns=list("12345")).to_csv(file)


@pytest.fixture
def root(tmp_path):
    """A miniature of the official folder: ten faces, four raters."""
    base = tmp_path / "SCUT-FBP5500_v2"
    (base / "Images").mkdir(parents=True)
    for name in NAMES:
        (base / "Images" / name).touch()
    files = base / "train_test_files"
    for k in range(5):
        test = NAMES[2 * k : 2 * k + 2]
        folder = files / "5_folders_cross_validations_files" / f"cross_validation_{k + 1}"
        write_side(folder / f"train_{k + 1}.txt", [name for name in NAMES[::-1] if name not in test])
        write_side(folder / f"test_{k + 1}.txt", test)
    write_side(files / "split_of_60%training and 40%testing" / "train.txt", NAMES[:6])
    write_side(files / "split_of_60%training and 40%testing" / "test.txt", NAMES[6:])
    return base


def test_scores_splits_and_groups_without_ratings(root):
    images = load_scut_fbp5500(root.parent)
    assert images.names == NAMES
    np.testing.assert_allclose(images.scores, RATINGS.mean(axis=1), atol=1e-6)
    assert images.images[0] == root / "Images" / "AF1.jpg"
    assert list(images.splits) == ["fold-1", "fold-2", "fold-3", "fold-4", "fold-5", "60-40"]
    assert images.splits["fold-2"].test.tolist() == [2, 3]
    assert sorted(images.splits["fold-2"].train) == [0, 1, 4, 5, 6, 7, 8, 9]
    assert images.groups.iloc[4].to_dict() == {"gender": "female", "ethnicity": "caucasian"}
    assert np.isnan(images.variances).all()
    assert images.histograms is None
    assert "variance of the ratings is not known" in images.notes[0]


def test_ratings_and_counts_give_the_same_but_for_the_raters(root):
    write_counts(root / "rating_counts.csv")
    counted = load_scut_fbp5500(root)
    assert counted.ratings is None
    np.testing.assert_allclose(counted.variances, RATINGS.var(axis=1, ddof=1))
    assert counted.counts.tolist() == [4] * 10
    write_ratings(root / "All_Ratings.xlsx")
    rated = load_scut_fbp5500(root)
    assert rated.ratings is not None
    assert list(rated.ratings.images) == NAMES
    np.testing.assert_array_equal(rated.ratings.matrix, RATINGS)
    np.testing.assert_array_equal(rated.histograms, counted.histograms)
    np.testing.assert_allclose(rated.variances, counted.variances)
    assert load_scut_fbp5500(root, with_ratings=False).ratings is None
    pd.read_excel(root / "All_Ratings.xlsx").to_csv(root / "All_Ratings.csv", index=False)
    (root / "All_Ratings.xlsx").write_text("not looked at")
    again = load_scut_fbp5500(root)
    assert again.ratings is not None
    np.testing.assert_array_equal(again.ratings.matrix, RATINGS)


def test_ratings_of_another_release_are_refused(root):
    wrong = RATINGS.copy()
    wrong[6, 0] = 1 + wrong[6, 0] % 5
    write_ratings(root / "All_Ratings.xlsx", wrong)
    with pytest.raises(UolError, match=r"ratings of CM2\.jpg have mean .* official score"):
        load_scut_fbp5500(root)
    wrong[6, 0] = 7
    write_ratings(root / "All_Ratings.xlsx", wrong)
    with pytest.raises(UolError, match="row 8: rating 7 is not within 1 to 5"):
        load_scut_fbp5500(root)


def test_ratings_of_a_group(root):
    write_ratings(root / "CM_Ratings.xlsx")
    ratings = load_ratings(root / "CM_Ratings.xlsx")
    assert ratings.raters == ("1", "2", "3", "4")
    np.testing.assert_allclose(ratings.mean, list(SCORES.values()))
    pd.DataFrame({"Rater": [1]}).to_excel(root / "x.xlsx", index=False)
    with pytest.raises(CallError, match="no column 'Filename'"):
        load_ratings(root / "x.xlsx")


def test_missing_files_are_named(root):
    (root / "Images" / "AF2.jpg").unlink()
    images = load_scut_fbp5500(root)
    assert len(images) == 9
    assert images.notes[0] == "1 rated images are not in Images: AF2.jpg"
    assert images.splits["fold-1"].test.tolist() == [0]
    write_counts(root / "rating_counts.csv")
    lines = (root / "rating_counts.csv").read_text().splitlines()
    (root / "rating_counts.csv").write_text("\n".join(lines[:-1]))
    with pytest.raises(UolError, match=r"once \(missing: CM5\.jpg\)"):
        load_scut_fbp5500(root)
    next(root.glob("train_test_files/*/*/test_3.txt")).unlink()
    with pytest.raises(UolError, match=r"test_3\.txt: missing from the SCUT-FBP5500 download"):
        load_scut_fbp5500(root)


def test_a_score_that_changes_between_files_is_refused(root):
    file = next(root.glob("train_test_files/*/*/test_3.txt"))
    for line in ("CF1.jpg 9.5", "CF1.jpg high", "CF1.jpg"):
        file.write_text(line)
        with pytest.raises(UolError, match=r"test_3\.txt, line 1: expected an image and its one score"):
            load_scut_fbp5500(root)


def test_names_of_both_releases_tell_the_groups():
    old, new = (
        groups(["fty1.jpg", "mty2.jpg", "ftw3.jpg", "mtw4.jpg"]),
        groups(["AF1.jpg", "AM2.jpg", "CF3.jpg", "CM4.jpg"]),
    )
    pd.testing.assert_frame_equal(old, new)
    assert new["gender"].tolist() == ["female", "male", "female", "male"]
    with pytest.raises(UolError, match=r"XF1\.jpg: not an image name"):
        groups(["XF1.jpg"])


def test_landmarks_are_fractions_of_the_frame(root):
    folder = root / "facial landmark"
    folder.mkdir()
    points = np.random.default_rng(1).uniform(0, 350, (86, 2)).astype("<f4")
    header = np.array([86], "<i4").tobytes()
    (folder / "AF1.pts").write_bytes(header + points.tobytes())
    (folder / "CM1.pts").write_bytes(bytes(4))
    found = landmarks(root.parent, ["CM1.jpg", "AF1.jpg"])
    assert found.shape == (2, 86, 2)
    assert np.isnan(found[0]).all()
    np.testing.assert_allclose(found[1], points / 350, rtol=1e-6)
    (folder / "AF2.pts").write_bytes(header + points.tobytes()[:-8])
    with pytest.raises(UolError, match=r"AF2\.pts: not a file of 86 landmarks"):
        read_landmarks(folder / "AF2.pts")
    with pytest.raises(UolError, match=r"AF9\.pts: cannot read the landmarks"):
        landmarks(root, ["AF9.jpg"])
