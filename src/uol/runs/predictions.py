"""What follows from a run's predictions beside its figures: bootstrap replicates, ranges of scores, groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from uol.errors import UolError
from uol.ratings.metrics import mae, pearson, rmse
from uol.runs.bootstrap import draws, replicated
from uol.runs.evaluation import LENIENCY
from uol.runs.groups import groups_of, with_others
from uol.runs.result import Group, KnownRaters, Replicates, Result, Spread, Transfer
from uol.storage.csv_text import unguarded_frame

PARTS = 40  # of the scale, in which predictions are counted: of width 0.1 on a scale of 1 to 5
_NEAR = 1e-3  # figures of a table written with six digits are this near to those it was made for


def replicates_of(table: pd.DataFrame, data: str, split: str) -> Replicates:
    """Replicates of all three figures, from a table of predictions (columns score and value)."""
    return Replicates(**replicated(table["score"], table["value"], draws(data, split, len(table)))._asdict())


def replicates_elsewhere(table: pd.DataFrame, data: str) -> Replicates:
    """Replicates of the correlation on another data set, taken whole; its name alone says which images are drawn."""
    return Replicates(pc=replicates_of(table, data, "whole").pc)


def tested_parts(table: pd.DataFrame, data: str, split: str) -> dict[str, Any]:
    """What a result keeps of a table of predictions of its test images, beside figures and groups."""
    known = known_raters_of(table, data, split)
    return {
        "replicates": replicates_of(table, data, split).model_dump(),
        "known_raters": None if known is None else known.model_dump(),
    }


def known_raters_of(table: pd.DataFrame, data: str, split: str) -> KnownRaters | None:
    """Figures of value + leniency, what an image's own raters should give it; None where the table tells of no raters.

    Images are drawn as for the figures of the values alone, so that both can be compared.
    """
    if LENIENCY not in table:
        return None
    told = table.assign(value=table["value"] + table[LENIENCY])
    score, value = told["score"].to_numpy(), told["value"].to_numpy()
    pc = pearson(score, value)
    return KnownRaters(
        pc=pc if np.isfinite(pc) else None,
        mae=mae(score, value),
        rmse=rmse(score, value),
        replicates=replicates_of(told, data, split),
    )


def spread_of(table: pd.DataFrame, scale: Sequence[float]) -> Spread:
    """How far predictions and panel means reach on the same images."""
    edges = np.linspace(scale[0], scale[1], PARTS + 1)
    value, score = (np.clip(table[name].to_numpy(np.float64), scale[0], scale[1]) for name in ("value", "score"))
    return Spread(
        predicted_ends=[float(value.min()), float(value.max())],
        panel_ends=[float(score.min()), float(score.max())],
        predicted=[int(count) for count in np.histogram(value, edges)[0]],
        panel=[int(count) for count in np.histogram(score, edges)[0]],
    )


def completed(result: Result, run: Path) -> Result:
    """A result with what its run's predictions say beside figures, where it has that not yet and they are at hand."""
    changes: dict[str, object] = {}
    data, path = result.provenance.data, run / "predictions.csv"
    lacking = None in (result.replicates, result.spread) or _untold(result.groups)
    if lacking and path.is_file():
        table = read_predictions(path)
        check_predictions(path, table, result.metrics.mae)
        changes = {
            "replicates": result.replicates or replicates_of(table, data.fingerprint, result.split),
            "spread": result.spread or spread_of(table, data.scale),
            "groups": with_others(result.groups, groups_of(table)),
        }
    transfer = {
        name: _completed_elsewhere(figures, name, run / "evaluations" / f"{name}.csv")
        for name, figures in result.transfer.items()
    }
    return result.model_copy(update={**changes, "transfer": transfer})


def _completed_elsewhere(figures: Transfer, name: str, path: Path) -> Transfer:
    if not (figures.replicates is None or _untold(figures.groups)) or not path.is_file():
        return figures
    table = read_predictions(path)
    check_predictions(path, table, figures.mae)
    found = with_others(figures.groups, groups_of(table))
    replicates = figures.replicates or replicates_elsewhere(table, name)
    return figures.model_copy(update={"replicates": replicates, "groups": found})


def _untold(groups: dict[str, Group] | None) -> bool:
    """Whether figures of groups lack, or what they tell of other images."""
    return groups is None or any(group.others is None for group in groups.values())


def check_predictions(path: Path, table: pd.DataFrame, mae: float | None) -> None:
    """Refuse predictions of another network than the one the figures are of."""
    found = float((table["score"] - table["value"]).abs().mean())
    if mae is not None and abs(found - mae) > _NEAR * max(1.0, mae):
        raise UolError(f"{path}: its MAE is {found:.4f}, but the result's {mae:.4f}: predictions of another network")


def read_predictions(path: Path) -> pd.DataFrame:
    """A table of predictions as a run folder holds it, none of them missing."""
    try:
        table = unguarded_frame(pd.read_csv(path, converters={"image": str}, encoding_errors="surrogateescape"))
        numbers = ["score", "value", *({LENIENCY} & set(table))]
        table = table.astype(dict.fromkeys(numbers, np.float64))
    except (OSError, ValueError, KeyError) as error:
        raise UolError(f"{path}: not readable as predictions ({' '.join(str(error).split())[:80]})") from error
    if "image" not in table:
        raise UolError(f"{path}: not readable as predictions (no column image)")
    if table.empty or not np.isfinite(table[["score", "value"]].to_numpy()).all():
        raise UolError(f"{path}: a score or a prediction is missing")
    if not np.isfinite(table[numbers].to_numpy()).all():
        raise UolError(f"{path}: how lenient an image's raters are is missing ({LENIENCY})")
    return table
