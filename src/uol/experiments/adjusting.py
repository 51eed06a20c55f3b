"""Figures of finished runs against means that are adjusted for who rated each image.

Where not everybody rated everything, an image's mean depends also on how lenient its raters were. An image shows little
or nothing of that, so it lowers correlations with the mean, and those with the adjusted mean less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np
import pandas as pd

from uol.errors import CallError
from uol.ratings.metrics import pearson
from uol.ratings.rated_images import RatedImages
from uol.ratings.rater_effects import adjusted_means, unconnected_sets
from uol.runs.bootstrap import interval, mean_of
from uol.runs.folder import RunFolder, run_folders
from uol.runs.lineage import Lineage, TrainedSplit
from uol.runs.predictions import read_predictions, replicates_elsewhere, replicates_of
from uol.runs.result import Result, is_fold

FEWEST = 3  # images
_LINE = 1 - 1e-6  # the correlation of scores with the same on another scale, written with six digits


class Figures(TypedDict):
    """Of one run, means over its folds: correlations with the images' means and with the adjusted ones.

    Intervals are of a bootstrap over images; None where a correlation is not defined, as with adjusted means where no
    rater connects some images with the others.
    """

    run: str
    folds: int
    images: int
    pc: float | None
    interval: tuple[float, float] | None
    adjusted_pc: float | None
    adjusted_interval: tuple[float, float] | None


def figures_of(runs: Sequence[Path], rated: RatedImages) -> list[Figures]:
    """Figures of what runs have said of a data set already: of a split that tested them, or of all its images.

    Networks of several seeds in one folder count as separate runs.
    """
    if rated.ratings is None:
        raise CallError(f"{rated.name}: who gave which rating is not known, so nothing can be adjusted")
    means = pd.DataFrame({"mean": rated.scores, "adjusted": adjusted_means(rated.ratings)}, index=list(rated.names))
    if unconnected_sets(rated.ratings) > 1:  # each on another scale: no correlation with constants is defined
        means["adjusted"] = 0.0
    return [_figures(name, folders, rated, means) for run in runs for name, folders in _by_seed(run).items()]


def _by_seed(run: Path) -> dict[str, dict[RunFolder, Result]]:
    """The finished runs in a folder, its folds alone where it has any; each seed under another name."""
    found = {folder: folder.read_result() for folder in run_folders(run) if folder.finished}
    if not found:
        raise CallError(f"{run}: no finished run in it")
    if any(is_fold(result.split) for result in found.values()):
        found = {folder: result for folder, result in found.items() if is_fold(result.split)}
    first: dict[tuple[str, int], RunFolder] = {}
    for folder, result in found.items():
        other = first.setdefault((result.split, result.seed), folder)
        if other != folder:
            raise CallError(f"{run}: {other.name} and {folder.name} are both of {result.split}; name one of them")
    seeds = sorted({result.seed for result in found.values()})
    return {
        str(run) if len(seeds) == 1 else f"{run} (seed {seed})": {
            folder: result for folder, result in found.items() if result.seed == seed
        }
        for seed in seeds
    }


def _figures(name: str, folders: Mapping[RunFolder, Result], rated: RatedImages, means: pd.DataFrame) -> Figures:
    images: set[str] = set()
    correlations: dict[str, list[tuple[float, list[float] | None]]] = {"mean": [], "adjusted": []}
    for folder, result in folders.items():
        own = Lineage.of(result).split_of(rated.fingerprint)
        table = _read(folder, own, rated.name, means)
        images.update(table["image"])
        for kind, found in correlations.items():
            # A split that tested the run is drawn as its result draws images, others as results on other data sets are.
            against = table.assign(score=means.loc[table["image"], kind].to_numpy())
            drawn = (
                replicates_elsewhere(against, rated.name)
                if own is None
                else replicates_of(against, rated.fingerprint, own.name)
            )
            found.append((pearson(against["score"], against["value"]), drawn.pc))
    (pc, ends), (adjusted_pc, adjusted_ends) = map(_over_folds, correlations.values())
    return Figures(
        run=name,
        folds=len(folders),
        images=len(images),
        pc=pc,
        interval=ends,
        adjusted_pc=adjusted_pc,
        adjusted_interval=adjusted_ends,
    )


def _read(folder: RunFolder, own: TrainedSplit | None, name: str, means: pd.DataFrame) -> pd.DataFrame:
    """What a run said of images that are in the data set with the same scores, on whatever scale."""
    path = folder.evaluation_table(name) if own is None else own.folder(folder).predictions
    if not path.is_file():
        if own is None:
            raise CallError(f"{folder}: it was not asked about {name} (uol evaluate keeps what a network says of it)")
        raise CallError(f"{folder}: it learnt from {name} and kept none of its images to test on")
    table = read_predictions(path)
    unknown = table.loc[~table["image"].isin(means.index), "image"]
    if len(unknown):
        raise CallError(f"{path}: {unknown.iloc[0]} is not an image of {name} as given here")
    # A line through two points says nothing, and scores that do not differ even less.
    if len(table) < FEWEST or not pearson(table["score"], means.loc[table["image"], "mean"]) >= _LINE:
        raise CallError(
            f"{path}: its images have other scores than in {name} as given here, or are fewer than {FEWEST}"
        )
    return table


def _over_folds(
    found: Sequence[tuple[float, list[float] | None]],
) -> tuple[float | None, tuple[float, float] | None]:
    """The mean of correlations, and the interval of the mean of their replicates."""
    mean = float(np.mean([pc for pc, _ in found]))
    replicates = mean_of([drawn for _, drawn in found])
    return (mean if np.isfinite(mean) else None, None if replicates is None else interval(replicates))
