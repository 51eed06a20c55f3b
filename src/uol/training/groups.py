"""Groups of people in training: who is of which gender and ethnicity, and batches that see rare groups more often."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.errors import CallError
from uol.ratings.rated_images import Indices, RatedImages

GENDER, ETHNICITY = ("gender", "sex"), ("ethnicity", "race")
"""Names of the columns that tell either; of several, the first that is there is read."""

_NEAR = 1e-9  # places of a batch: a share this near to all images of a group is all of them


def words_of(rated: RatedImages, names: Sequence[str]) -> list[str] | None:
    """What the first column of these names that says anything says of each image, in small letters, "" if nothing."""
    for name in names:
        if name in rated.groups:
            words = ["" if pd.isna(value) else str(value).strip().lower() for value in rated.groups[name]]
            if any(words):
                return words
    return None


def group_numbers(rated: RatedImages, setting: str) -> Indices:
    """The number of each image's group, (N,): its gender and ethnicity together, as far as the data set tells them.

    An image of which one is not told is of a group "unknown" in that. `setting` is named where neither is told.
    """
    told = [words for names in (GENDER, ETHNICITY) if (words := words_of(rated, names)) is not None]
    if not told:
        raise CallError(f"{rated.name}: {setting} needs groups, and no column tells gender or ethnicity")
    joined = ["\t".join(row) for row in zip(*told, strict=True)]
    return np.unique(joined, return_inverse=True)[1].astype(np.intp)


def balanced_batches(group: Indices, batches: int, size: int, balance: float, rng: np.random.Generator) -> Indices:
    """Batches of different images, (batches, size), in which a group of n images has places ∝ n^(1 − balance).

    Every batch has the same share of each group, rounded down or up; over all batches the roundings cancel to less
    than one place. A group too small for its share has all its images in every batch, and the others take what is
    left. Of a group's images none is taken two times more than another.
    """
    count = np.bincount(group)
    places = _places(_shares(count, size, balance), count, size, batches, rng)
    chosen = np.zeros((batches, size), np.intp)
    ends = places.cumsum(1)
    for number in np.flatnonzero(count):
        rows = np.flatnonzero(group == number)
        uses = np.zeros(len(rows))
        for batch in range(batches):
            end = ends[batch, number]
            taken = np.argsort(uses + rng.random(len(rows)))[: places[batch, number]]  # the least used, by lot
            uses[taken] += 1
            chosen[batch, end - len(taken) : end] = rows[taken]
    return rng.permuted(chosen, axis=1)


def _shares(count: npt.NDArray[np.int64], size: int, balance: float) -> npt.NDArray[np.float64]:
    """Places of each group in a batch, ∝ count^(1 − balance), none above the group's count; they sum to `size`."""
    weight = np.where(count > 0, np.maximum(count, 1) ** (1.0 - balance), 0.0)
    share = np.zeros(len(count))
    full = count == 0
    while not full.all():
        share[~full] = (size - share[full].sum()) * weight[~full] / weight[~full].sum()
        more = ~full & (share >= count - _NEAR)
        if not more.any():
            break
        full |= more
        share[full] = count[full]
    return share


def _places(
    share: npt.NDArray[np.float64], count: npt.NDArray[np.int64], size: int, batches: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Whole places of each group in each batch, (batches, groups): shares rounded down or up, rows summing to `size`.

    With X the running sum of shares, a batch has ⌊X + u⌋; u runs through the same distance in every batch, so that by
    Hermite's identity, Σ ⌊x + b/B⌋ = ⌊Bx⌋, the sums over batches are those of the shares, rounded once.
    """
    full = share == count
    places = np.tile(np.where(full, count, 0), (batches, 1))
    left = size - int(count[full].sum())
    if full.all() or left == 0:
        return places
    edges = np.append(0.0, share[~full].cumsum())
    edges[-1] = left
    shift = np.minimum((rng.permutation(batches) + rng.random()) / batches, 1 - _NEAR)
    places[:, ~full] = np.diff(np.floor(edges + shift[:, None]), axis=1).astype(np.int64)
    return places
