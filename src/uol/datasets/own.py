"""A user's own data: a folder of images and a table of ratings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.datasets.column_names import IMAGE
from uol.datasets.dataset_info import DatasetInfo, examples
from uol.datasets.folds import make_splits
from uol.datasets.matching import ImageIndex, match_names
from uol.datasets.missing_codes import doubtful_values, guess_scale
from uol.datasets.own_columns import Columns, Kind, find_image_column, find_roles, melt_raters_in_rows
from uol.datasets.tables import find_column, numbers, read_table, texts
from uol.errors import CallError, UolError, counted
from uol.images.paths import find_images
from uol.ratings.rated_images import Floats, RatedImages
from uol.ratings.ratings import Ratings
from uol.ratings.scale import Scale

Repeats = Literal["mean", "first", "last"]

_MOST_LEVELS = 21
_PATH = " path of the image"  # no column of the table has this name: read_table strips leading spaces


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
    missing: Sequence[float | str] = (),
    repeats: Repeats | None = None,
    sheet: str | int = 0,
    encoding: str | None = None,
    decimal: str | None = None,
) -> RatedImages:
    """Load the images of a folder with the ratings of a table (CSV, TSV, XLSX, ODS, SAV, Parquet).

    The table is long (a row per rating: image, rater, rating), wide (a row per image, a column per rater), or a
    summary (image, mean, and perhaps variance or sd, and count). Columns are found by their usual names unless named
    here; `groups` are further columns to keep; `missing` are numbers or words that stand for no rating, such as 99, and
    `repeats` says what counts if a rater rated an image several times. A column `split` (train, test, val) or `fold`
    becomes splits. `notes` of the result report how the table was read and what was left out.

    Numbers that look like codes for missing ratings, and ratings that contradict each other, are an error unless
    `scale`, `missing` or `repeats` says what they are.
    """
    base, label = Path(folder), Path(table).name
    files = find_images(base)
    index = ImageIndex(base, files)
    frame = read_table(table, sheet, encoding, decimal)
    if repeats is not None and repeats not in get_args(Repeats):
        raise CallError(f"repeats={repeats}: choose from {', '.join(get_args(Repeats))}")
    notes: list[str] = list(frame.attrs["notes"])
    chosen = {"rater": rater, "rating": rating, "mean": mean, "variance": variance, "sd": sd, "count": count}
    column = find_image_column(frame, image, index)
    if column is not None and Path(column).suffix and index.find(column):  # "a.jpg", where "image" is wanted
        raise UolError(f"{label}: {column!r} is in the first line, which must hold the names of the columns")
    if column is None and (melted := melt_raters_in_rows(frame, rater, index)) is not None:
        notes.append("the table has a row per rater and a column per image")
        frame, column, chosen = melted, "image", {"rater": "rater", "rating": "rating"}
    if column is None:
        column = find_column(frame, None, IMAGE, "image") or str(frame.columns[0])
    names = texts(frame[column])
    matched = match_names(filter(None, names), index, label, notes)
    columns = find_roles(frame, column, kind, {**chosen, "split": split}, groups)
    notes.insert(0, columns.described())
    bare = len(files) - len(set(matched.values()))
    lost, blank = sum(bool(name) and name not in matched for name in names), names.count("")
    if lost:
        notes.append(f"left out: {lost} of {counted(len(names), 'row')}, with the images that have no file")
    if bare:
        notes.append(f"not in the table: {counted(bare, 'image')} of the folder")
    if blank:
        notes.append(f"left out: {counted(blank, 'row')} without an image in column {column}")
    paths = pd.Series([matched.get(name) for name in names], frame.index, dtype=object)
    frame = frame.assign(**{_PATH: paths}).dropna(subset=[_PATH])
    values = _values(frame, columns, label, missing)
    limits = _scale(scale, values, frame, columns, label, notes)
    frame, values = _only_rated(frame, values, columns, base, label, notes)
    raters = _raters(frame, columns, label)
    frame, values, raters = _once(frame, values, raters, columns, repeats, base, label, notes)
    first = frame.drop_duplicates(_PATH)
    ratings = None if columns.kind == "summary" else _ratings(frame, values, raters, columns, base)
    levels = None if ratings is None else _levels(limits, values)
    return RatedImages(
        name=Path(table).stem,
        images=list(first[_PATH]),
        names=[path.relative_to(base).as_posix() for path in first[_PATH]],
        scores=values[:, 0] if ratings is None else ratings.mean,
        scale=limits,
        variances=_spread(frame, columns, label) if ratings is None else ratings.variance,
        counts=_counts(frame, columns, label) if ratings is None else ratings.count,
        histograms=None if ratings is None or levels is None else ratings.histogram(levels),
        levels=levels,
        groups=_groups(frame, columns, notes),
        splits={} if columns.split is None else make_splits(first[columns.split], label),
        ratings=None if columns.kind == "long" and columns.rater is None else ratings,
        notes=tuple(notes),
    )


def _values(frame: pd.DataFrame, columns: Columns, label: str, missing: Sequence[float | str]) -> Floats:
    """Ratings or means as numbers (rows, columns), gaps as NaN."""
    words = [word for word in missing if isinstance(word, str)]
    codes = [code for code in missing if not isinstance(code, str)]
    values: Floats = np.column_stack([numbers(frame[column], label, words) for column in columns.values])
    values[np.isin(values, np.asarray(codes, np.float64))] = np.nan
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
        _check_codes(values, columns, label)
        scale = guess_scale(values)
        notes.append(f"scale guessed from the data: {scale.low:g} to {scale.high:g}")
        return scale
    try:
        low, high = map(float, () if isinstance(chosen, str) else chosen)
    except (TypeError, ValueError) as error:
        raise CallError(f"scale={chosen!r}: give the lowest and the highest rating, as (1, 10)") from error
    scale = Scale(low, high)
    if not np.isfinite(scale).all():
        raise CallError(f"the scale must have ends, not go from {low:g} to {high:g}")
    if not scale.low < scale.high:
        raise CallError(f"the scale must go from low to high, not from {scale.low:g} to {scale.high:g}")
    outside = np.argwhere((values < scale.low) | (values > scale.high))
    if outside.size:
        row, column = outside[0]
        value = values[row, column]
        raise UolError(
            f"{label}, row {frame.index[row]}: {value:g} in column {columns.values[column]} is not within the scale "
            f"{scale.low:g} to {scale.high:g}; correct it or widen --scale, or add --read missing={value:g} if it "
            "stands for no rating"
        )
    return scale


def _check_codes(values: Floats, columns: Columns, label: str) -> None:
    """Refuse columns and values that are probably no ratings."""
    for place in range(len(columns.values) if len(columns.values) > 2 else 0):  # brightness, say, among raters
        column, others = values[:, place], np.delete(values, place, axis=1)
        if np.isnan(column).all() or np.isnan(others).all():
            continue
        rest = guess_scale(others)
        if np.nanmin(column) > rest.high or np.nanmax(column) < rest.low:
            name = columns.values[place]
            raise UolError(
                f"{label}: column {name} has {_range(column)} and the other raters {_range(others)}; if it has no "
                f"ratings, add --read groups={name}, and if it has, say which are possible with --scale LOW HIGH"
            )
    doubtful = doubtful_values(values)
    if not doubtful:
        return
    known = values[~np.isnan(values)]
    odd = np.isin(known, doubtful)
    codes = ",".join(f"{value:g}" for value in doubtful)
    raise UolError(
        f"{label}: {odd.sum()} of {known.size} ratings are {codes.replace(',', ' or ')}, and the others "
        f"{_range(known[~odd])}; if they stand for no rating, add --read missing={codes}, and if they are ratings, "
        f"say which are possible with --scale {min(known):g} {max(known):g}"
    )


def _range(values: Floats) -> str:
    return f"{np.nanmin(values):g} to {np.nanmax(values):g}"


def _only_rated(
    frame: pd.DataFrame, values: Floats, columns: Columns, base: Path, label: str, notes: list[str]
) -> tuple[pd.DataFrame, Floats]:
    """The rows that hold a rating, with a note on the images that have none."""
    rows = np.flatnonzero(~np.isnan(values).all(axis=1))
    unrated = sorted(set(frame[_PATH]) - set(frame[_PATH].iloc[rows]))
    if not rows.size:
        raise UolError(f"{label}: no image has a rating in column {examples(columns.values)}")
    if columns.kind == "long" and len(rows) < len(frame):
        notes.append(f"left out: {counted(len(frame) - len(rows), 'row')} without a rating")
    if unrated:
        names = [path.relative_to(base).as_posix() for path in unrated]
        notes.append(f"left out: {counted(len(unrated), 'image')} without a rating: {examples(names)}")
    return frame.iloc[rows], values[rows]


def _raters(frame: pd.DataFrame, columns: Columns, label: str) -> list[str]:
    """The rater of each row of a long table; numbers of each image's ratings where who rated is not known."""
    if columns.rater is None:
        return [f"rating {turn + 1}" for turn in frame.groupby(_PATH).cumcount()] if columns.kind == "long" else []
    raters = texts(frame[columns.rater])
    if "" in raters:
        row = frame.index[raters.index("")]
        more = f" and {raters.count('') - 1} more" if raters.count("") > 1 else ""
        raise UolError(f"{label}, row {row}{more}: no rater in column {columns.rater}; fill it in or remove the row")
    return raters


def _once(
    frame: pd.DataFrame,
    values: Floats,
    raters: list[str],
    columns: Columns,
    repeats: Repeats | None,
    base: Path,
    label: str,
    notes: list[str],
) -> tuple[pd.DataFrame, Floats, list[str]]:
    """Each image, or each rater's rating of it, once: equal rows count once, and `repeats` decides on others."""
    keys = pd.MultiIndex.from_arrays([frame[_PATH], raters]) if raters else pd.Index(frame[_PATH])
    codes, unique = pd.factorize(keys)
    if len(unique) == len(frame):
        return frame, values, raters
    first = np.zeros(len(unique), np.intp)
    first[codes[::-1]] = np.arange(len(frame))[::-1]
    last = np.zeros(len(unique), np.intp)
    last[codes] = np.arange(len(frame))
    gone = len(frame) - len(unique)
    whose = "an image and its rater" if raters else "an image"
    same = np.isclose(values, values[first][codes], rtol=0, atol=1e-12, equal_nan=True).all(axis=1)
    if not same.all() and repeats is None:
        row = int(np.flatnonzero(~same)[0])
        before, name = int(first[codes[row]]), frame[_PATH].iloc[row].relative_to(base).as_posix()
        if not raters:
            times = int((codes == codes[row]).sum())
            raise UolError(
                f"{label}: image {name} has {times} rows; keep one, or name the columns (rater=…, rating=…) if every "
                f"row is one rating, or add --read repeats={'first' if columns.kind == 'summary' else 'mean'}"
            )
        raise UolError(
            f"{label}, rows {frame.index[before]} and {frame.index[row]}: {raters[row]} rated {name} "
            f"{values[before, 0]:g} and {values[row, 0]:g} ({(~same).sum()} rows contradict an earlier one); keep one, "
            "or add --read repeats=mean, first or last"
        )
    if repeats == "mean" and columns.kind == "summary" and not same.all():
        raise CallError(f"{label}: repeats=mean is for ratings; of several means of an image choose the first or last")
    if same.all():
        notes.append(f"{counted(gone, 'repetition')} of {whose} with the same ratings: counted once")
    else:
        which = "their mean" if repeats == "mean" else f"the {repeats}"
        notes.append(f"{counted(gone, 'repetition')} of {whose}: {which} counts")
    kept = last if repeats == "last" else first
    chosen = values[kept]
    if repeats == "mean" and not same.all():
        for column in range(values.shape[1]):
            known = ~np.isnan(values[:, column])
            sums = np.bincount(codes[known], values[known, column], len(unique))
            size = np.bincount(codes[known], minlength=len(unique))
            chosen[:, column] = np.divide(sums, size, out=np.full(len(unique), np.nan), where=size > 0)
    return frame.iloc[kept], chosen, [raters[row] for row in kept] if raters else []


def _ratings(frame: pd.DataFrame, values: Floats, raters: list[str], columns: Columns, base: Path) -> Ratings:
    names = [path.relative_to(base).as_posix() for path in frame[_PATH]]
    if columns.kind == "wide":
        return Ratings.from_wide(pd.DataFrame(values, index=pd.Index(names), columns=pd.Index(columns.values)))
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


DATASET = DatasetInfo(
    name="own",
    title="Your own images and ratings",
    images=0,
    scale=None,
    terms="yours",
    expects="a folder of images, and a table of ratings (option table: CSV, TSV, XLSX, ODS, SAV or Parquet)",
    load=load_own,
)
