"""Splits of the training images of another split, for choosing settings without its test images.

`fold-1-inner` tests on a quarter of fold 1's training images, the same for every seed of a run.
`fold-1-without-caucasian` trains on those that are in no group of that name and tests on those that are: how well a
network does on faces of a group that it has not seen.
"""

from __future__ import annotations

import numpy as np

from uol.errors import CallError
from uol.ratings.rated_images import Indices, RatedImages, Split

_INNER, _WITHOUT = "-inner", "-without-"
_QUARTER = 4


def find_split(rated: RatedImages, name: str) -> Split | None:
    """A split of a data set, or one inside it, by name; None if there is no such split."""
    if name in rated.splits:
        return rated.splits[name]
    outer, found, group = name.partition(_WITHOUT)
    if found and outer in rated.splits:
        train = rated.splits[outer].train
        return _divided(train, _in_group(rated, group)[train], f"{outer} and {group}")
    outer = name.removesuffix(_INNER)
    if outer != name and outer in rated.splits:
        train = rated.splits[outer].train
        chosen = np.zeros(len(train), bool)
        chosen[np.random.default_rng(0x1C4E).permutation(len(train))[: len(train) // _QUARTER]] = True
        return _divided(train, chosen, outer)
    return None


def _divided(train: Indices, tested: np.ndarray[tuple[int], np.dtype[np.bool_]], what: str) -> Split:
    if tested.all() or not tested.any():
        raise CallError(f"a split of the training images of {what} has no image to train on, or none to test on")
    return Split(train[~tested], train[tested])


def _in_group(rated: RatedImages, name: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether an image is in a group of that name, in any column."""
    words = [rated.groups[column].astype(str).str.strip().str.lower().to_numpy() for column in rated.groups]
    found = np.zeros(len(rated), bool)
    for column in words:
        found |= column == name
    if not name or not found.any():
        known = sorted({word for column in words for word in column} - {""})
        raise CallError(f"{rated.name} has no group {name!r}; there are {', '.join(known) or 'none'}")
    return found
