"""What would harm a training is found and named, and folds keep photographs together."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from examples import examples
from uol.datasets.checks import check, read_contents, split_folds
from uol.datasets.synthetic import load_synthetic
from uol.errors import CallError
from uol.ratings.rated_images import RatedImages, Split
from uol.ratings.scale import Scale

COUNT = 12


@pytest.fixture(scope="module")
def faces():
    return [Image.fromarray(np.asarray(face)) for face in load_synthetic(COUNT, 1, size=128).images]


@pytest.fixture
def rated(faces, tmp_path):
    """Twelve photographs in a folder, the first six to train on."""
    paths = [tmp_path / f"{k}.png" for k in range(COUNT)]
    for face, path in zip(faces, paths, strict=True):
        face.save(path)
    split = Split(np.arange(6), np.arange(6, COUNT))
    names = [path.name for path in paths]
    return RatedImages("own", paths, names, np.linspace(1, 5, COUNT), Scale(1, 5), splits={"official": split})


def crop(face):
    return face.resize((140, 140), box=(6, 7, 122, 123))


def test_nothing_is_found_where_all_is_well(rated):
    report = check(rated)
    assert not report.harmful
    assert report.problems == []
    assert not report.unreadable
    assert not report.exact
    assert not report.near
    (split,) = report.splits
    assert (split.split, split.train, split.test, split.exact, split.leaks, split.shared) == (
        ("official", 6, 6, 0, [], [])
    )


def test_copies_across_a_split_do_harm(rated):
    shutil.copy(rated.images[2], rated.images[9])
    shutil.copy(rated.images[7], rated.images[8])  # both test: a copy, but no leak
    report = check(rated)
    assert report.exact == [["2.png", "9.png"], ["7.png", "8.png"]]
    assert not report.near
    (leak,) = report.splits[0].leaks
    assert (leak.test, leak.train, leak.exact, leak.distance) == ("9.png", "2.png", True, 0)
    assert report.harmful
    assert report.problems == ["split official: 1 test images are copies of training images: 9.png = 2.png"]


def test_near_duplicates_are_named_but_do_not_stop(rated, faces):
    crop(faces[1]).save(rated.images[10])
    ImageOps.mirror(faces[7]).save(rated.images[8])
    report = check(rated)
    assert not report.harmful
    assert {(pair.first, pair.second, pair.mirrored) for pair in report.near} == {
        ("1.png", "10.png", False),
        ("7.png", "8.png", True),
    }
    differences = {pair.first: pair.score_difference for pair in report.near}
    assert differences["1.png"] == pytest.approx(rated.scores[10] - rated.scores[1])
    (leak,) = report.splits[0].leaks
    assert (leak.test, leak.train, leak.exact, leak.mirrored) == ("10.png", "1.png", False, False)
    assert leak.distance == next(pair.distance for pair in report.near if pair.first == "1.png")


def test_a_copy_counts_before_a_near_duplicate(rated, faces):
    crop(faces[3]).save(rated.images[0])
    shutil.copy(rated.images[0], rated.images[11])
    (leak,) = check(rated).splits[0].leaks
    assert (leak.test, leak.train, leak.exact) == ("11.png", "0.png", True)


def test_unreadable_files_are_named_and_the_rest_is_checked(rated):
    rated.images[4].write_bytes(b"no picture")
    rated.images[5].unlink()
    rated.images[6].write_bytes(rated.images[6].read_bytes()[:500])
    shutil.copy(rated.images[0], rated.images[11])
    calls = []
    report = check(rated, progress=lambda done, total: calls.append((done, total)))
    assert [entry.image for entry in report.unreadable] == ["4.png", "5.png", "6.png"]
    assert "no such image file" in report.unreadable[1].reason
    assert report.problems[0] == "3 of 12 images cannot be read: 4.png, 5.png, 6.png"
    assert len(report.splits[0].leaks) == 1
    assert calls[COUNT - 1] == (COUNT // 2, COUNT)
    assert calls[-1] == (COUNT, COUNT)
    assert calls == sorted(calls)


def test_nothing_readable_at_all(rated):
    for path in rated.images:
        path.write_bytes(b"")
    report = check(rated)
    assert len(report.unreadable) == COUNT
    assert report.harmful
    assert len(set(read_contents(rated.images).groups)) == COUNT


def test_scores_and_splits_that_teach_nothing(rated):
    same = replace(rated, scores=np.full(COUNT, 3.5))
    assert check(same).problems == ["all images have the same score, 3.5: there is no order to learn"]
    unrated = replace(rated, scores=np.full(COUNT, np.nan))
    assert "nobody rated these images" in check(unrated).problems[0]
    overlap = replace(rated, splits={"odd": Split(np.array([0, 1, 2]), np.array([2, 3]))})
    report = check(overlap)
    assert report.splits[0].shared == ["2.png"]
    assert report.problems == ["split odd: 1 image in both train and test: 2.png"]
    assert not report.splits[0].leaks


def test_arrays_are_checked_by_their_pixels(faces):
    pixels = np.stack([np.asarray(face) for face in (*faces, faces[5])])
    rated = RatedImages("drawn", pixels, [f"face {k}" for k in range(13)], np.arange(13.0), Scale(0, 12))
    assert check(rated).exact == [["face 5", "face 12"]]


def test_the_report_is_json(rated, faces):
    crop(faces[1]).save(rated.images[10])
    shutil.copy(rated.images[2], rated.images[9])
    rated.images[0].write_bytes(b"")
    found = json.loads(json.dumps(check(rated).as_json()))
    assert found["harmful"] is True
    assert (found["name"], found["images"]) == ("own", COUNT)
    assert found["unreadable"][0]["image"] == "0.png"
    assert found["exact_duplicates"] == [["2.png", "9.png"]]
    assert found["near_duplicates"][0]["second"] == "10.png"
    (split,) = found["splits"]
    assert (split["exact"], split["near"]) == (1, 1)
    assert {leak["test"] for leak in split["leaks"]} == {"9.png", "10.png"}


def test_groups_join_copies_and_near_duplicates(rated, faces):
    crop(faces[1]).save(rated.images[10])
    shutil.copy(rated.images[10], rated.images[4])
    rated.images[0].write_bytes(b"")
    groups = read_contents(rated.images).groups
    assert groups[1] == groups[10] == groups[4]
    assert len(set(groups)) == COUNT - 2


def plain(scores):
    n = len(scores)
    return RatedImages("plain", np.zeros((n, 1, 1, 3), np.uint8), [str(k) for k in range(n)], scores, Scale(0, 1))


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(10, 200), st.integers(2, 5), st.integers(0, 100), st.sampled_from([0.0, 0.1, 0.5]))
def test_folds_divide_evenly_and_keep_groups(n, folds, seed, grouped):
    rng = np.random.default_rng(seed)
    scores = np.round(rng.beta(2, 3, n), 2)
    groups = np.where(rng.random(n) < grouped, rng.integers(0, max(n // 4, 1), n), n + np.arange(n))
    if len(set(groups)) < folds or np.unique(scores).size < 2:
        return
    made = split_folds(plain(scores), folds, seed, groups)
    assert list(made) == [f"fold-{k + 1}" for k in range(folds)]
    tests = [split.test for split in made.values()]
    assert np.array_equal(np.sort(np.concatenate(tests)), np.arange(n))
    for split in made.values():
        assert np.array_equal(np.sort(np.concatenate([split.train, split.test])), np.arange(n))
        assert not set(groups[split.train]) & set(groups[split.test])
    largest = np.unique(groups, return_counts=True)[1].max()
    sizes = [len(test) for test in tests]
    assert max(sizes) - min(sizes) <= largest
    if largest == 1:
        assert max(sizes) - min(sizes) <= 1


def test_folds_have_like_scores():
    scores = np.random.default_rng(3).beta(2, 4, 1000)
    groups = np.arange(1000)
    groups[500:560] = np.repeat(np.arange(20), 3)
    made = split_folds(plain(scores), 5, 0, groups)
    means = [scores[split.test].mean() for split in made.values()]
    spreads = [scores[split.test].std() for split in made.values()]
    random = [scores[part].mean() for part in np.array_split(np.random.default_rng(0).permutation(1000), 5)]
    assert np.ptp(means) < 0.2 * np.ptp(random)
    assert np.ptp(spreads) < 0.01


def test_folds_depend_on_the_seed_alone():
    scores = np.random.default_rng(0).random(60)
    made = [split_folds(plain(scores), 3, seed, np.arange(60))["fold-1"].test for seed in (0, 0, 1)]
    assert np.array_equal(made[0], made[1])
    assert not np.array_equal(made[0], made[2])


def test_folds_keep_near_duplicates_together_and_need_no_scores(rated, faces):
    crop(faces[1]).save(rated.images[10])
    shutil.copy(rated.images[2], rated.images[9])
    for split in split_folds(replace(rated, scores=np.full(COUNT, np.nan)), 6, 0).values():
        assert (1 in split.test) == (10 in split.test)
        assert (2 in split.test) == (9 in split.test)
        assert len(split.test) == 2


def test_wrong_folds(rated):
    with pytest.raises(CallError, match="from 2 to 3 folds can be made of its images; got 4"):
        split_folds(rated, 4, 0, np.arange(COUNT) % 3)
    with pytest.raises(CallError, match="got 1"):
        split_folds(rated, 1, 0, np.arange(COUNT))
    with pytest.raises(CallError, match="one number per image"):
        split_folds(rated, 2, 0, [1, 2])
