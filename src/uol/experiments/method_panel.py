"""Panels of methods: on images that nobody rated, the trimmed mean of the methods' scores stands in for the truth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import Field

import uol
from uol.errors import CallError, UolError
from uol.experiments.plans import BASE, PLANS
from uol.ratings import metrics
from uol.runs.folder import RunFolder
from uol.runs.makeup import GREY_FERET
from uol.runs.result import PANEL as PREFIX
from uol.runs.result import Correlation, Name, Result, is_fold
from uol.runs.result_checks import check_repeatable
from uol.storage import provenance
from uol.storage.csv_text import unguarded_frame
from uol.storage.files import write_json
from uol.storage.validation import Strict, read_validated

Floats = npt.NDArray[np.float64]

PANEL_DATA = ("color-feret", GREY_FERET)
METHODS = tuple(dict.fromkeys(row.method for row in PLANS["methods"].rows))


def trimmed_mean(scores: npt.ArrayLike) -> Floats:
    """Scores of M methods, (M, N), to a stand-in truth (N,): each image's mean without its lowest and highest."""
    ordered = np.sort(np.asarray(scores, np.float64), axis=0)
    if len(ordered) < 3:
        raise CallError("a panel needs three methods: its lowest and its highest score of each image are dropped")
    mean: Floats = ordered[1:-1].mean(0)
    return mean


class Agreement(NamedTuple):
    """A method's correlation with the panel's trimmed mean, and with that of the others alone."""

    pc: float
    pc_others: float


def panel_agreement(scores: Mapping[str, npt.ArrayLike]) -> dict[str, Agreement]:
    """How far each method of a panel agrees with it.

    The method is itself one of the panel, which flatters those that lie in its middle; `pc_others` leaves it out, and
    is NaN where fewer than three others remain.
    """
    names: Sequence[str] = list(scores)
    values = np.stack([np.asarray(scores[name], np.float64) for name in names])
    truth = trimmed_mean(values)
    found = {}
    for row, name in enumerate(names):
        others = np.delete(values, row, axis=0)
        without = metrics.pearson(trimmed_mean(others), values[row]) if len(others) >= 3 else math.nan
        found[name] = Agreement(metrics.pearson(truth, values[row]), without)
    return found


class Member(Strict):
    """How far a method agrees with the panel: means over folds, and each fold's; `pc_others` leaves itself out."""

    pc: Correlation
    pc_others: Correlation | None
    pc_folds: list[Correlation]


class Network(Strict):
    """A network that the panel heard, and where it came from."""

    method: str
    recipe: str
    split: str
    seed: int
    command: str
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")


class Panel(Strict):
    """One panel on one data set, with what it takes to repeat it."""

    name: Name
    data: Name
    images: int = Field(ge=2)
    demonstration: bool = Field(description="a stand-in for the paper's data set: the protocol, not its figure")
    folds: int = Field(ge=1)
    members: dict[str, Member]
    networks: list[Network]
    command: str
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")
    uol: str
    made: str

    @property
    def file_name(self) -> str:
        """The name of its file in the folder of its data set."""
        return f"{PREFIX}{self.name}.json"


def make_panel(
    runs: Path, data: str, name: str = "methods", methods: Sequence[str] = METHODS, recipe: str = BASE, seed: int = 0
) -> Panel:
    """Let a plan's networks judge a data set: fold k's networks of all methods are one panel; figures are means."""
    values: dict[str, dict[str, pd.Series[float]]] = {}
    networks: list[Network] = []
    for method in methods:
        for run in map(RunFolder, sorted((runs / f"{method}-{recipe}").glob("fold-*"))):
            if run.evaluation_table(data).is_file() and run.finished:
                result = run.read_result()
                if result.seed == seed and is_fold(result.split):
                    networks.append(_network(run.result, result))
                    values.setdefault(result.split, {})[method] = _scores(run.evaluation_table(data))
    whole = {split: found for split, found in values.items() if len(found) == len(methods)}
    if not whole:
        raise CallError(
            f"{runs}: no fold has scores on {data} of all of {', '.join(methods)}; uol experiment run --also"
        )
    agreed = {split: panel_agreement(_aligned(found, f"{runs}, {split}")) for split, found in sorted(whole.items())}
    images = len(next(iter(next(iter(whole.values())).values())))
    code = provenance.checked_out("panel")
    return Panel(
        name=name,
        data=data,
        images=images,
        demonstration=data == GREY_FERET,
        folds=len(agreed),
        members={method: _member([found[method] for found in agreed.values()]) for method in methods},
        networks=[network for network in networks if network.split in whole],
        command=provenance.command(),
        commit=code,
        uol=uol.__version__,
        made=provenance.now(),
    )


def write_panel(results: Path, panel: Panel) -> Path:
    """Keep a panel among the results, in the folder of its data set."""
    path = results / panel.data / panel.file_name
    write_json(path, panel.model_dump())
    return path


def read_panels(folder: Path) -> list[Panel]:
    """The panels in a folder of results."""
    return [read_validated(Panel, path) for path in sorted(folder.glob(f"{PREFIX}*.json"))]


def _member(folds: Sequence[Agreement]) -> Member:
    others = [fold.pc_others for fold in folds]
    if not all(math.isfinite(fold.pc) for fold in folds):
        raise UolError("a method gives all images the same score: no correlation is defined")
    return Member(
        pc=fmean(fold.pc for fold in folds),
        pc_others=fmean(others) if all(map(math.isfinite, others)) else None,
        pc_folds=[fold.pc for fold in folds],
    )


def _network(path: Path, result: Result) -> Network:
    check_repeatable(path, result.provenance)
    made = result.provenance
    return Network(
        method=result.method, recipe=result.recipe, split=result.split, seed=result.seed, command=made.command,
        commit=str(made.commit),
    )  # fmt: skip


def _scores(path: Path) -> pd.Series[float]:
    try:
        columns = pd.read_csv(path, usecols=["image", "value"], converters={"image": str}, dtype={"value": np.float64})
        table = unguarded_frame(columns)
    except (OSError, ValueError) as error:
        raise UolError(f"{path}: not readable as predictions") from error
    return table.set_index("image")["value"]


def _aligned(found: dict[str, pd.Series[float]], where: str) -> dict[str, Floats]:
    """The methods' scores of the same images, in the same order."""
    first = next(iter(found.values()))
    for method, scores in found.items():
        if not scores.index.equals(first.index):
            raise UolError(f"{where}: {method} scored other images than the rest of the panel")
    return {method: np.asarray(scores, np.float64) for method, scores in found.items()}
