"""Figures of finished runs against means that are adjusted for who rated each image.

Where not everybody rated everything, an image's mean tells also how lenient its raters were. No network can know that
from the image, so it lowers every correlation with the mean; with the adjusted mean it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np
import pandas as pd

from uol.errors import CallError
from uol.experiments.bootstrap import interval, mean_of
from uol.experiments.derived import read_predictions, replicates_elsewhere, replicates_of
from uol.experiments.joint import own_split
from uol.experiments.result import read_result
from uol.experiments.trial import EVALUATIONS, PREDICTIONS, RESULT
from uol.metrics import pearson
from uol.rated_images import RatedImages
from uol.reliability import adjusted_means
from uol.run_folders import run_folders

_LINE = 1 - 1e-6  # the correlation of scores with the same on another scale, written with six digits


class Figures(TypedDict):
    """Of one run, means over its networks: correlations with the images' means and with the adjusted ones.

    Intervals are of a bootstrap over images; None where a correlation is not defined.
    """

    run: str
    networks: int
    images: int
    pc: float | None
    interval: tuple[float, float] | None
    adjusted_pc: float | None
    adjusted_interval: tuple[float, float] | None


def figures_of(runs: Sequence[Path], rated: RatedImages) -> list[Figures]:
    """Figures of what runs have said of a data set already: of a split that tested them, or of all its images."""
    if rated.ratings is None:
        raise CallError(f"{rated.name}: who gave which rating is not known, so nothing can be adjusted")
    means = pd.DataFrame({"mean": rated.scores, "adjusted": adjusted_means(rated.ratings)}, index=list(rated.names))
    return [_figures(run, rated, means) for run in runs]


def _figures(run: Path, rated: RatedImages, means: pd.DataFrame) -> Figures:
    folders = [folder for folder in run_folders(run) if (folder / RESULT).is_file()]
    if not folders:
        raise CallError(f"{run}: no finished run in it")
    images: set[str] = set()
    correlations: dict[str, list[tuple[float, list[float] | None]]] = {"mean": [], "adjusted": []}
    for folder in folders:
        own = own_split(read_result(folder / RESULT), rated.fingerprint)
        path = folder / EVALUATIONS / f"{rated.name}.csv" if own is None else folder / own.place / PREDICTIONS
        table = _read(path, folder, rated.name, means)
        images.update(table["image"])
        for kind, found in correlations.items():
            # Of a split that tested the run as its own result draws images, else as results on other data sets do.
            against = table.assign(score=means.loc[table["image"], kind].to_numpy())
            drawn = (
                replicates_elsewhere(against, rated.name)
                if own is None
                else replicates_of(against, rated.fingerprint, own.name)
            )
            found.append((pearson(against["score"], against["value"]), drawn.pc))
    (pc, ends), (adjusted_pc, adjusted_ends) = map(_over_networks, correlations.values())
    return Figures(
        run=str(run),
        networks=len(folders),
        images=len(images),
        pc=pc,
        interval=ends,
        adjusted_pc=adjusted_pc,
        adjusted_interval=adjusted_ends,
    )


def _read(path: Path, folder: Path, name: str, means: pd.DataFrame) -> pd.DataFrame:
    """Predictions of images that are in the data set with the same scores, on whatever scale."""
    if not path.is_file():
        raise CallError(f"{folder}: it has said nothing of {name} yet; uol evaluate makes {path.name}")
    table = read_predictions(path)
    unknown = table.loc[~table["image"].isin(means.index), "image"]
    if len(unknown):
        raise CallError(f"{path}: {unknown.iloc[0]} is not an image of {name} as given here")
    if pearson(table["score"], means.loc[table["image"], "mean"]) < _LINE:
        raise CallError(f"{path}: its images have other scores than in {name} as given here")
    return table


def _over_networks(
    told: Sequence[tuple[float, list[float] | None]],
) -> tuple[float | None, tuple[float, float] | None]:
    """The mean of correlations, and the interval of the mean of their replicates."""
    mean = float(np.mean([pc for pc, _ in told]))
    replicates = mean_of([drawn for _, drawn in told])
    return (mean if np.isfinite(mean) else None, None if replicates is None else interval(replicates))
