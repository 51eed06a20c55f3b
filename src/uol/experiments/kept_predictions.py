"""Predictions kept with results: one compressed CSV file per result and set of images, without pixels."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from uol.runs.evaluation import LENIENCY
from uol.runs.folder import RunFolder
from uol.runs.predictions import check_predictions, read_predictions
from uol.runs.result import Result
from uol.storage.csv_text import frame_text
from uol.storage.files import replacing

FOLDER = "predictions"
COLUMNS = ("image", "score", "value", "low", "high", "dispersion", LENIENCY)


class Added(NamedTuple):
    """A result's file, and what happened to it: added, replaced or unchanged."""

    path: Path
    what: str


Tables = dict[str, pd.DataFrame]  # by the data set of their images; "" are the test images


def kept_path(result: Path, tested_on: str = "") -> Path:
    """Where the predictions of a result's file are kept: of its test images, or of another data set."""
    return result.parent / FOLDER / f"{result.stem}{tested_on and f'-on-{tested_on}'}.csv.gz"


def run_tables(run: RunFolder, result: Result) -> Tables:
    """The predictions that a run folder has of what its result reports, each checked by its MAE."""
    figures = {"": result.metrics, **result.transfer, **(result.beside or {})}
    places = {"": run.predictions}
    places |= {name: run.evaluation_table(name) for name in result.transfer}
    places |= {name: run.panel(name).predictions for name in result.beside or {}}
    found = {name: read_predictions(path) for name, path in places.items() if path.is_file()}
    for name, table in found.items():
        check_predictions(places[name], table, figures[name].mae)
    return found


def keep_tables(result: Path, tables: Mapping[str, pd.DataFrame], replace: bool) -> None:
    """Write predictions that are not kept yet; with `replace`, write all and remove those of the network before."""
    for name, table in tables.items():
        path = kept_path(result, name)
        if replace or not path.is_file():
            text = frame_text(table[[column for column in COLUMNS if column in table]])
            with replacing(path) as temporary:
                temporary.write_bytes(gzip.compress(text.encode("utf-8", "surrogateescape"), 9, mtime=0))
    if replace:
        stale = {kept_path(result), *result.parent.glob(f"{FOLDER}/{result.stem}-on-*.csv.gz")}
        for path in stale - {kept_path(result, name) for name in tables}:
            path.unlink(missing_ok=True)


def kept_words(results: Sequence[Result], folder: Path | None) -> str:
    """Whether all predictions of a row's results are kept in their folder: yes, no, or where they are not."""
    if folder is None:
        return "no"
    asked = [(folder / r.file_name, name) for r in results for name in ("", *r.transfer, *(r.beside or {}))]
    missing = {name for path, name in asked if not kept_path(path, name).is_file()}
    if not missing:
        return "yes"
    return "no" if "" in missing else f"not on {', '.join(sorted(missing))}"


def read_kept(result: Path, tested_on: str = "") -> pd.DataFrame | None:
    """The kept predictions of a result's file, or None."""
    path = kept_path(result, tested_on)
    return read_predictions(path) if path.is_file() else None
