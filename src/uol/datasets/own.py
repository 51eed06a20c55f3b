"""A user's own data: a folder of images and a table of ratings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.datasets.dataset_info import DatasetInfo, examples
from uol.datasets.matching import ImageIndex, match_names
from uol.datasets.own_columns import IMAGE, Columns, Kind, find_image_column, find_roles, melt_raters_in_rows
from uol.datasets.tables import find_column, numbers, read_table, texts
from uol.errors import CallError, UolError
from uol.images.read import find_images
from uol.ratings.rated_images import Floats, RatedImages, Split
from uol.ratings.ratings import Ratings
from uol.ratings.scale import Scale

_SCALES = [(0, 1), (-1, 1), (1, 5), (0, 5), (1, 7), (-3, 3), (1, 9), (1, 10), (0, 10), (1, 100), (0, 100)]
_MOST_LEVELS = 21
_MOST_FOLDS = 50
_PATH = " path of the image"  # no column of the table has this name: read_table strips leading spaces
_VALIDATION = ("val", "valid", "validation", "dev")


def load_own(
    folder: str | os.PathLike[str],
    table: str | os.PathLike[str],
    *,
    image: str | None = None,
    rater: str | None = None,
    rating: str | None = None,
    mean: str | None = None,
    variance: str | None = None,
    sd: str | None = None,
    count: str | None = None,
    split: str | None = None,
    groups: Sequence[str] = (),
    scale: tuple[float, float] | None = None,
    kind: Kind | None = None,
    missing: Sequence[float] = (),
    sheet: str | int = 0,
) -> RatedImages:
    """Load the images of a folder with the ratings of a table (CSV, TSV, XLSX, Parquet).

    The table is long (a row per rating: image, rater, rating), wide (a row per image, a column per rater), or a
    summary (image, mean, and perhaps variance or sd, and count). Columns are found by their usual names unless named
    here; `groups` are further columns to keep; `missing` are numbers that stand for no rating, such as 99. A column
    `split` (train, test, val) or `fold` becomes splits. `notes` of the result report how the table was read.
    """
    base, label = Path(folder), Path(table).name
    index = ImageIndex(base, find_images(base))
    frame = read_table(table, sheet)
    notes: list[str] = []
    chosen = {"rater": rater, "rating": rating, "mean": mean, "variance": variance, "sd": sd, "count": count}
    column = find_image_column(frame, image, index)
    if column is not None and Path(column).suffix and index.find(column):  # "a.jpg", where "image" is wanted
        raise UolError(f"{label}: {column!r} is in the first line, which must hold the names of the columns")
    if column is None and (melted := melt_raters_in_rows(frame, rater, index)) is not None:
        notes.append("the table has a row per rater and a column per image")
        frame, column, chosen = melted, "image", {"rater": "rater", "rating": "rating"}
    if column is None:
        column = find_column(frame, None, IMAGE, "image") or str(frame.columns[0])
    matched = match_names(filter(None, texts(frame[column])), index, label, notes)
    columns = find_roles(frame, column, kind, {**chosen, "split": split}, groups)
    notes.insert(0, columns.described())
    paths = pd.Series([matched.get(name) for name in texts(frame[column])], frame.index, dtype=object)
    frame = frame.assign(**{_PATH: paths}).dropna(subset=[_PATH])
    values = _values(frame, columns, label, missing)
    limits = _scale(scale, values, frame, columns, label, notes)
    frame, values = _only_rated(frame, values, columns, base, label, notes)
    first = frame.drop_duplicates(_PATH)
    names = [path.relative_to(base).as_posix() for path in first[_PATH]]
    if columns.kind != "long":
        _check_once(frame, base, label)
    ratings = None if columns.kind == "summary" else _ratings(frame, values, columns, base, label)
    levels = None if ratings is None else _levels(limits, values)
    return RatedImages(
        name=Path(table).stem,
        images=list(first[_PATH]),
        names=names,
        scores=values[:, 0] if ratings is None else ratings.mean,
        scale=limits,
        variances=_spread(frame, columns, label) if ratings is None else ratings.variance,
        counts=_counts(frame, columns, label) if ratings is None else ratings.count,
        histograms=None if ratings is None or levels is None else ratings.histogram(levels),
        levels=levels,
        groups=_groups(frame, columns, notes),
        splits=_splits(first, columns, label),
        ratings=ratings,
        notes=tuple(notes),
    )


def guess_scale(values: Floats) -> Scale:
    """The narrowest usual rating scale that holds all values, else the whole numbers around them."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    for usual in _SCALES:
        if usual[0] <= low and high <= usual[1]:
            return Scale(*map(float, usual))
    bottom = float(np.floor(low))
    return Scale(bottom, max(float(np.ceil(high)), bottom + 1))


def _values(frame: pd.DataFrame, columns: Columns, label: str, missing: Sequence[float]) -> Floats:
    """Ratings or means as numbers (rows, columns), gaps as NaN."""
    values: Floats = np.column_stack([numbers(frame[column], label) for column in columns.values])
    values[np.isin(values, np.asarray(missing, np.float64))] = np.nan
    return values


def _scale(
    chosen: tuple[float, float] | None,
    values: Floats,
    frame: pd.DataFrame,
    columns: Columns,
    label: str,
    notes: list[str],
) -> Scale:
    if chosen is None:
        if np.isnan(values).all():
            return Scale(0, 1)
        scale = guess_scale(values)
        notes.append(f"scale guessed from the data: {scale.low:g} to {scale.high:g}")
        return scale
    scale = Scale(*map(float, chosen))
    if not scale.low < scale.high:
        raise CallError(f"the scale must go from low to high, not from {scale.low:g} to {scale.high:g}")
    outside = np.argwhere((values < scale.low) | (values > scale.high))
    if outside.size:
        row, column = outside[0]
        raise UolError(
            f"{label}, row {frame.index[row]}: {values[row, column]:g} in column {columns.values[column]} is not "
            f"within the scale {scale.low:g} to {scale.high:g}; correct it, or list it in `missing` if it is a gap"
        )
    return scale


def _only_rated(
    frame: pd.DataFrame, values: Floats, columns: Columns, base: Path, label: str, notes: list[str]
) -> tuple[pd.DataFrame, Floats]:
    """The rows that hold a rating, with a note on the images that have none."""
    rows = np.flatnonzero(~np.isnan(values).all(axis=1))
    unrated = sorted(set(frame[_PATH]) - set(frame[_PATH].iloc[rows]))
    if not rows.size:
        raise UolError(f"{label}: no image has a rating in column {examples(columns.values)}")
    if unrated:
        names = [path.relative_to(base).as_posix() for path in unrated]
        notes.append(f"{len(unrated)} images have no rating and were left out: {examples(names)}")
    return frame.iloc[rows], values[rows]


def _check_once(frame: pd.DataFrame, base: Path, label: str) -> None:
    repeated = frame.loc[frame[_PATH].duplicated(), _PATH]
    if len(repeated):
        name, times = repeated.iloc[0].relative_to(base).as_posix(), (frame[_PATH] == repeated.iloc[0]).sum()
        raise UolError(
            f"{label}: image {name} has {times} rows; keep one, or name the columns (rater=…, rating=…) "
            "if every row is one rating"
        )


def _ratings(frame: pd.DataFrame, values: Floats, columns: Columns, base: Path, label: str) -> Ratings:
    names = [path.relative_to(base).as_posix() for path in frame[_PATH]]
    if columns.kind == "wide":
        return Ratings.from_wide(pd.DataFrame(values, index=pd.Index(names), columns=pd.Index(columns.values)))
    if columns.rater is None:  # who rated is not known: number the ratings of each image
        raters = [f"rating {turn + 1}" for turn in frame.groupby(_PATH).cumcount()]
    else:
        raters = texts(frame[columns.rater])
        if "" in raters:
            row = frame.index[raters.index("")]
            raise UolError(f"{label}, row {row}: no rater in column {columns.rater}; fill it in or remove the row")
    return Ratings.from_long(names, raters, values[:, 0].tolist())


def _spread(frame: pd.DataFrame, columns: Columns, label: str) -> Floats:
    """Variances from the table, or from its standard deviations; NaN for a single rating, which has no spread."""
    column = columns.variance or columns.sd
    if column is None:
        return np.full(len(frame), np.nan)
    spread = numbers(frame[column], label)
    if np.any(spread < 0):
        row = frame.index[np.flatnonzero(spread < 0)[0]]
        raise UolError(f"{label}, row {row}: {column} is negative; a variance or standard deviation cannot be")
    spread[_counts(frame, columns, label) == 1] = np.nan
    return spread if columns.variance else spread**2


def _counts(frame: pd.DataFrame, columns: Columns, label: str) -> npt.NDArray[np.int64]:
    if columns.count is None:
        return np.zeros(len(frame), np.int64)
    return np.nan_to_num(numbers(frame[columns.count], label)).astype(np.int64)


def _levels(scale: Scale, values: Floats) -> Floats | None:
    """The whole numbers of a scale, where all ratings are such and they are few enough for a histogram."""
    if np.any(np.mod(values[~np.isnan(values)], 1)) or scale.low % 1 or scale.high - scale.low >= _MOST_LEVELS:
        return None
    return np.arange(scale.low, scale.high + 1)


def _groups(frame: pd.DataFrame, columns: Columns, notes: list[str]) -> pd.DataFrame:
    """One row per image; columns that differ between the rows of an image describe the rater and are left out."""
    words = pd.DataFrame({column: texts(frame[column]) for column in columns.groups}, index=list(frame[_PATH]))
    varying = [column for column in words.columns if words.groupby(level=0)[column].nunique().gt(1).any()]
    if varying:
        notes.append(f"columns that differ within an image were left out of the groups: {examples(varying)}")
    return words[~words.index.duplicated()].drop(columns=varying).reset_index(drop=True)


def _splits(first: pd.DataFrame, columns: Columns, label: str) -> dict[str, Split]:
    """Splits from a column: train and test (and validation), or the number of a fold to test on."""
    if columns.split is None:
        return {}
    sides = np.array([side.lower() for side in texts(first[columns.split])])
    values = sorted(set(sides) - {""})
    if set(values) <= {"train", "training", "test", "testing", *_VALIDATION}:
        train = np.flatnonzero(np.isin(sides, ("train", "training")))
        found = {"split": Split(train, np.flatnonzero(np.isin(sides, ("test", "testing"))))}
        validation = np.flatnonzero(np.isin(sides, _VALIDATION))
        return found | ({"split-validation": Split(train, validation)} if validation.size else {})
    if len(values) > _MOST_FOLDS:
        raise UolError(
            f"{label}: column {columns.split} has {len(values)} different values; at most {_MOST_FOLDS} are folds"
        )
    return {
        f"fold-{value}": Split(np.flatnonzero((sides != value) & (sides != "")), np.flatnonzero(sides == value))
        for value in values
    }


DATASET = DatasetInfo(
    name="own",
    title="Your own images and ratings",
    images=0,
    scale=None,
    terms="yours",
    expects="a folder of images, and a table of ratings (option table: CSV, TSV, XLSX or Parquet)",
    load=load_own,
)
