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
WHOLE = "whole"


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


def choose_splits(rated: RatedImages, name: str | None) -> dict[str, Split]:
    """The splits that a person names: one, all folds ("all"), the only one (None), or no test images ("whole").

    A number is a fold, unless a split has that name. A data set without splits is trained on as a whole.
    """
    if name == WHOLE or (name is None and not rated.splits):
        return {WHOLE: Split(np.arange(len(rated)), np.arange(0))}
    known = ", ".join(rated.splits) or "none"
    if name == "all":
        folds = {key: parts for key, parts in rated.splits.items() if key.startswith("fold-")}
        if not folds:
            raise CallError(f"{rated.name} has no folds; its splits: {known}")
        return folds
    if name is None:
        if len(rated.splits) > 1:
            raise CallError(f"{rated.name} has several splits; choose one with --split: {known}")
        name = next(iter(rated.splits))
    found = find_split(rated, name)
    if found is None and name[:1].isdigit():  # after the split's name: MEBeauty has one called 2022
        name = f"fold-{name}"
        found = find_split(rated, name)
    if found is None:
        raise CallError(f"{rated.name} has no split {name!r}; there are {known}")
    return {name: found}


def tested_images(rated: RatedImages, name: str) -> Indices:
    """The test images of a split; none if there is no such split, as with "whole"."""
    found = find_split(rated, name)
    return np.arange(0) if found is None else found.test
