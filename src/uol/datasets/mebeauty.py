"""MEBeauty: photographs in the wild of women and men of six ethnicities, rated 1 to 10 by 360 raters."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

from uol.datasets.dataset_info import DatasetInfo, examples
from uol.datasets.matching import ImageIndex, plain_stem
from uol.datasets.tables import find_column, numbers, read_table, texts
from uol.errors import UolError
from uol.images.paths import find_images
from uol.ratings.rated_images import Floats, Indices, RatedImages, Split
from uol.ratings.ratings import Ratings
from uol.ratings.scale import Scale

LEVELS = np.arange(1.0, 11.0)
SCORES = "scores/generic_scores_all_2022.xlsx"

_SHORTEST_CUT = 24  # characters: a name on disk this long that begins a name in the table is that name, cut off


def load_mebeauty(root: str | os.PathLike[str], *, images: str = "original_images") -> RatedImages:
    """Load the rated photographs with groups `gender` and `ethnicity` and the splits of 2022.

    Scores are the means of the ratings, which agree with those of the split files (PC 0.99997). Split `2022` has the
    official train and test images, `2022-validation` the official train and validation images. `images` is the
    folder that holds {gender}/{ethnicity}/*: `cropped_images/…` of the download does as well.
    """
    base = DATASET.folder(root, images, SCORES)
    folder = base / images
    index = ImageIndex(folder, find_images(folder))
    table = read_table(base / SCORES)
    listed = dict(zip(table.index, texts(table[find_column(table, "image", (), "image")]), strict=True))
    notes: list[str] = []
    rows = _match(table, listed, folder, index, notes)
    if not rows:
        raise UolError(f"{folder}: has none of the images in {SCORES}")
    matrix = _ratings(table.loc[list(rows.values())], notes)
    rated = np.flatnonzero(~np.isnan(matrix.to_numpy()).all(axis=1))
    paths = [list(rows)[row] for row in rated]
    names = [path.relative_to(folder).as_posix() for path in paths]
    ratings = Ratings.from_wide(matrix.iloc[rated].set_axis(pd.Index(names)))
    return RatedImages(
        name="mebeauty",
        images=paths,
        names=names,
        scores=ratings.mean,
        scale=Scale(1, 10),
        variances=ratings.variance,
        counts=ratings.count,
        histograms=ratings.histogram(LEVELS),
        levels=LEVELS,
        groups=pd.DataFrame([path.parts[-3:-1] for path in paths], columns=["gender", "ethnicity"]),
        splits=_splits(base / "scores", [listed[rows[path]] for path in paths], notes),
        ratings=ratings,
        notes=tuple(notes),
    )


def _match(
    table: pd.DataFrame, listed: dict[int, str], folder: Path, index: ImageIndex, notes: list[str]
) -> dict[Path, int]:
    """The row of the table for each image file that has one, and notes on what does not fit."""
    longer = texts(table[find_column(table, "path", (), "path")])  # has the folders, but not in every row
    rows: dict[Path, int] = {}
    lost: dict[int, str] = {}
    repeated = []
    for (row, name), path in zip(listed.items(), longer, strict=True):
        found = index.find(path if plain_stem(path) == plain_stem(name) else name)
        if not found:
            lost[row] = name
        elif found[0] in rows:
            repeated.append(name)
        else:
            rows[found[0]] = row
    cut = _match_cut_off(lost, index, rows)
    unused = sorted(path.relative_to(folder).as_posix() for path in index if path not in rows)
    for number, what, names in (
        (len(repeated), "rows repeat an image; the first counts", sorted(set(repeated))),
        (len(cut), "images are named by the beginning of the name in the table", cut),
        (len(lost), "rows have no image file", list(lost.values())),
        (len(unused), "image files have no row", unused),
    ):
        if number:
            notes.append(f"{number} {what}: {examples(names)}")
    return rows


def _match_cut_off(lost: dict[int, str], index: ImageIndex, rows: dict[Path, int]) -> list[str]:
    """Match files whose long names were cut off; what is found moves from `lost` to `rows`."""
    stems = {row: plain_stem(name) for row, name in lost.items()}
    cut = []
    for path in index:
        stem = plain_stem(path.name)
        begun = [row for row, whole in stems.items() if whole.startswith(stem)]
        if path not in rows and len(stem) >= _SHORTEST_CUT and len(begun) == 1:
            rows[path] = begun[0]
            cut.append(path.name)
            del lost[begun[0]], stems[begun[0]]
    return cut


def _ratings(table: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """The ratings, a column per rater, without those that are not on the scale."""
    raters = [column for column in table.columns if column.lower() not in ("mean", "image", "path")]
    matrix: Floats = np.column_stack([numbers(table[rater], SCORES) for rater in raters])
    outside = (matrix < LEVELS[0]) | (matrix > LEVELS[-1])
    if outside.any():
        notes.append(f"{outside.sum()} ratings are not within 1 to 10 and were dropped, such as {matrix[outside][0]:g}")
        matrix[outside] = np.nan
    empty = int(np.isnan(matrix).all(axis=1).sum())
    if empty:
        notes.append(f"{empty} images have no rating and were left out")
    return pd.DataFrame(matrix, columns=raters)


def _splits(folder: Path, listed: list[str], notes: list[str]) -> dict[str, Split]:
    """The splits of 2022 of the images `listed` in the table of scores.

    An image that two files name belongs to the first of train, test and validation.
    """
    position = {plain_stem(name): i for i, name in enumerate(listed)}
    placed: set[int] = set()
    sides: dict[str, Indices] = {}
    unknown, twice = [], []
    for side in ("train", "test", "val"):
        file = folder / f"{side}_2022.txt"
        if not file.is_file():
            notes.append(f"no splits: scores/{file.name} is missing")
            return {}
        chosen = []
        for line in file.read_text(encoding="utf-8").splitlines():
            stem = plain_stem(line.strip().rpartition(" ")[0])
            if stem not in position:
                unknown.append(stem)
            elif position[stem] in placed:
                twice.append(stem)
            else:
                placed.add(position[stem])
                chosen.append(position[stem])
        sides[side] = np.array(chosen, np.intp)
    if unknown:
        notes.append(f"{len(unknown)} lines of the split files name no rated image: {examples(unknown)}")
    if twice:
        notes.append(f"{len(twice)} lines of the split files repeat an image: {examples(sorted(set(twice)))}")
    return {
        "2022": Split(sides["train"], sides["test"]),
        "2022-validation": Split(sides["train"], sides["val"]),
    }


DATASET = DatasetInfo(
    name="mebeauty",
    title="MEBeauty",
    images=2545,
    scale=Scale(1, 10),
    terms="for non-commercial research only",
    expects=f"a folder with original_images/{{female,male}}/{{ethnicity}}/ and {SCORES}",
    load=load_mebeauty,
)
