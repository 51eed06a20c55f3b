"""Splits from a column of a table: that of the ratings, or another one, such as `uol data split` writes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from uol.datasets.column_names import IMAGE, ROLES
from uol.datasets.dataset_info import examples
from uol.datasets.tables import find_column, read_table, texts
from uol.errors import UolError
from uol.ratings.rated_images import RatedImages, Split

_MOST_FOLDS = 50
_VALIDATION = ("val", "valid", "validation", "dev")


def with_folds(rated: RatedImages, table: str | os.PathLike[str]) -> RatedImages:
    """A data set with the splits of a table (image, fold) in the place of those that it has."""
    label, frame = Path(table).name, read_table(table)
    image, fold = find_column(frame, None, IMAGE, "image"), find_column(frame, None, ROLES["split"], "fold")
    if image is None or fold is None:
        raise UolError(f"{label}: columns image and fold are required; `uol data split` writes such a table")
    known: dict[str, str] = {}
    for name, value in zip(texts(frame[image]), texts(frame[fold]), strict=True):
        if known.setdefault(name, value) != value:
            raise UolError(f"{label}: {name} is in two folds, {known[name]} and {value}; keep one")
    missing = [name for name in rated.names if not known.get(name)]
    if missing:
        raise UolError(
            f"{label}: {len(missing)} of {len(rated)} images have no fold ({examples(missing)}); "
            "make the table again with `uol data split`"
        )
    return replace(rated, splits=make_splits(pd.Series([known[name] for name in rated.names], name=fold), label))


def make_splits(column: pd.Series[Any], label: str) -> dict[str, Split]:
    """Splits from a value for each image: train and test (and validation), or the number of a fold to test on."""
    sides = np.array([side.lower() for side in texts(column)])
    found = sorted(set(sides) - {""})
    if set(found) <= {"train", "training", "test", "testing", *_VALIDATION}:
        train = np.flatnonzero(np.isin(sides, ("train", "training")))
        split = {"split": Split(train, np.flatnonzero(np.isin(sides, ("test", "testing"))))}
        validation = np.flatnonzero(np.isin(sides, _VALIDATION))
        return split | ({"split-validation": Split(train, validation)} if validation.size else {})
    if len(found) > _MOST_FOLDS:
        raise UolError(
            f"{label}: column {column.name} has {len(found)} different values; at most {_MOST_FOLDS} are folds"
        )
    return {
        f"fold-{value}": Split(np.flatnonzero((sides != value) & (sides != "")), np.flatnonzero(sides == value))
        for value in found
    }
