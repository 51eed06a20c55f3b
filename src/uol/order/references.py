"""The reference set: which rated images new ones are compared with, and what of them is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from uol.errors import CallError

Embedding = TypeVar("Embedding")


@dataclass(frozen=True)
class ReferenceSet(Generic[Embedding]):
    """R Gaussians with their panel scores (R,); no image can be recovered from them."""

    gaussians: Embedding  # tensors or arrays, as the engine that compares with them requires
    scores: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.scores)


def choose_references(
    scores: npt.ArrayLike, bin_width: float = 0.1, per_bin: int = 10, seed: int = 0
) -> npt.NDArray[np.intp]:
    """Indices of the references: of each score bin, min(nᵢ, `per_bin`) images at random, sorted by index.

    Bins start at multiples of `bin_width`, whatever the range of the scores.

    >>> choose_references([1.01, 1.02, 1.03, 2.5], bin_width=0.1, per_bin=2)
    array([0, 2, 3])
    """
    scores = np.asarray(scores, np.float64)
    rng = np.random.default_rng(seed)
    bins = _bins(scores, bin_width)
    shuffled = rng.permutation(len(scores))
    by_bin = shuffled[np.argsort(bins[shuffled], kind="stable")]
    ordered = bins[by_bin]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    place_in_bin = np.arange(len(scores)) - np.repeat(starts, np.diff(np.r_[starts, len(scores)]))
    return np.sort(by_bin[place_in_bin < per_bin])


def choose_balanced_references(
    scores: npt.ArrayLike, bin_width: float = 0.1, per_bin: int = 10, seed: int = 0
) -> npt.NDArray[np.intp]:
    """Indices of references for maximum consistency: `per_bin` images of each bin, and no bin left out between two.

    They cover the longest run of neighbouring bins that have so many images each; of equal runs, the lowest.
    """
    scores = np.asarray(scores, np.float64)
    bins = _bins(scores, bin_width)
    full, counts = np.unique(bins, return_counts=True)
    full = full[counts >= per_bin]
    if not len(full):
        raise CallError(f"no bin of {bin_width:g} has {per_bin} images: lower references_per_bin")
    runs = np.split(full, np.flatnonzero(np.diff(full) > 1) + 1)
    run = max(runs, key=len)
    inside = np.flatnonzero((bins >= run[0]) & (bins <= run[-1]))
    return inside[choose_references(scores[inside], bin_width, per_bin, seed)]


def _bins(scores: npt.NDArray[np.float64], width: float) -> npt.NDArray[np.int64]:
    return np.floor(scores / width + 1e-6).astype(np.int64)  # 3.3 / 0.1 is 32.999…, and belongs to bin 33
