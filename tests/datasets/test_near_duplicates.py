"""The same photograph is known again though cropped, recoloured or mirrored; others are not taken for it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps

from examples import examples
from uol.datasets import near_duplicates as perceptual_hash
from uol.datasets.near_duplicates import (
    BITS,
    FRAMES,
    SAME,
    SIDE,
    WINDOW,
    Hashes,
    find_frames,
    grey_square,
    hamming,
    local_detail,
    mean_pattern,
    near_pairs,
    perceptual_hashes,
)
from uol.datasets.synthetic import load_synthetic
from uol.ratings.numerics import connected_sets

COUNT = 60


@pytest.fixture(scope="module")
def photographs():
    """Drawn faces, which are as alike as portraits are, with some grain."""
    rng = np.random.default_rng(0)
    grain = rng.normal(0, 5, (COUNT, 160, 160, 1))
    drawn = np.stack(list(load_synthetic(COUNT, 1, size=160).images))
    return [Image.fromarray(pixels) for pixels in (drawn + grain).clip(0, 255).astype(np.uint8)]


def crop(picture, left, top, share):
    width, height = picture.size
    side = share * width
    return picture.resize((140, 140), box=(left * width, top * height, left * width + side, top * height + side))


CHANGES = {
    "saved smaller": lambda p: p.resize((90, 90), Image.Resampling.LANCZOS),
    "cropped on the left": lambda p: crop(p, 0.08, 0.04, 0.9),
    "cropped all round": lambda p: crop(p, 0.07, 0.08, 0.85),
    "darker and flatter": lambda p: ImageEnhance.Contrast(ImageEnhance.Brightness(p).enhance(0.7)).enhance(0.6),
    "without colour": lambda p: p.convert("L").convert("RGB"),
    "of another shape": lambda p: ImageOps.expand(p, (0, 30), (90, 120, 200)),
    "mirrored": ImageOps.mirror,
    "mirrored and cropped": lambda p: ImageOps.mirror(crop(p, 0.05, 0.06, 0.9)),
}


CHOSEN = {change: (3 + k, 17 + k, 30 + k) for k, change in enumerate(CHANGES)}  # photographs, each changed once


def greys_of(pictures):
    return np.stack([grey_square(picture) for picture in pictures])


@pytest.fixture(scope="module")
def found(photographs):
    """The pairs found among all photographs and changed copies, three of each change: (original, copy, mirrored)."""
    copies = [CHANGES[change](photographs[i]) for change, chosen in CHOSEN.items() for i in chosen]
    pairs = near_pairs(perceptual_hashes(greys_of(photographs + copies)))
    return sorted(zip(pairs.first.tolist(), pairs.second.tolist(), pairs.mirrored.tolist(), strict=True))


def expected(change):
    first = COUNT + 3 * list(CHANGES).index(change)
    return [(i, first + k, change.startswith("mirrored")) for k, i in enumerate(CHOSEN[change])]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_copy_is_found(found, change):
    assert [pair for pair in found if pair in expected(change)] == expected(change)


def test_nothing_else_is_found(found):
    assert found == sorted(pair for change in CHANGES for pair in expected(change))


def test_different_pictures_are_far_apart(photographs):
    hashed = perceptual_hashes(greys_of(photographs))
    assert len(near_pairs(hashed).first) == 0
    assert hashed.plain.shape == hashed.mirrored.shape == (COUNT, FRAMES + 1, BITS // 64)
    assert hashed.plain.dtype == np.uint64
    apart = hamming(hashed.plain[:, 0], hashed.plain[:, 0])[np.triu_indices(COUNT, 1)]
    assert apart.min() > 2 * SAME
    assert apart.mean() == pytest.approx(BITS / 2, rel=0.1)


def test_mirroring_swaps_the_two_hashes(photographs):
    greys = greys_of(photographs[:20])
    both = perceptual_hashes(np.concatenate([greys, greys[:, :, ::-1]]))
    for k in (0, FRAMES):
        np.testing.assert_array_less(np.diag(hamming(both.plain[:20, k], both.mirrored[20:, k])), 4)  # but for rounding


def test_a_frame_follows_the_picture(photographs):
    """Cropping and scaling move the window as they move the photograph."""
    shift, share = 0.06, 0.88
    cropped = [crop(p, shift, shift, share) for p in photographs]
    details = [local_detail(greys_of(pictures)) for pictures in (photographs, cropped)]
    pattern = mean_pattern(details[0])
    assert pattern.shape == (WINDOW, WINDOW)
    np.testing.assert_allclose(pattern, pattern[:, ::-1], atol=1e-6)
    whole, part = (find_frames(detail, pattern) for detail in details)
    moved = np.concatenate(
        [whole[..., :1] - np.log(share), ((whole[..., 1:] + 1) / 2 - shift) / share * 2 - 1], axis=-1
    )
    away = np.abs(moved[:, :, None] - part[:, None]).max(axis=-1)  # (n, window of the whole, window of the part)
    assert (away[:, 0, 0] < 1 / SIDE).mean() > 0.7
    assert (away.min(axis=(1, 2)) < 1 / SIDE).mean() > 0.9


def test_the_climb_derives_correctly(photographs):
    details = local_detail(greys_of(photographs[:4]))
    frames = np.array([[0.05, 0.1, -0.05]] * 4, np.float32)
    _, slopes = perceptual_hash._look(details, frames)
    for k in range(3):
        step = np.zeros(3, np.float32)
        step[k] = 0.002
        up, down = perceptual_hash._look(details, frames + step)[0], perceptual_hash._look(details, frames - step)[0]
        np.testing.assert_allclose(slopes[:, k], (up - down) / 0.004, atol=0.05 * np.abs(slopes[:, k]).max())


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(0, 10))
def test_pairs_equal_a_slow_search(count, seed, block, threshold):
    rng = np.random.default_rng(seed)
    few = rng.integers(0, 2**5, (2, count, FRAMES + 1, BITS // 64), dtype=np.uint64)  # few bits: many are near
    hashed = Hashes(few[0], few[1])

    def bits(a, b):
        return sum(int(x ^ y).bit_count() for x, y in zip(a.tolist(), b.tolist(), strict=True))

    compared = [*itertools.product(range(FRAMES), repeat=2), (FRAMES, FRAMES)]
    expected = {}
    for i in range(count):
        for j in range(i + 1, count):
            for flag, other in ((False, hashed.plain), (True, hashed.mirrored)):
                d = min(bits(hashed.plain[i, k], other[j, m]) for k, m in compared)
                if d <= threshold and d < expected.get((i, j), (99, True))[0]:
                    expected[i, j] = (d, flag)
    original = perceptual_hash._BLOCK
    try:
        perceptual_hash._BLOCK = block  # rows at a time must not matter
        pairs = near_pairs(hashed, threshold)
    finally:
        perceptual_hash._BLOCK = original
    found = {(i, j): (d, flag) for i, j, d, flag in zip(*(part.tolist() for part in pairs), strict=True)}
    assert found == expected
    assert len(found) == len(pairs.first)
    assert np.all(np.diff(pairs.distance.astype(int)) >= 0)
    groups = connected_sets(np.stack([pairs.first, pairs.second], 1), len(hashed.plain))
    assert all(groups[i] == groups[j] for i, j in expected)


def test_groups_are_connected():
    labels = connected_sets([[0, 2], [2, 5], [4, 1]], 6)
    assert len({labels[0], labels[2], labels[5]}) == 1
    assert labels[1] == labels[4]
    assert len(set(labels)) == 3


def test_few_flat_and_no_pictures():
    rng = np.random.default_rng(1)
    noise = rng.integers(0, 256, (2, SIDE, SIDE), dtype=np.uint8)
    twins = perceptual_hashes(np.stack([noise[0], noise[0], noise[1]]))  # the mean is mostly the twins themselves
    pairs = near_pairs(twins)
    assert (pairs.first.tolist(), pairs.second.tolist(), pairs.distance.tolist()) == ([0], [1], [0])
    flat = perceptual_hashes(np.full((3, SIDE, SIDE), 7, np.uint8))
    assert near_pairs(flat).distance.tolist() == [0, 0, 0]
    none = perceptual_hashes(np.empty((0, SIDE, SIDE), np.uint8))
    assert none.plain.shape == (0, FRAMES + 1, BITS // 64)
    assert len(near_pairs(none).first) == 0
    assert len(connected_sets(np.empty((0, 2)), 0)) == 0


def test_grey_squares_keep_the_shape_of_things():
    wide = Image.new("RGB", (300, 100), (10, 10, 10))
    wide.paste((200, 200, 200), (100, 0, 200, 100))
    assert set(grey_square(wide).ravel()) == {200}
    for size in ((1, 1), (1, 50), (3, 2)):
        assert grey_square(Image.new("RGB", size)).shape == (SIDE, SIDE)


def test_progress_counts_pictures(monkeypatch):
    seen = []
    monkeypatch.setattr(perceptual_hash, "_BATCH", 4)
    perceptual_hashes(np.zeros((10, SIDE, SIDE), np.uint8), seen.append)
    assert seen == [4, 8, 10]
