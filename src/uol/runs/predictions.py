"""Statistics of a run's predictions: bootstrap replicates, ranges of scores, known raters, groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from uol.errors import UolError
from uol.ratings.metrics import mae, pearson, rmse
from uol.ratings.rated_images import RatedImages
from uol.ratings.splits import WHOLE
from uol.runs.bootstrap import draws, replicated
from uol.runs.evaluation import LENIENCY, Evaluation
from uol.runs.folder import RunFolder
from uol.runs.groups import groups_of
from uol.runs.result import KnownRaters, PanelFigures, Replicates, Result, Spread, Transfer
from uol.storage.csv_text import unguarded_frame
from uol.storage.files import plain

PARTS = 40  # of the scale, in which predictions are counted: of width 0.1 on a scale of 1 to 5
_NEAR = 1e-3  # figures of a table written with six digits are this near to those it was made for


def replicates_of(table: pd.DataFrame, data: str, split: str) -> Replicates:
    """Replicates of all three figures, from a table of predictions (columns score and value)."""
    return Replicates(**replicated(table["score"], table["value"], draws(data, split, len(table)))._asdict())


def replicates_elsewhere(table: pd.DataFrame, data: str) -> Replicates:
    """Replicates of the correlation on another data set, taken whole; its name alone says which images are drawn."""
    return Replicates(pc=replicates_of(table, data, WHOLE).pc, mae=None, rmse=None)


def keep_evaluation(
    run: RunFolder,
    name: str,
    split: str | None,
    framing: str,
    figures: Evaluation,
    table: pd.DataFrame,
    fingerprint: str | None = None,
) -> None:
    """Keep predictions on another rated data set in a run folder, with their figures; `split` None: on all images.

    `fingerprint` is that of the ratings on their original scale; None if it is not known.
    """
    kept: dict[str, Any] = {"data": name} | ({} if fingerprint is None else {"fingerprint": fingerprint})
    kept |= {"split": split, "framing": framing, **figures}
    if split is None:
        kept["replicates"] = replicates_elsewhere(table, name).model_dump()
    run.write_evaluation(name, table, kept)


def tested_parts(table: pd.DataFrame, data: str, split: str) -> dict[str, Any]:
    """Statistics of test images that a result keeps besides figures and groups."""
    known = known_raters_of(table, data, split)
    return {
        "replicates": replicates_of(table, data, split).model_dump(),
        "known_raters": None if known is None else known.model_dump(),
    }


def make_result(table: pd.DataFrame, figures: Evaluation, rated: RatedImages, split: str, **identity: Any) -> Result:
    """The result of a network from the predictions of its test images and their figures.

    `identity` has what else a result states: method, recipe, trained_on, seed, ensemble, provenance, other panels.
    """
    values = {
        "experiment": identity["trained_on"],
        "split": split,
        "metrics": figures,
        "score_sd": float(np.std(table["score"].to_numpy())),
        "transfer": {},
        "spread": spread_of(table, rated.scale).model_dump(),
    }
    return Result.model_validate(plain(values | tested_parts(table, rated.fingerprint, split) | identity))


def known_raters_of(table: pd.DataFrame, data: str, split: str) -> KnownRaters | None:
    """Figures of value + leniency, the mean expected of an image's raters; None if the table has no leniency.

    Replicates draw the same images as those of the values alone, which makes both comparable.
    """
    if LENIENCY not in table:
        return None
    known = table.assign(value=table["value"] + table[LENIENCY])
    score, value = known["score"].to_numpy(), known["value"].to_numpy()
    pc = pearson(score, value)
    return KnownRaters(
        pc=pc if np.isfinite(pc) else None,
        mae=mae(score, value),
        rmse=rmse(score, value),
        replicates=replicates_of(known, data, split),
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


def fill_in_statistics(result: Result, run: RunFolder) -> Result:
    """Fill in missing statistics from predictions.csv, if present, and those of other data sets from their tables."""
    changes: dict[str, object] = {}
    data, path = result.provenance.data, run.predictions
    if None in (result.replicates, result.spread, result.groups) and path.is_file():
        table = read_predictions(path)
        check_predictions(path, table, result.metrics.mae)
        changes = {
            "replicates": result.replicates or replicates_of(table, data.fingerprint, result.split),
            "spread": result.spread or spread_of(table, data.scale),
            "groups": groups_of(table) if result.groups is None else result.groups,
        }
    transfer = {
        name: fill_in_transfer(figures, name, run.evaluation_table(name)) for name, figures in result.transfer.items()
    }
    beside = {name: _fill_in_groups(figures, run.panel(name)) for name, figures in (result.beside or {}).items()}
    return result.model_copy(update={**changes, "transfer": transfer, "beside": beside or result.beside})


def _fill_in_groups(figures: PanelFigures, panel: RunFolder) -> PanelFigures:
    """Fill in missing groups of another panel that trained the network from its predictions, if present."""
    if figures.groups is not None or not panel.predictions.is_file():
        return figures
    table = read_predictions(panel.predictions)
    check_predictions(panel.predictions, table, figures.mae)
    return figures.model_copy(update={"groups": groups_of(table)})


def fill_in_transfer(figures: Transfer, name: str, path: Path) -> Transfer:
    """Fill in missing statistics on another data set from its table of predictions, if present."""
    if None not in (figures.replicates, figures.groups) or not path.is_file():
        return figures
    table = read_predictions(path)
    check_predictions(path, table, figures.mae)
    groups = groups_of(table) if figures.groups is None else figures.groups
    replicates = figures.replicates or replicates_elsewhere(table, name)
    return figures.model_copy(update={"replicates": replicates, "groups": groups})


def check_predictions(path: Path, table: pd.DataFrame, mae: float | None) -> None:
    """Refuse predictions of another network than the one the figures are of."""
    found = float((table["score"] - table["value"]).abs().mean())
    if mae is not None and abs(found - mae) > _NEAR * max(1.0, mae):
        raise UolError(f"{path}: its MAE is {found:.4f}, but the result's {mae:.4f}: predictions of another network")


def read_predictions(path: Path) -> pd.DataFrame:
    """A table of predictions of a run folder, none of them missing."""
    try:
        table = unguarded_frame(
            pd.read_csv(
                path, converters={"image": str}, encoding_errors="surrogateescape", float_precision="round_trip"
            )
        )
        numbers = ["score", "value", *({LENIENCY} & set(table))]
        table = table.astype(dict.fromkeys(numbers, np.float64))
    except (OSError, ValueError, KeyError) as error:
        raise UolError(f"{path}: not readable as predictions ({' '.join(str(error).split())[:80]})") from error
    if "image" not in table:
        raise UolError(f"{path}: not readable as predictions (no column image)")
    if table.empty or not np.isfinite(table[["score", "value"]].to_numpy()).all():
        raise UolError(f"{path}: a score or a prediction is missing")
    if not np.isfinite(table[numbers].to_numpy()).all():
        raise UolError(f"{path}: {LENIENCY} is missing for an image")
    return table
