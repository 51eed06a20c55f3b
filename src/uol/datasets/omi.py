"""One Million Impressions: synthetic faces, rated 0 to 100 on 34 attributes by some 31 people each; CC BY-NC-SA 4.0."""

from __future__ import annotations

import difflib
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.datasets.checks import split_folds
from uol.datasets.dataset_info import DatasetInfo, examples
from uol.datasets.tables import numbers, read_table, texts
from uol.errors import CallError, UolError
from uol.images.paths import find_images
from uol.ratings.rated_images import Floats, RatedImages
from uol.ratings.scale import Scale

MEANS, RATINGS = "attribute_means.csv", "attribute_ratings"
LEVELS = np.arange(0.0, 101.0, 10.0)
YOUNGEST = 20.0
"""Faces whose mean perceived age is below this are left out."""

_USUAL = "attractive"
_ETHNICITIES = ("asian", "middle-eastern", "hispanic", "islander", "native", "black", "white")
_MIDDLE = 50.0  # of the attribute gender, from female at 0 to male at 100
_FOLDS = 5


def load_omi(root: str | os.PathLike[str], *, attribute: str = _USUAL) -> RatedImages:
    """Load the faces of perceived adults with what people said of one attribute, and folds `fold-1` … `fold-5`.

    Scores, variances and counts are those of the ratings of type `normal`: one for each person who saw the face, who
    are not named. The means of the download also count what the same people said when shown a face again (`repeat`)
    and trials of type `fill-in`: with all three they come out to 5e-9, without the two they differ by 1.1 on average
    and by 8.5 at most. Histograms have the ratings to the nearest ten. Groups are perceived too: `gender` is male
    from a mean of 50 of 100 on, `ethnicity` the one with the highest mean. No two of the faces are near-duplicates, so
    that folds need not keep any together; they are of like attractiveness, and the same for every attribute.
    """
    base = DATASET.folder(root, "images", MEANS, f"{RATINGS}.*")
    means = _read_means(base / MEANS)
    if attribute not in means.columns:
        near = difflib.get_close_matches(attribute.lower().replace("_", "-"), means.columns, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise CallError(f"unknown attribute {attribute!r}: {hint}there are {', '.join(means.columns)}")
    grown = means[means["age"] >= YOUNGEST]
    files = {path.stem: path for path in find_images(base / "images") if path.stem in means.index}
    notes = []
    young, absent = len(means) - len(grown), [name for name in grown.index if name not in files]
    if young:
        notes.append(f"{young} faces are left out: their mean perceived age is below {YOUNGEST:g}")
    if absent:
        notes.append(f"{len(absent)} faces have no image file: {examples(absent)}")
    kept = grown[[name in files for name in grown.index]]
    if kept.empty:
        raise UolError(f"{base / 'images'}: none of the faces that {MEANS} names, such as 1.jpg, is here")
    ratings = _read_ratings(base, attribute)
    known = kept.index.isin(ratings.index)
    if not known.all():
        notes.append(f"{(~known).sum()} faces have no rating of {attribute}: {examples(list(kept.index[~known]))}")
        kept = kept[known]
    if kept.empty:
        raise UolError(f"{base}: no face that is here has a rating of {attribute} in {RATINGS}.csv")
    said = ratings[ratings.index.isin(kept.index)]
    of_face = said.groupby(level=0)
    rated = RatedImages(
        name="omi" if attribute == _USUAL else f"omi-{attribute}",
        images=[files[name] for name in kept.index],
        names=[files[name].name for name in kept.index],
        scores=np.asarray(of_face.mean()[kept.index], np.float64),
        scale=Scale(0, 100),
        variances=np.asarray(of_face.var(ddof=1)[kept.index], np.float64),
        counts=np.asarray(of_face.size()[kept.index], np.int64),
        histograms=_histograms(said, kept.index),
        levels=LEVELS,
        groups=_groups(kept),
        notes=tuple(notes),
    )
    if len(rated) < _FOLDS:
        return rated
    alike = replace(rated, scores=kept[_USUAL].to_numpy(np.float64))
    return replace(rated, splits=split_folds(alike, _FOLDS, groups=np.arange(len(rated))))


def _read_means(file: Path) -> pd.DataFrame:
    """Means of each attribute, indexed by the name of the face, in the order of their numbers."""
    table = read_table(file)
    needed = ("stimulus", _USUAL, "age", "gender", *_ETHNICITIES)
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise UolError(f"{file}: no column {examples(missing)}; the download's own {MEANS} is wanted")
    names = texts(table["stimulus"])
    attributes = [column for column in table.columns if column != "stimulus"]
    means = pd.DataFrame({column: numbers(table[column], file.name) for column in attributes}, index=pd.Index(names))
    gaps = means.index[means[list(needed[1:])].isna().any(axis=1)]
    if len(gaps):
        raise UolError(f"{file}: face {gaps[0]} has gaps; the download's own {MEANS} is wanted")
    if not means.index.is_unique:
        raise UolError(f"{file}: face {means.index[means.index.duplicated()][0]} has two rows")
    return means.loc[sorted(means.index, key=lambda name: (len(name), name))]


def _read_ratings(base: Path, attribute: str) -> pd.Series[float]:
    """Ratings of an attribute of type normal, indexed by the name of the face: from the zip, or the file in it."""
    packed = base / f"{RATINGS}.zip"
    file = packed if packed.is_file() else base / f"{RATINGS}.csv"
    columns = ["rating", "attribute", "rating_type", "stimulus"]
    try:
        table = pd.read_csv(file, usecols=columns, dtype=dict.fromkeys(columns[1:], str))
    except (OSError, ValueError, zipfile.BadZipFile) as error:  # pandas' own errors are ValueErrors
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UolError(f"{file}: cannot be read as the download's table of ratings ({reason[:120]})") from error
    chosen = table[(table["attribute"] == attribute) & (table["rating_type"] == "normal")]
    ratings = pd.to_numeric(chosen["rating"], errors="coerce").astype(np.float64)
    outside = ~ratings.between(LEVELS[0], LEVELS[-1])
    if outside.any():
        row = outside.index[outside][0]
        raise UolError(f"{file}, row {row + 2}: rating {chosen['rating'][row]} is not within 0 to 100")
    return ratings.set_axis(pd.Index(chosen["stimulus"]))


def _histograms(said: pd.Series[float], names: pd.Index[str]) -> Floats:
    """How many ratings of each face are nearest to each level."""
    rows: npt.NDArray[np.intp] = names.get_indexer(said.index)
    found = np.zeros((len(names), LEVELS.size))
    np.add.at(found, (rows, np.rint(said.to_numpy() / 10).astype(np.intp)), 1)
    return found


def _groups(means: pd.DataFrame) -> pd.DataFrame:
    gender = np.where(means["gender"] >= _MIDDLE, "male", "female")
    ethnicity = np.array(_ETHNICITIES)[means[list(_ETHNICITIES)].to_numpy().argmax(axis=1)]
    return pd.DataFrame({"gender": gender, "ethnicity": ethnicity})


DATASET = DatasetInfo(
    name="omi",
    title="One Million Impressions",
    images=1004,
    scale=Scale(0, 100),
    terms="CC BY-NC-SA 4.0: for non-commercial use, with credit to its authors",
    expects=f"a folder with images/, {MEANS} and {RATINGS}.zip",
    load=load_omi,
)
