"""Predictions of held-out images: to choose settings and ensemble members without test images."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
import pandas as pd
from torch import Tensor

from uol.errors import CallError, UolError
from uol.ratings import metrics
from uol.runs.evaluation import predictions_table
from uol.runs.folder import RunFolder
from uol.runs.predictions import read_predictions
from uol.training.packed import PackedImages
from uol.training.predictions import Predictions
from uol.training.recipe import Recipe, held_out_rows

AVERAGE = "average"
_FOLD = re.compile(r"(fold-\d+)(?:-seed-(\d+))?")
_ROUNDED = 1e-4  # scores are written with six digits


class Figures(TypedDict):
    """Of one run, or of the average of several: means over its folds, as in tables of results.

    A correlation is None where it is undefined in a fold.
    """

    run: str
    folds: int
    images: int
    pc: float | None
    mae: float
    rmse: float


class HeldOutPredictions(NamedTuple):
    """One network per fold: the row's name, and predictions with columns fold, image, score and value."""

    name: str
    table: pd.DataFrame


def keep_held_out(
    predict: Callable[[Tensor, Tensor | None], Predictions],
    training: PackedImages,
    recipe: Recipe,
    run: RunFolder,
    known_of: Callable[[PackedImages], Tensor] | None = None,
) -> None:
    """Write predictions of those of a run's images that calibrate it, with the columns of predictions.csv.

    `known_of` is the method's; by default it is given the attributes of the images.
    """
    rows = held_out_rows(len(training), recipe)[1]
    if len(rows) == 0:
        run.held_out.unlink(missing_ok=True)
        return
    held_out = training.subset(rows)
    known = held_out.attributes if known_of is None else known_of(held_out)
    # The line was fitted on these images, as intervals and dispersion were: PC does not depend on it, MAE and RMSE are
    # a little too small, in all runs alike, and coverage cannot be judged by them.
    table = predictions_table(held_out.rated, predict(held_out.centre, known))
    run.write_held_out(table)


def figures_of(runs: Sequence[Path]) -> list[Figures]:
    """Each run's figures on the images it held out; then those of their average, on images that all of them held out.

    Without images in common there is no average. Each seed in a folder of folds counts as a run.
    """
    found: dict[str, HeldOutPredictions] = {}
    for run in runs:
        for one in _read_run(run):
            if one.name in found:
                raise CallError(f"{one.name}: given twice")
            found[one.name] = one
    average = _average(list(found.values()))
    return [_figures(one) for one in (*found.values(), *([] if average is None else [average]))]


def _read_run(folder: Path) -> list[HeldOutPredictions]:
    if not folder.is_dir():
        raise CallError(f"{folder}: no such run folder")
    run = RunFolder(folder)
    if run.held_out.is_file():
        split = run.read_result().split if run.finished else run.name
        return [HeldOutPredictions(str(run), _joined({split: _read(run.held_out)}))]
    found: dict[str | None, dict[str, pd.DataFrame]] = {}
    for fold in map(RunFolder, sorted(folder.iterdir())):
        name = _FOLD.fullmatch(fold.name)
        if name is not None and fold.held_out.is_file():
            found.setdefault(name[2], {})[name[1]] = _read(fold.held_out)
    if not found:
        raise CallError(f"{run}: no {run.held_out.name} in its folds: nothing was held out, or the run is older")
    return [
        HeldOutPredictions(str(run) if seed is None else f"{run} (seed {seed})", _joined(folds))
        for seed, folds in found.items()
    ]


def _joined(folds: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """An image may be held out in several folds, by another network in each: it then counts for each."""
    return pd.concat([table.assign(fold=fold) for fold, table in folds.items()], ignore_index=True)


def _read(path: Path) -> pd.DataFrame:
    table = read_predictions(path)[["image", "score", "value"]]
    if table["image"].duplicated().any():
        raise UolError(f"{path}: {table['image'][table['image'].duplicated()].iloc[0]} is there twice")
    return table


def _average(runs: Sequence[HeldOutPredictions]) -> HeldOutPredictions | None:
    """The mean of all predictions of each image that every run held out in the same fold."""
    if len(runs) < 2:
        return None
    first = runs[0].table.set_index(["fold", "image"])
    values = [first["value"]]
    for name, table in runs[1:]:
        other = table.set_index(["fold", "image"])
        common = first.index.intersection(other.index)
        if not np.allclose(first.loc[common, "score"], other.loc[common, "score"], atol=_ROUNDED):
            raise CallError(f"{name}: the ratings of its images differ from those of {runs[0].name}")
        values.append(other["value"])
    together = pd.concat(values, axis=1, join="inner")
    if together.empty:
        return None
    table = first.loc[together.index].assign(value=together.mean(axis=1)).reset_index()
    return HeldOutPredictions(AVERAGE, table)


def _figures(predictions: HeldOutPredictions) -> Figures:
    folds = [(fold["score"].to_numpy(), fold["value"].to_numpy()) for _, fold in predictions.table.groupby("fold")]
    pc = float(np.mean([metrics.pearson(*fold) for fold in folds]))
    return Figures(
        run=predictions.name,
        folds=len(folds),
        images=len(predictions.table),
        pc=pc if np.isfinite(pc) else None,
        mae=float(np.mean([metrics.mae(*fold) for fold in folds])),
        rmse=float(np.mean([metrics.rmse(*fold) for fold in folds])),
    )
