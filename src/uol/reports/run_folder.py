"""A run folder as a report shows it: missing files are left out, damaged ones are refused by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import yaml
from safetensors import SafetensorError, safe_open

from uol.errors import CallError, UolError
from uol.ratings.scale import Scale
from uol.runs.evaluation import LENIENCY
from uol.runs.folder import RunFolder, run_folders
from uol.scoring.config import CONFIG
from uol.scoring.panels import REFERENCES
from uol.storage.csv_text import unguarded_frame
from uol.storage.validation import read_object

NUMBERS = ("score", "rating_sd", "value", "low", "high", "dispersion", LENIENCY)

T = TypeVar("T")

_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Run:
    """One trained network: settings, result and model as stored, tables where there are any.

    `predictions` has finite scores and values; `left_out` counts the rows that had not.
    """

    name: str
    settings: Mapping[str, Any]
    result: Mapping[str, Any]
    model: Mapping[str, Any]
    losses: pd.DataFrame | None = None
    predictions: pd.DataFrame | None = None
    left_out: int = 0
    references: npt.NDArray[np.float64] | None = None
    evaluations: tuple[Mapping[str, Any], ...] = ()
    last_event: str = ""

    @property
    def provenance(self) -> Mapping[str, Any]:
        """How, where and from what the result was made."""
        return part(self.result, "provenance")

    @property
    def method(self) -> str:
        """The method's name."""
        return str(self.result.get("method") or self.settings.get("method") or "unknown method")

    @property
    def data(self) -> str | None:
        """The data set trained on."""
        name = self.result.get("trained_on") or part(self.provenance, "data").get("name")
        return str(name) if name else None

    @property
    def scale(self) -> Scale | None:
        """The panel's scale, if the run folder records it."""
        panel, ends = part(self.model, "panel"), part(self.provenance, "data").get("scale")
        low, high = ends if isinstance(ends, list) and len(ends) == 2 else (panel.get("low"), panel.get("high"))
        return Scale(float(low), float(high)) if number(low) and number(high) and low < high else None

    @property
    def level(self) -> float:
        """The share of panel means that the intervals should hold."""
        level = part(self.model, "calibration").get("level")
        return float(level) if number(level) and 0 < level < 1 else 0.95


def read_runs(folder: str | os.PathLike[str]) -> list[Run]:
    """The run in a folder, or the runs in its subfolders."""
    runs = [read_run(entry) for entry in run_folders(Path(folder))]
    for what, values in (("methods", {run.method for run in runs}), ("data sets", {run.data for run in runs} - {None})):
        if len(values) > 1:
            names = ", ".join(sorted(map(str, values)))
            raise CallError(f"{folder}: its runs are of different {what} ({names}); report them one by one")
    return runs


def read_run(folder: RunFolder) -> Run:
    """Everything a report needs of one run folder."""
    result = _read(folder.result, read_object, _NOTHING)
    predictions = _read(folder.predictions, _predictions, None)
    complete = (
        None if predictions is None else predictions.loc[np.isfinite(predictions["score"] + predictions["value"])]
    )
    losses = _read(folder.metrics, _losses, None)
    return Run(
        name=folder.path.resolve().name,
        settings=_read(folder.recipe, _yaml, _NOTHING) or part(part(result, "provenance"), "settings"),
        result=result,
        model=_read(folder.model / CONFIG, read_object, _NOTHING),
        losses=losses if losses is not None and len(losses) else None,
        predictions=complete.reset_index(drop=True) if complete is not None and len(complete) else None,
        left_out=0 if predictions is None or complete is None else len(predictions) - len(complete),
        references=_read(folder.model / REFERENCES, _reference_scores, None),
        evaluations=tuple(_evaluations(folder, result)),
        last_event=_read(folder.log_file, _last_line, ""),
    )


def part(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A mapping inside a mapping; empty where there is none."""
    inside = values.get(name)
    return inside if isinstance(inside, Mapping) else {}


def number(value: object) -> TypeGuard[float]:
    """Whether a stored value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def _read(path: Path, reader: Callable[[Path], T], missing: T) -> T:
    """What a file holds, or `missing` where it does not exist."""
    if not path.is_file():
        return missing
    try:
        return reader(path)
    # pandas' errors are ValueErrors
    except (OSError, ValueError, KeyError, RecursionError, yaml.YAMLError, SafetensorError) as error:
        reason = " ".join(str(error).split())
        raise UolError(f"{path}: damaged, or not a file of a run ({reason})") from error


def _yaml(path: Path) -> Mapping[str, Any]:
    values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    if not isinstance(values, Mapping):
        raise ValueError("names with values are expected")
    return values


def _predictions(path: Path) -> pd.DataFrame | None:
    """Names and groups as text, whatever they look like; the other columns as numbers."""
    table = unguarded_frame(pd.read_csv(path, dtype=str, keep_default_na=False))
    missing = {"image", "score", "value"} - set(table)
    if missing:
        raise ValueError(f"without a column {', '.join(sorted(missing))}")
    for name in NUMBERS:
        table[name] = pd.to_numeric(table[name]).astype(np.float64) if name in table else np.nan
    return table


def _losses(path: Path) -> pd.DataFrame | None:
    table = pd.read_csv(path)
    return table.apply(pd.to_numeric) if "epoch" in table else table.assign(epoch=np.arange(1, len(table) + 1))


def _reference_scores(path: Path) -> npt.NDArray[np.float64] | None:
    with safe_open(path, framework="numpy") as tensors:
        scores = np.asarray(tensors.get_tensor("score"), np.float64)
    return scores[np.isfinite(scores)] if np.isfinite(scores).any() else None


def _evaluations(folder: RunFolder, result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Figures on other data sets: files of their own, and those in the result that have none."""
    found: list[Mapping[str, Any]] = []
    for path in folder.evaluation_files():
        values = _read(path, read_object, _NOTHING)
        found.append({"data": path.stem, **part(values, "metrics"), **values})
    known = {str(row["data"]) for row in found}
    moved = part(result, "transfer")
    return found + [{"data": name, **part(moved, name)} for name in moved if name not in known]


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
