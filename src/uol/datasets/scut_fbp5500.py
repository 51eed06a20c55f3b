"""SCUT-FBP5500: 5500 faces, each rated 1 to 5 by 60 raters, with five official folds and 86 landmarks per face."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from uol.datasets.dataset_info import DatasetInfo, examples
from uol.datasets.tables import find_column, numbers, read_table, texts
from uol.errors import UolError
from uol.ratings.rated_images import Floats, RatedImages, Split
from uol.ratings.ratings import Ratings
from uol.ratings.scale import Scale

FRAME = 350
"""Width and height in pixels of the original images, to which the landmarks refer."""

LANDMARKS = 86
LEVELS = np.arange(1.0, 6.0)

_SPLITS = {
    **{f"fold-{k}": f"5_folders_cross_validations_files/cross_validation_{k}/{{side}}_{k}.txt" for k in range(1, 6)},
    "60-40": "split_of_60%training and 40%testing/{side}.txt",
}
_GROUPS = {
    "af": ("female", "asian"),
    "am": ("male", "asian"),
    "cf": ("female", "caucasian"),
    "cm": ("male", "caucasian"),
    "fty": ("female", "asian"),  # names of the first release
    "mty": ("male", "asian"),
    "ftw": ("female", "caucasian"),
    "mtw": ("male", "caucasian"),
}
_NAME = re.compile(r"([a-z]+)(\d+)\.[a-z]+", re.IGNORECASE)
_RATERS = 60  # each of them rated every image
_RATINGS_KINDS = ("parquet", "csv", "xlsx")  # the quickest to read first
_TOLERANCE = 1e-4  # official means are printed with six decimals


def load_scut_fbp5500(root: str | os.PathLike[str], *, with_ratings: bool = True) -> RatedImages:
    """Load the faces with splits `fold-1` … `fold-5` and `60-40`, and groups `gender` and `ethnicity`.

    Scores are the official means. Ratings by rater come from `All_Ratings.xlsx`, a slow read of ten seconds or more:
    the same table saved next to it as `All_Ratings.parquet` or `.csv` is read instead, and `with_ratings=False` skips
    all of them. Without them, `rating_counts.csv` gives how many raters gave each score. Ratings whose mean is
    not the official score are refused.
    """
    base = DATASET.folder(root, "Images", "train_test_files")
    scores, sides = _read_splits(base / "train_test_files")
    there = {path.name for path in (base / "Images").iterdir()}
    missing = sorted((name for name in scores if name not in there), key=_order)
    names = sorted((name for name in scores if name in there), key=_order)
    if not names:
        raise UolError(f"{base / 'Images'}: has none of the images in train_test_files, such as {missing[0]}")
    means = np.array([scores[name] for name in names])
    notes = [f"{len(missing)} rated images are not in Images: {examples(missing)}"] if missing else []
    ratings = histograms = None
    by_rater = [file for file in (base / f"All_Ratings.{kind}" for kind in _RATINGS_KINDS) if file.is_file()]
    if with_ratings and by_rater:
        ratings = _only(load_ratings(by_rater[0]), names, by_rater[0].name)
        histograms = ratings.histogram(LEVELS)
    elif (base / "rating_counts.csv").is_file():
        histograms = _read_counts(base / "rating_counts.csv", names)
    else:
        notes.append("no All_Ratings.xlsx or rating_counts.csv read: the variance of the ratings is not known")
    if histograms is not None:
        _check_means(histograms @ LEVELS / histograms.sum(axis=1), means, names)
    return RatedImages(
        name="scut-fbp5500",
        images=[base / "Images" / name for name in names],
        names=names,
        scores=means,
        scale=Scale(1, 5),
        variances=np.empty(0) if histograms is None else _variances(histograms),
        counts=np.empty(0, np.int64) if histograms is None else histograms.sum(axis=1).round().astype(np.int64),
        histograms=histograms,
        levels=None if histograms is None else LEVELS,
        groups=groups(names),
        splits=_as_splits(names, sides),
        ratings=ratings,
        people=None if histograms is None else _RATERS,
        notes=tuple(notes),
    )


def load_ratings(file: str | os.PathLike[str]) -> Ratings:
    """Ratings by rater from `All_Ratings.xlsx` or a part of it: columns Rater, Filename, Rating.

    Of a face that a rater saw twice, Rating is the later one, which counts (original Rating is the earlier).
    """
    table = read_table(file)
    columns = {name: find_column(table, name, (), "ratings") for name in ("Rater", "Filename", "Rating")}
    values = numbers(table[columns["Rating"]], Path(file).name)
    outside = np.flatnonzero((values < LEVELS[0]) | (values > LEVELS[-1]))
    if outside.size:
        raise UolError(f"{file}, row {table.index[outside[0]]}: rating {values[outside[0]]:g} is not within 1 to 5")
    return Ratings.from_long(texts(table[columns["Filename"]]), texts(table[columns["Rater"]]), values.tolist())


def groups(names: Iterable[str]) -> pd.DataFrame:
    """Gender and ethnicity, from the file names: AF12.jpg, or fty12.jpg in the first release."""
    found = []
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None or match[1].lower() not in _GROUPS:
            raise UolError(f"{name}: not an image name of SCUT-FBP5500, such as AF12.jpg or fty12.jpg")
        found.append(_GROUPS[match[1].lower()])
    return pd.DataFrame(found, columns=["gender", "ethnicity"])


def read_landmarks(file: str | os.PathLike[str]) -> Floats:
    """The 86 landmarks (86, 2) of a face, x and y as fractions of the frame; NaN where the file holds no points.

    The file is binary: an int32 count, then x and y as float32, in pixels of the original 350 × 350. One official
    file (CM152) is empty.
    """
    try:
        raw = Path(file).read_bytes()
    except OSError as error:
        raise UolError(f"{file}: cannot read the landmarks ({error.strerror})") from error
    count = int.from_bytes(raw[:4], "little", signed=True)
    if len(raw) == 4 and count == 0:
        return np.full((LANDMARKS, 2), np.nan)
    if count != LANDMARKS or len(raw) != 4 + 8 * LANDMARKS:
        raise UolError(f"{file}: not a file of {LANDMARKS} landmarks ({len(raw)} bytes, count {count})")
    points: Floats = np.frombuffer(raw, "<f4", offset=4).astype(np.float64).reshape(LANDMARKS, 2) / FRAME
    return points


def landmarks(root: str | os.PathLike[str], names: Iterable[str]) -> Floats:
    """The landmarks (n, 86, 2) of the named images, from the official folder `facial landmark`."""
    folder = DATASET.folder(root, "facial landmark") / "facial landmark"
    return np.array([read_landmarks(folder / Path(name).with_suffix(".pts").name) for name in names])


def _read_splits(folder: Path) -> tuple[dict[str, float], dict[str, dict[str, list[str]]]]:
    """The official mean score of every image, and the names on each side of every split."""
    scores: dict[str, float] = {}
    sides: dict[str, dict[str, list[str]]] = {}
    for split, pattern in _SPLITS.items():
        for side in ("train", "test"):
            file = folder / pattern.format(side=side)
            if not file.is_file():
                raise UolError(f"{file}: missing from the {DATASET.title} download")
            listed = sides.setdefault(split, {}).setdefault(side, [])
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
                name, _, score = line.strip().rpartition(" ")
                try:
                    value = float(score) if name else np.nan
                except ValueError:
                    value = np.nan
                if not np.isfinite(value) or abs(scores.setdefault(name, value) - value) > _TOLERANCE:
                    raise UolError(f"{file}, line {number}: expected an image and its one score; got {line!r}")
                listed.append(name)
    return scores, sides


def _as_splits(names: list[str], sides: Mapping[str, Mapping[str, list[str]]]) -> dict[str, Split]:
    index = {name: i for i, name in enumerate(names)}
    found = {}
    for split, side in sides.items():
        train, test = (
            np.array([index[name] for name in side[part] if name in index], np.intp) for part in ("train", "test")
        )
        found[split] = Split(train, test)
    return found


def _read_counts(file: Path, names: list[str]) -> Floats:
    """How many raters gave each score 1 … 5, in the order of `names`."""
    table = read_table(file)
    image = find_column(table, "filename", (), "image")
    levels = [find_column(table, f"{level:g}", (), "counts") for level in LEVELS]
    counts = pd.DataFrame({level: numbers(table[level], file.name) for level in levels}, index=texts(table[image]))
    unknown = [name for name in names if name not in counts.index]
    if unknown or counts.index.has_duplicates or counts.isna().any(axis=None):
        raise UolError(f"{file}: needs the five counts of every image, once (missing: {examples(unknown) or 'cells'})")
    found: Floats = counts.loc[names].to_numpy(np.float64)
    return found


def _only(ratings: Ratings, names: list[str], file: str) -> Ratings:
    """The ratings of the named images, in their order."""
    rows = {image: row for row, image in enumerate(ratings.images)}
    unrated = [name for name in names if name not in rows]
    if unrated:
        raise UolError(f"{file}: no ratings of {len(unrated)} images: {examples(unrated)}")
    return ratings.subset([rows[name] for name in names])


def _check_means(found: Floats, official: Floats, names: list[str]) -> None:
    worst = int(np.argmax(np.abs(found - official)))
    if abs(found[worst] - official[worst]) > _TOLERANCE:
        raise UolError(
            f"scut-fbp5500: the ratings of {names[worst]} have mean {found[worst]:.6f} but its official score is "
            f"{official[worst]:.6f}; ratings and train_test_files are not of the same release"
        )


def _variances(histograms: Floats) -> Floats:
    """Variance of the ratings counted in each row, Σ c(l − l̄)² / (n − 1); NaN where there is one rating only."""
    count = histograms.sum(axis=1)
    mean = histograms @ LEVELS / count
    squares = np.sum(histograms * (LEVELS - mean[:, None]) ** 2, axis=1)
    variances: Floats = np.divide(squares, count - 1, out=np.full(len(count), np.nan), where=count > 1)
    return variances


def _order(name: str) -> tuple[str, int]:
    match = _NAME.fullmatch(name)
    return (match[1].lower(), int(match[2])) if match else (name, 0)


DATASET = DatasetInfo(
    name="scut-fbp5500",
    title="SCUT-FBP5500",
    images=5500,
    scale=Scale(1, 5),
    terms="free for non-commercial research only; no redistribution",
    expects="a folder (SCUT-FBP5500_v2) with Images/ and train_test_files/",
    load=load_scut_fbp5500,
)
