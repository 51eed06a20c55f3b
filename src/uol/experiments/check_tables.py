"""Tables that check others: errors with a line for every row, and figures without near-duplicates of training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from uol.experiments.kept_predictions import read_kept
from uol.experiments.rows import FIGURES, WHO, Cells, Source, View, mean, used_results, who
from uol.ratings import metrics
from uol.runs.result import Result
from uol.storage.validation import Strict, check_values, read_object

DUPLICATES = "near-duplicates.json"  # in the folder of results: test images that training has a near-duplicate of


class Duplicates(Strict):
    """The test images of each split of a data set with a near-duplicate among the split's training images."""

    fingerprint: str = Field(min_length=1, description="of the ratings")
    splits: dict[str, list[str]]


def read_duplicates(results: Path) -> dict[str, Duplicates]:
    """The near-duplicates that are kept with results, by data set."""
    path = results / DUPLICATES
    values = read_object(path) if path.is_file() else {}
    return {name: check_values(Duplicates, value, path) for name, value in values.items()}


def lines_table(source: Source) -> View:
    """RMSE as measured, and with the best line of each row's scores: SD of the means · √(1 − PC²), means over folds.

    The best line is fitted on the test images, for all rows alike: no line that is fitted on others gives less.
    """
    rows: list[Cells] = []
    for used in used_results(source.results, source.plan):
        best = mean(_best_rmse(result) for result in used)
        rmse = mean(result.metrics.rmse for result in used)
        over = None if best is None or rmse is None else rmse - best
        rows.append(
            dict[str, Any](who(used[0]))
            | {"folds": len(used), "pc": mean(result.metrics.pc for result in used), "rmse": rmse}
            | {"best": best, "gain": over}
        )
    columns = {"folds": "folds", "pc": "PC", "rmse": "RMSE", "best": "RMSE with the best line", "gain": "more without"}
    return View(rows, WHO | columns)


def _best_rmse(result: Result) -> float | None:
    pc = result.metrics.pc
    return None if pc is None else result.score_sd * math.sqrt(max(0.0, 1 - pc * pc))


def duplicates_table(source: Source) -> View:
    """Figures on all test images, and without those that training has a near-duplicate of, from kept predictions."""
    rows: list[Cells] = []
    duplicates = {} if source.folder is None else read_duplicates(source.folder.parent)
    for used in used_results(source.results, source.plan):
        known = duplicates.get(used[0].trained_on)
        if known is None or source.folder is None or known.fingerprint != used[0].provenance.data.fingerprint:
            continue
        if found := _both_ways(used, source.folder, known.splits):
            rows.append(dict[str, Any](who(used[0])) | {"folds": len(used)} | found)
    columns = {"folds": "folds", "left_out": "left out"}
    for key in FIGURES:
        columns |= {key: key.upper(), f"without_{key}": f"{key.upper()} without"}
    return View(rows, WHO | columns)


def _both_ways(used: Sequence[Result], folder: Path, splits: Mapping[str, Sequence[str]]) -> Cells:
    """Means over folds; nothing where predictions of a fold are not kept."""
    found: list[dict[str, float]] = []
    for result in used:
        table = read_kept(folder / result.file_name)
        if table is None or result.split not in splits:
            return {}
        kept = table[~table["image"].isin(splits[result.split])]
        figures = {"left_out": float(len(table) - len(kept))}
        for prefix, part in (("", table), ("without_", kept)):
            both = part["score"].to_numpy(), part["value"].to_numpy()
            measured = (metrics.pearson(*both), metrics.mae(*both), metrics.rmse(*both))
            figures |= {f"{prefix}{key}": value for key, value in zip(FIGURES, measured, strict=True)}
        found.append(figures)
    means: Cells = {key: mean(one[key] for one in found) for key in found[0]}
    return means | {"left_out": int(sum(one["left_out"] for one in found))}
