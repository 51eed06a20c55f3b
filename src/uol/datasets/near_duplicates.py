"""Perceptual hashes that recognise a photograph after it was cropped, scaled, recoloured or mirrored.

A crop moves every bit of an ordinary perceptual hash. Here each picture is first looked at through a window:
the place and scale at which its detail resembles the mean detail of the whole set most. That place belongs to the
photograph, not to its borders, so two crops of one photograph are seen through the same window. Bits are the signs of
the window's cosine transform against the set's mean. Pictures are compared, not people: what is found is the same
photograph again, or one taken the next moment.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.fft import irfft2, rfft2
from PIL import Image

from uol.storage.cores import available_cores

Floats: TypeAlias = npt.NDArray[np.float32]
Greys: TypeAlias = npt.NDArray[np.uint8]
Bits: TypeAlias = npt.NDArray[np.uint64]
Indices: TypeAlias = npt.NDArray[np.intp]

SIDE = 64  # pixels of the grey square that is hashed
WINDOW = 36  # pixels of the window at scale 1
FRAMES = 4  # windows per picture, and one fixed in its middle: a crop may hide the best, or show a better one
BITS = 256
# Bits that may differ. Of the 46 pairs in SCUT-FBP5500 that show one photograph (found by an exhaustive search over
# crops and by a network's features, and seen by eye) 42 differ in at most 28, and nothing else in less than 33; of the
# 64 in MEBeauty all differ in at most 23, and nothing else in less than 55. Of photographs cropped at random to 95, 90
# and 80 % of their sides 99, 95 and 75 % are found.
SAME = 28

_LOG_SCALES = np.log(1.05) * np.arange(-6, 6)  # from 0.75 to 1.28
_SPREAD, _SMOOTH = 3.0, 1.0  # pixels: detail is what is left of a blur, and is smoothed for interpolation
_FLAT = 4.0  # grey levels: contrast below it is noise and is not raised to full detail
_APART = np.array([0.2, 0.16, 0.16], np.float32)  # log scale, x, y by which a second window differs from the first
_STEPS, _LONGEST = 8, 0.04  # of the climb to a window's exact place
_SAMPLE = 500  # pictures whose mean detail is the pattern
_ROUNDS = 2
_PRIOR = 10  # pictures without detail counted into the mean, so that a handful of copies is not all mean
_BATCH = 256
_BLOCK = 2**20  # distances that a thread holds at once


class Hashes(NamedTuple):
    """`BITS` bits per picture and window, the fixed one last, and those of the mirrored picture.

    Both are uint64 (n, FRAMES + 1, BITS / 64).
    """

    plain: Bits
    mirrored: Bits


class NearPairs(NamedTuple):
    """Pairs of pictures, first < second, with the bits in which they differ and whether one is mirrored."""

    first: Indices
    second: Indices
    distance: npt.NDArray[np.uint16]
    mirrored: npt.NDArray[np.bool_]


def grey_square(image: Image.Image) -> Greys:
    """The central square of a picture as SIDE × SIDE grey levels, each the mean of its area."""
    width, height = image.size
    left, top = (width - min(image.size)) / 2, (height - min(image.size)) / 2
    square = (left, top, width - left, height - top)
    return np.asarray(image.convert("L").resize((SIDE, SIDE), Image.Resampling.BOX, box=square))


def perceptual_hashes(greys: Greys, progress: Callable[[int], None] | None = None) -> Hashes:
    """The hashes of pictures (n, SIDE, SIDE); each depends a little on the others, through the mean of a sample.

    `progress` is called with the number of pictures done.
    """
    count = len(greys)
    if count == 0:
        none = np.empty((0, FRAMES + 1, BITS // 64), np.uint64)
        return Hashes(none, none)
    sample = local_detail(greys[:: -(-count // _SAMPLE)])
    pattern = mean_pattern(sample)
    mean = _coefficients(sample, pattern)[:, 0].sum(axis=0) / (len(sample) + _PRIOR)
    mean[:FRAMES] = mean[0]  # a window may be the best of one picture and the second of its copy

    def bits(start: int) -> Bits:
        coefficients = _coefficients(local_detail(greys[start : start + _BATCH]), pattern)
        return np.ascontiguousarray(np.packbits(coefficients > mean, axis=-1)).view(np.uint64)

    parts = []
    with ThreadPoolExecutor(available_cores()) as pool:
        for part in pool.map(bits, range(0, count, _BATCH)):
            parts.append(part)
            if progress is not None:
                progress(min(len(parts) * _BATCH, count))
    both = np.concatenate(parts)
    return Hashes(both[:, 0], both[:, 1])


def near_pairs(hashes: Hashes, threshold: int = SAME) -> NearPairs:
    """All pairs whose hashes differ in at most `threshold` bits in any two windows, nearest first."""
    windows = [(k, m) for k in range(FRAMES) for m in range(FRAMES)] + [(FRAMES, FRAMES)]
    count = len(hashes.plain)
    rows = max(1, _BLOCK // max(count, 1))

    def block(start: int) -> list[NearPairs]:
        found = []
        own = hashes.plain[start : start + rows]
        for mirrored, other in ((False, hashes.plain), (True, hashes.mirrored)):
            distance = np.full((len(own), count - start), BITS + 1, np.uint16)
            for k, m in windows:
                np.minimum(distance, hamming(own[:, k], other[start:, m]), out=distance)
            i, j = np.nonzero(np.triu(distance <= threshold, 1))
            found.append(NearPairs(i + start, j + start, distance[i, j], np.full(len(i), mirrored)))
        return found

    with ThreadPoolExecutor(available_cores()) as pool:
        found = [pairs for blocks in pool.map(block, range(0, max(count, 1), rows)) for pairs in blocks]
    pairs = NearPairs(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
    order = np.lexsort((pairs.second, pairs.first, pairs.mirrored, pairs.distance))
    places = pairs.first[order] * count + pairs.second[order]
    once = order[np.sort(np.unique(places, return_index=True)[1])]  # a symmetric picture resembles its mirror image too
    return NearPairs(*(part[once] for part in pairs))


def hamming(a: Bits, b: Bits) -> npt.NDArray[np.uint16]:
    """The number of different bits between each of a (n, words) and each of b (m, words): (n, m)."""
    distance = np.zeros((len(a), len(b)), np.uint16)
    for word in range(a.shape[1]):
        distance += np.bitwise_count(a[:, None, word] ^ b[None, :, word])
    return distance


def local_detail(greys: Greys) -> Floats:
    """Grey levels against their blurred surroundings, in units of the contrast there: lighting and tone drop out."""
    blur, smooth = _blur(_SPREAD), _blur(_SMOOTH)
    detail = greys - blur @ greys.astype(np.float32) @ blur.T
    contrast = np.sqrt(np.maximum(blur @ detail**2 @ blur.T, 0))
    smoothed: Floats = smooth @ (detail / (contrast + _FLAT)) @ smooth.T
    return smoothed


def mean_pattern(details: Floats) -> Floats:
    """The mean of the windows of all pictures, each window found by the pattern of the round before.

    It is made symmetric, so that a mirrored picture is seen through the mirrored window.
    """
    frames = np.zeros((len(details), 3), np.float32)
    for turn in range(_ROUNDS + 1):
        mean = _unit(_look(details, frames)[0]).mean(axis=0)
        pattern = _unit(mean + mean[:, ::-1])
        if turn < _ROUNDS:
            frames = find_frames(details, pattern, 1)[:, 0]
    return pattern


def find_frames(details: Floats, pattern: Floats, count: int = FRAMES) -> Floats:
    """Where each picture resembles the pattern most: log scale, x and y of its windows, best first (n, count, 3)."""
    pattern = _unit(_halved(pattern))  # half the samples find the place as exactly
    likeness, places = _search(_halved(details), pattern)
    frames = np.empty((len(details), count, 3), np.float32)
    for k in range(count):
        chosen = places[likeness.argmax(axis=1)]
        frames[:, k] = _climb(details, pattern, chosen)
        near = np.all(np.abs(places - chosen[:, None]) < _APART, axis=-1)
        likeness[near] = -2
    return frames


def _coefficients(details: Floats, pattern: Floats) -> Floats:
    """The cosine transforms of all windows, of the picture and of its mirror image: (n, 2, FRAMES + 1, BITS)."""
    frames = find_frames(details, pattern)
    frames = np.concatenate([frames, np.zeros_like(frames[:, :1])], axis=1)
    windows = np.stack([_look(details, frames[:, k])[0] for k in range(FRAMES + 1)], axis=1)
    both = _unit(np.stack([windows, windows[..., ::-1]], axis=1))
    waves = _cosines()
    return np.asarray((waves @ both @ waves.T)[..., *_band()], np.float32)


def _search(details: Floats, pattern: Floats) -> tuple[Floats, Floats]:
    """Normalised correlation with the pattern at every place and scale, and these frames: (n, places), (places, 3)."""
    count, full = details.shape[:2]
    wide = len(pattern)
    likeness, places = [], []
    for scale in np.exp(_LOG_SCALES):
        side = round(full / scale)
        one = np.ones(1, np.float32)
        resize = _weights(0 * one, one, side, 1 - 1 / side, full)[0][0]
        resized = resize @ details @ resize.T
        spectrum = rfft2(resized)
        last = side - wide + 1

        def summed(spectrum: npt.NDArray[Any], weights: Floats, side: int = side, last: int = last) -> Floats:
            moved = irfft2(spectrum * np.conj(rfft2(weights, (side, side))), (side, side))
            return np.asarray(moved[:, :last, :last], np.float32)

        box = np.ones((wide, wide), np.float32)
        energy = summed(rfft2(resized**2), box) - summed(spectrum, box) ** 2 / wide**2
        likeness.append((summed(spectrum, pattern) / np.sqrt(np.maximum(energy, 1e-3))).reshape(count, -1))
        centres = (np.arange(last) + wide / 2) * 2 / side - 1
        y, x = np.meshgrid(centres, centres, indexing="ij")
        places.append(np.stack([np.full(y.size, np.log(full / side)), x.ravel(), y.ravel()], axis=1))
    return np.concatenate(likeness, axis=1), np.concatenate(places).astype(np.float32)


def _climb(details: Floats, pattern: Floats, frames: Floats) -> Floats:
    """Move frames to where the correlation of window and pattern is highest, by Gauss-Newton steps.

    With b the window, centred and of length 1, and J its derivatives by log scale, x and y, a step solves
    (JᵀJ + εI) Δ = Jᵀ(pattern − b).
    """
    target = pattern.ravel()
    best, highest = frames, np.full(len(frames), -2, np.float32)
    for step in range(_STEPS + 1):
        window, derivatives = _look(details, frames, len(pattern))
        flat = window.reshape(len(frames), -1)
        flat = flat - flat.mean(axis=1, keepdims=True)
        length = np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-6)
        flat = flat / length
        likeness = flat @ target
        best = np.where((likeness > highest)[:, None], frames, best)
        highest = np.maximum(likeness, highest)
        if step < _STEPS:
            J = derivatives.reshape(len(frames), 3, -1)
            J = J - J.mean(axis=2, keepdims=True)
            J = (J - (J @ flat[:, :, None]) * flat[:, None]) / length[:, None]
            system = J @ J.transpose(0, 2, 1) + 1e-3 * np.eye(3, dtype=np.float32)
            move = np.linalg.solve(system, J @ (target - flat)[:, :, None])[:, :, 0]
            frames = frames + np.clip(move, -_LONGEST, _LONGEST)
    return best


def _look(details: Floats, frames: Floats, size: int = WINDOW) -> tuple[Floats, Floats]:
    """The windows (n, size, size) at frames (n, 3), and their derivatives by log scale, x and y (n, 3, size, size)."""
    scale = np.exp(frames[:, 0])
    side = details.shape[-1]
    reach = WINDOW / SIDE * (1 - 1 / size)  # of the outermost samples, where the square reaches from −1 to 1
    across, across_slope = _weights(frames[:, 1], scale, size, reach, side)
    down, down_slope = _weights(frames[:, 2], scale, size, reach, side)
    rows: Floats = down @ details
    across_turned = across.transpose(0, 2, 1)
    dx, dy = rows @ across_slope.transpose(0, 2, 1), (down_slope @ details) @ across_turned
    offset = np.linspace(-reach, reach, size, dtype=np.float32)
    ds = scale[:, None, None] * (dx * offset + dy * offset[:, None])
    windows: Floats = rows @ across_turned
    return windows, np.stack([ds, dx, dy], axis=1)


def _weights(centre: Floats, scale: Floats, size: int, reach: float, side: int) -> tuple[Floats, Floats]:
    """Interpolation of `size` samples from `side` pixels, and its derivative by the centre: (n, size, side) each.

    A quadratic B-spline: with linear interpolation the climb is drawn to whole pixels.
    """
    samples = scale[:, None] * np.linspace(-reach, reach, size, dtype=np.float32) + centre[:, None]
    position = ((samples + 1) * side - 1) / 2
    inside = (position > 0.5) & (position < side - 1.5)
    away = np.clip(position, 0.5, side - 1.5)[:, :, None] - np.arange(side, dtype=np.float32)
    near = np.abs(away)
    outer = np.maximum(1.5 - near, 0)
    weights = np.where(near < 0.5, 0.75 - near**2, outer**2 / 2)
    slopes = np.where(near < 0.5, -2 * away, -np.copysign(outer, away)) * inside[:, :, None]
    return weights.astype(np.float32), (slopes * (side / 2)).astype(np.float32)


def _band() -> tuple[Indices, Indices]:
    """The BITS lowest frequencies except the very lowest, which `local_detail` has removed."""
    u, v = np.indices((WINDOW, WINDOW))
    radius = np.hypot(u, v)
    order = np.argsort(np.where(radius >= 2, radius, np.inf).ravel(), kind="stable")[:BITS]
    return u.ravel()[order], v.ravel()[order]


def _blur(sigma: float) -> Floats:
    """The matrix that blurs a column of pixels, which is reflected at its ends."""
    reach = int(4 * sigma + 0.5)
    near = np.exp(-0.5 * np.square(np.arange(-reach, reach + 1) / sigma))
    reflected = np.pad(np.eye(SIDE), ((reach, reach), (0, 0)), mode="symmetric")
    blurred = sum(weight * reflected[k : k + SIDE] for k, weight in enumerate(near / near.sum()))
    return np.asarray(blurred, np.float32)


def _cosines() -> Floats:
    """The matrix of the orthonormal cosine transform of WINDOW pixels, a frequency per row."""
    frequency, place = np.indices((WINDOW, WINDOW))
    waves = np.cos(np.pi * frequency * (place + 0.5) / WINDOW) * np.sqrt(np.where(frequency, 2, 1) / WINDOW)
    return waves.astype(np.float32)


def _halved(pixels: Floats) -> Floats:
    *count, height, width = pixels.shape
    halved: Floats = pixels.reshape(*count, height // 2, 2, width // 2, 2).mean(axis=(-3, -1))
    return halved


def _unit(pixels: Floats) -> Floats:
    """Pictures (…, h, w) with mean 0 and length 1; flat ones stay 0."""
    centred = pixels - pixels.mean(axis=(-2, -1), keepdims=True)
    unit: Floats = centred / np.maximum(np.linalg.norm(centred, axis=(-2, -1), keepdims=True), 1e-6)
    return unit
