"""Checks, statistics and folds on the real data sets: photographs that are in them twice are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from uol import datasets
from uol.datasets.checks import CheckReport, Contents, check, read_contents, split_folds
from uol.ratings.rated_images import RatedImages
from uol.ratings.stats import data_stats


def load(shared_data: Path, name: str) -> RatedImages:
    if not (shared_data / name).is_dir():
        pytest.skip(f"no {name} in {shared_data}")
    return datasets.load(name, shared_data / name)


@pytest.fixture(scope="module")
def scut(shared_data: Path) -> RatedImages:
    return load(shared_data, "scut-fbp5500")


@pytest.fixture(scope="module")
def scut_contents(scut: RatedImages) -> Contents:
    return read_contents(scut.images)


@pytest.fixture(scope="module")
def scut_report(scut: RatedImages, scut_contents: Contents) -> CheckReport:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("uol.datasets.checks.read_contents", lambda *_: scut_contents)  # decode and compare once
        return check(scut)


@pytest.fixture(scope="module")
def mebeauty_report(shared_data: Path) -> CheckReport:
    return check(load(shared_data, "mebeauty"))


def test_scut_has_photographs_twice(scut_report):
    assert not scut_report.harmful
    assert not scut_report.unreadable
    assert not scut_report.exact
    found = {frozenset((pair.first, pair.second)) for pair in scut_report.near}
    assert 38 <= len(found) <= 50
    seen = ["AM760 AM980", "CM73 CM420", "CM216 CM439", "AM1019 AM1146", "AF1155 AF1954", "AM868 AM1032", "CF253 CF363"]
    assert {frozenset(f"{name}.jpg" for name in pair.split()) for pair in seen} <= found
    assert not any(pair.mirrored for pair in scut_report.near)


def test_the_same_photograph_has_nearly_the_same_score(scut, scut_report):
    differences = [pair.score_difference for pair in scut_report.near]
    apart = np.abs(scut.scores[:2750] - scut.scores[2750:]).mean()
    assert np.mean(differences) < 0.1 < 0.5 < apart


def test_every_official_fold_tests_on_photographs_it_trains_on(scut_report):
    leaks = {split.split: len(split.leaks) for split in scut_report.splits}
    assert all(8 <= leaks[f"fold-{k}"] <= 20 for k in range(1, 6))
    assert leaks["60-40"] >= 18


def test_own_folds_keep_them_together(scut, scut_contents):
    groups = scut_contents.groups
    folds = split_folds(scut, 5, 0, groups)
    for split in folds.values():
        assert abs(len(split.test) - 1100) <= 2
        assert not set(groups[split.train]) & set(groups[split.test])
    means = [scut.scores[split.test].mean() for split in folds.values()]
    official = [scut.scores[scut.splits[f"fold-{k}"].test].mean() for k in range(1, 6)]
    assert np.ptp(means) < 0.005 < np.ptp(official)


def test_mebeauty_has_copies_on_both_sides_of_its_split(mebeauty_report):
    assert mebeauty_report.harmful
    assert len(mebeauty_report.exact) >= 35
    assert len(mebeauty_report.near) >= 20
    official = mebeauty_report.splits[0]
    assert official.split == "2022"
    assert official.exact >= 10
    assert len(official.leaks) >= 15


def test_mebeauty_statistics(shared_data):
    stats = data_stats(load(shared_data, "mebeauty"))
    assert stats["raters"] > 250
    assert stats["mean_rating_variance"] == pytest.approx(4.0, abs=0.6)
    assert 0.2 < stats["reliability"]["icc_2_1"] < stats["reliability"]["icc_2_k"] < 1
    assert {row["group"] for row in stats["by_group"]["ethnicity"]} >= {"asian", "black", "caucasian"}


def test_scut_statistics_from_counts(scut):
    stats = data_stats(scut)
    assert stats["raters"] == 60
    assert stats["mean_rating_variance"] == pytest.approx(0.421, abs=0.002)
    assert stats["reliability"]["icc_1_k"] > 0.97
