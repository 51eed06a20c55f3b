"""The loaders on the real downloads, against what their authors published."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from uol import datasets
from uol.datasets import mifs, scut_fbp5500
from uol.datasets.checks import read_contents
from uol.ratings.rated_images import RatedImages
from uol.ratings.reliability import split_half, split_half_from_counts


def folder(shared_data: Path, name: str) -> Path:
    found = shared_data / name
    if not found.is_dir():
        pytest.skip(f"no {name} in {shared_data}")
    return found


@pytest.fixture(scope="module")
def scut(shared_data: Path) -> RatedImages:
    return datasets.load("scut-fbp5500", folder(shared_data, "scut-fbp5500"))


@pytest.fixture(scope="module")
def mebeauty(shared_data: Path) -> RatedImages:
    return datasets.load("mebeauty", folder(shared_data, "mebeauty"))


def test_scut_has_5500_faces_in_four_groups(scut):
    assert len(scut) == datasets.info("scut-fbp5500").images == 5500
    assert not scut.notes
    sizes = scut.groups.value_counts().to_dict()
    assert sizes == {
        ("female", "asian"): 2000,
        ("male", "asian"): 2000,
        ("female", "caucasian"): 750,
        ("male", "caucasian"): 750,
    }
    assert all(Path(image).is_file() for image in scut.images[::500])


def test_scut_folds_are_disjoint_and_cover_all(scut):
    folds = [scut.splits[f"fold-{k}"] for k in range(1, 6)]
    assert {(len(fold.train), len(fold.test)) for fold in folds} == {(4400, 1100)}
    assert np.array_equal(np.sort(np.concatenate([fold.test for fold in folds])), np.arange(5500))
    for fold in folds:
        assert np.intersect1d(fold.train, fold.test).size == 0
    assert (len(scut.splits["60-40"].train), len(scut.splits["60-40"].test)) == (3300, 2200)


def test_scut_counts_give_the_official_scores_and_variance(scut):
    assert scut.histograms is not None
    assert scut.levels is not None
    means = scut.histograms @ scut.levels / scut.histograms.sum(axis=1)
    np.testing.assert_allclose(means, scut.scores, atol=1e-5)
    assert set(scut.counts) == {60}
    assert scut.variances.mean() == pytest.approx(0.421, abs=0.002)


def test_scut_ratings_by_rater_agree_with_the_scores(scut, shared_data):
    file = folder(shared_data, "scut-fbp5500") / "CM_Ratings.xlsx"
    if not file.is_file():
        pytest.skip("no CM_Ratings.xlsx")
    ratings = scut_fbp5500.load_ratings(file)
    assert ratings.matrix.shape == (750, 60)
    row = {name: i for i, name in enumerate(scut.names)}
    same = [row[name] for name in ratings.images]
    np.testing.assert_allclose(ratings.mean, scut.scores[same], atol=1e-5)
    np.testing.assert_allclose(ratings.variance, scut.variances[same], atol=1e-9)
    assert split_half(ratings.matrix, draws=20, seed=0).correlation == pytest.approx(0.974, abs=0.01)


def test_scut_landmarks_lie_in_the_frame(scut, shared_data):
    root = folder(shared_data, "scut-fbp5500")
    points = scut_fbp5500.landmarks(root, [*scut.names[::100], "CM152.jpg"])
    assert points.shape == (56, 86, 2)
    assert np.isnan(points[-1]).all()  # the one empty file of the download
    assert 0 <= points[:-1].min() < points[:-1].max() <= 1


def test_mebeauty_scores_variances_and_splits(mebeauty):
    assert len(mebeauty) >= 2530
    assert len(set(mebeauty.names)) == len(mebeauty)
    assert np.isfinite(mebeauty.scores).all()
    assert np.isfinite(mebeauty.variances).all()
    assert mebeauty.scores.min() >= 1
    assert mebeauty.scores.max() <= 10
    assert mebeauty.groups.nunique().to_dict() == {"gender": 2, "ethnicity": 6}
    official, validation = mebeauty.splits["2022"], mebeauty.splits["2022-validation"]
    assert [len(official.train), len(official.test), len(validation.test)] == pytest.approx([1787, 536, 230], rel=0.02)
    parts = np.concatenate([official.train, official.test, validation.test])
    assert len(np.unique(parts)) == len(parts)


def test_mebeauty_scores_are_those_of_the_split_files(mebeauty, shared_data):
    lines = (folder(shared_data, "mebeauty") / "scores" / "test_2022.txt").read_text(encoding="utf-8").splitlines()
    published = {Path(name).stem: float(score) for name, _, score in (line.rpartition(" ") for line in lines)}
    here = {Path(name).stem: score for name, score in zip(mebeauty.names, mebeauty.scores, strict=True)}
    shared = sorted(set(published) & set(here))
    assert len(shared) > 500
    pairs = np.array([(published[name], here[name]) for name in shared])
    assert np.corrcoef(pairs.T)[0, 1] > 0.9999


def test_mebeauty_notes_say_what_did_not_fit(mebeauty):
    text = "\n".join(mebeauty.notes)
    for part in ("no image file", "no row", "repeat an image", "beginning of the name"):
        assert part in text


def test_mifs_has_107_people_with_and_without_make_up(shared_data):
    images = datasets.load("mifs", folder(shared_data, "mifs"))
    assert not images.rated
    pairs = mifs.pairs(images)
    assert pairs.shape == (107, 2)
    assert mifs.pairs(images, all_takes=True).shape == (428, 2)
    assert set(images.groups["makeup"].to_numpy()[pairs[:, 0]]) == {"with"}
    assert set(images.groups["makeup"].to_numpy()[pairs[:, 1]]) == {"without"}


def test_feret_grey_derivative_has_1204_frontal_faces(shared_data):
    images = datasets.load("color-feret", folder(shared_data, "feret-gray"))
    assert len(images) == 1204
    assert not images.rated
    assert set(images.groups["pose"]) == {"fa"}
    one_each = datasets.load("color-feret", folder(shared_data, "feret-gray"), one_per_person=True)
    assert len(one_each) == images.groups["person"].nunique()


@pytest.fixture(scope="module")
def omi(shared_data: Path) -> RatedImages:
    return datasets.load("omi", folder(shared_data, "omi"))


def test_omi_has_the_faces_of_perceived_adults(omi):
    assert len(omi) == 854
    assert omi.groups["gender"].value_counts().to_dict() == {"female": 430, "male": 424}
    assert omi.groups["ethnicity"].value_counts().to_dict()["white"] == 540
    assert omi.counts.mean() == pytest.approx(31, abs=0.5)
    assert np.isfinite(omi.variances).all()
    assert [len(split.test) for split in omi.splits.values()] == pytest.approx([171] * 5, abs=1)
    halves = split_half_from_counts(omi.histograms, omi.levels, draws=20)
    assert halves.correlation == pytest.approx(0.852, abs=0.01)


def test_omi_means_are_those_of_all_trials(omi, shared_data):
    """The published means also count repeated and filled-in trials, which are not read."""
    base = folder(shared_data, "omi")
    table = pd.read_csv(base / "attribute_ratings.zip")
    published = pd.read_csv(base / "attribute_means.csv").set_index("stimulus")["attractive"]
    every = table[table["attribute"] == "attractive"].groupby("stimulus")["rating"].mean()
    np.testing.assert_allclose(every[published.index], published, atol=1e-6)
    own = published[[int(Path(name).stem) for name in omi.names]].to_numpy()
    assert np.abs(omi.scores - own).mean() < 1.5
    assert np.corrcoef(omi.scores, own)[0, 1] > 0.99


def test_omi_has_no_near_duplicates(omi):
    assert len(np.unique(read_contents(omi.images).groups)) == len(omi)
