"""What networks say of the images they held out: to choose settings and ensemble members without test images."""

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
from uol.runs.predictions import read_predictions
from uol.runs.result import read_result
from uol.runs.run import held_out_rows
from uol.storage.csv_text import frame_text
from uol.storage.files import write_text
from uol.training.batches import PackedImages
from uol.training.predictions import Predictions
from uol.training.recipe import Recipe

HELD_OUT = "held-out.csv"
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


class Told(NamedTuple):
    """One network per fold: its row's name, and what was predicted, with columns fold, image, score and value."""

    name: str
    table: pd.DataFrame


def keep_held_out(
    predict: Callable[[Tensor, Tensor | None], Predictions], training: PackedImages, recipe: Recipe, folder: Path
) -> None:
    """Write predictions of those of a run's images that calibrate it, with the columns of predictions.csv."""
    rows = held_out_rows(len(training), recipe)[1]
    if len(rows) == 0:
        (folder / HELD_OUT).unlink(missing_ok=True)
        return
    held_out = training.subset(rows)
    # The line was fitted on these very images, as intervals and dispersion were: PC does not feel it, MAE and RMSE come
    # out a little small, of all runs alike, and whether intervals hold is not told by them.
    table = predictions_table(held_out.rated, predict(held_out.centre, held_out.attributes))
    write_text(folder / HELD_OUT, frame_text(table, digits=6))


def figures_of(runs: Sequence[Path]) -> list[Figures]:
    """Each run's figures on the images it held out; then those of their average, on images that all of them held out.

    Without images in common there is no average. Networks of other seeds beside a run's folds are runs of their own.
    """
    told: dict[str, Told] = {}
    for run in runs:
        for one in _read_run(run):
            if one.name in told:
                raise CallError(f"{one.name}: given twice")
            told[one.name] = one
    average = _average(list(told.values()))
    return [_figures(one) for one in (*told.values(), *([] if average is None else [average]))]


def _read_run(run: Path) -> list[Told]:
    if not run.is_dir():
        raise CallError(f"{run}: no such run folder")
    if (run / HELD_OUT).is_file():
        return [Told(str(run), _joined({_split_of(run): _read(run / HELD_OUT)}))]
    found: dict[str | None, dict[str, pd.DataFrame]] = {}
    for path in sorted(run.glob(f"fold-*/{HELD_OUT}")):
        name = _FOLD.fullmatch(path.parent.name)
        if name is not None:
            found.setdefault(name[2], {})[name[1]] = _read(path)
    if not found:
        raise CallError(f"{run}: no {HELD_OUT} in its folds: nothing was held out, or it is older than that file")
    return [Told(str(run) if seed is None else f"{run} (seed {seed})", _joined(folds)) for seed, folds in found.items()]


def _split_of(run: Path) -> str:
    """The split of a single run, by which its images are matched with those of others."""
    return read_result(run / "result.json").split if (run / "result.json").is_file() else run.name


def _joined(folds: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """An image may be held out in several folds, by another network in each: it then counts for each."""
    return pd.concat([table.assign(fold=fold) for fold, table in folds.items()], ignore_index=True)


def _read(path: Path) -> pd.DataFrame:
    table = read_predictions(path)[["image", "score", "value"]]
    if table["image"].duplicated().any():
        raise UolError(f"{path}: {table['image'][table['image'].duplicated()].iloc[0]} is there twice")
    return table


def _average(told: Sequence[Told]) -> Told | None:
    """The mean of all predictions of each image that every run held out in the same fold."""
    if len(told) < 2:
        return None
    first = told[0].table.set_index(["fold", "image"])
    values = [first["value"]]
    for name, table in told[1:]:
        other = table.set_index(["fold", "image"])
        common = first.index.intersection(other.index)
        if not np.allclose(first.loc[common, "score"], other.loc[common, "score"], atol=_ROUNDED):
            raise CallError(f"{name}: its images have other ratings than those of {told[0].name}")
        values.append(other["value"])
    together = pd.concat(values, axis=1, join="inner")
    if together.empty:
        return None
    table = first.loc[together.index].assign(value=together.mean(axis=1)).reset_index()
    return Told(AVERAGE, table)


def _figures(told: Told) -> Figures:
    folds = [(fold["score"].to_numpy(), fold["value"].to_numpy()) for _, fold in told.table.groupby("fold")]
    pc = float(np.mean([metrics.pearson(*fold) for fold in folds]))
    return Figures(
        run=told.name,
        folds=len(folds),
        images=len(told.table),
        pc=pc if np.isfinite(pc) else None,
        mae=float(np.mean([metrics.mae(*fold) for fold in folds])),
        rmse=float(np.mean([metrics.rmse(*fold) for fold in folds])),
    )
