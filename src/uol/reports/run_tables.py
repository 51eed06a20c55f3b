"""Tables of errors and intervals for the report on a run: predictions in, rows out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.ticker import MaxNLocator

from uol.ratings import metrics
from uol.ratings.numerics import normal_quantile, student_quantile
from uol.reports.run_folder import Run, number, part
from uol.runs.evaluation import LENIENCY, figures_of
from uol.runs.groups import PREDICTION_COLUMNS, group_figures, group_mean, group_words, split_by

Floats = npt.NDArray[np.float64]
Row = dict[str, Any]

_MOST_PAIRED = 3000  # images whose pairs are counted if no result has the order accuracy
_LEVELS = (0.5, 0.68, 0.8, 0.9, 0.95, 0.99)


def known_raters_pc(table: pd.DataFrame) -> float:
    """PC of predictions plus the leniency of each image's raters; NaN if the table has no leniency for some image."""
    return metrics.pearson(table["score"].to_numpy(), (table["value"] + table[LENIENCY]).to_numpy())


def run_figures(run: Run) -> Row:
    """The figures of a run: those of its result, and what is missing there from its predictions."""
    kept = {name: value for name, value in part(run.result, "metrics").items() if number(value)}
    if run.predictions is None:
        return kept
    similar = run.settings.get("threshold")
    threshold = float(similar) * run.scale.unit if run.scale and number(similar) else None
    paired = "order_accuracy" not in kept and len(run.predictions) <= _MOST_PAIRED
    return {**figures_of(run.predictions, threshold if paired else None), **kept}


def mean_and_sd(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> tuple[Row, Row]:
    """The mean and the standard deviation (n − 1) of each figure over the rows that have it."""
    mean: Row = {}
    sd: Row = {}
    for name in names:
        known = [float(row[name]) for row in rows if number(row.get(name))]
        mean[name] = float(np.mean(known)) if known else None
        sd[name] = float(np.std(known, ddof=1)) if len(known) > 1 else None
    return mean, sd


def error_rows(table: pd.DataFrame) -> list[Row]:
    """Bias and mean absolute error in bins of the panel score, each with half its 95 % interval."""
    rows = []
    for label, middle, members in _bins(table["score"].to_numpy()):
        error = (table["value"] - table["score"]).to_numpy()[members]
        rows.append(
            {
                "bin": label, "middle": middle, "images": len(error),
                "bias": float(error.mean()), "bias_half": _half_interval(error),
                "mae": float(np.abs(error).mean()), "mae_half": _half_interval(np.abs(error)),
            }
        )  # fmt: skip
    return rows


def coverage_rows(table: pd.DataFrame) -> list[Row]:
    """Coverage in bins of the predicted score, with its 95 % interval (Wilson's)."""
    table = with_interval(table)
    rows = []
    for label, middle, members in _bins(table["value"].to_numpy()):
        inside = table.iloc[members]
        held = int(inside["score"].between(inside["low"], inside["high"]).sum())
        low, high = metrics.share_interval(held / len(inside), len(inside))
        rows.append(
            {
                "bin": label, "middle": middle, "images": len(inside), "coverage": held / len(inside),
                "low": low, "high": high,
                "width": float((inside["high"] - inside["low"]).mean()),
            }
        )  # fmt: skip
    return rows


def nominal_rows(table: pd.DataFrame, level: float, wanted: Sequence[float] = _LEVELS) -> list[Row]:
    """Nominal levels with the coverage of intervals rescaled to them by quantiles of the normal distribution.

    The wider half counts on both sides, because intervals are cut at the ends of the scale.
    """
    table = with_interval(table)
    half = np.maximum(table["value"] - table["low"], table["high"] - table["value"])
    error = (table["value"] - table["score"]).abs()
    factors = normal_quantile((1 + np.asarray(wanted)) / 2) / normal_quantile((1 + level) / 2)
    return [
        {"nominal": float(nominal), "coverage": float((error <= factor * half + 1e-12).mean())}
        for nominal, factor in zip(wanted, factors, strict=True)
    ]


def grouping_columns(table: pd.DataFrame) -> list[str]:
    """The columns that say which group an image is in."""
    return [str(name) for name in table if name not in ("run", *PREDICTION_COLUMNS)]


def group_rows(table: pd.DataFrame, names: Sequence[str]) -> list[Row]:
    """One row per group: its figures, its bias and how far it is behind all other images, with 95 % intervals.

    The group furthest behind comes first, those too small to judge last.
    """
    rows: list[Row] = []
    for values, inside in split_by(group_words(table), names):
        mean = group_mean(" × ".join(values), [group_figures(table, inside)], same_images=True)
        low, high = mean.bias_interval or (None, None)
        rows.append(
            {**figures_of(table[inside], None), **mean._asdict(), "low": low, "high": high}
            | {
                "pc_interval": _ends(mean.interval, ".4f", "–"),
                "gap_interval": _ends(mean.gap_interval, "+.4f", " to "),
            }
        )
    return sorted(rows, key=lambda row: math.inf if row["gap_interval"] is None else row["gap"])


def largest_gap(rows: Sequence[Row]) -> str:
    """A sentence on the group furthest behind, if it has an interval."""
    if not rows or rows[0]["gap_interval"] is None or rows[0]["gap"] >= 0:
        return ""
    first = rows[0]
    return f" Largest gap: {first['group']}, PC {-first['gap']:.4f} below all others ({first['gap_interval']})."


def _ends(ends: tuple[float, float] | None, form: str, between: str) -> str | None:
    return None if ends is None else between.join(format(end, form) for end in ends)


def worst_rows(table: pd.DataFrame, most: int = 20) -> list[Row]:
    """The predictions that are furthest from the panel's score, the worst first."""
    error = table["value"] - table["score"]
    order = np.argsort(-error.abs().to_numpy(), kind="stable")[:most]
    records = table.assign(error=error).iloc[order].to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in records]


def with_interval(table: pd.DataFrame) -> pd.DataFrame:
    """The predictions that have an interval."""
    return table[table[["low", "high"]].notna().all(axis=1)]


def _bins(values: Floats) -> Iterator[tuple[str, float, npt.NDArray[np.intp]]]:
    """At most ten bins with round edges: label, middle and members of each that is not empty."""
    edges = MaxNLocator(10, steps=[1, 2, 2.5, 5, 10]).tick_values(float(values.min()), float(values.max()))
    digits = len(f"{edges[1] - edges[0]:.6g}".partition(".")[2])
    places = np.digitize(values, edges[1:-1])
    for k, (low, high) in enumerate(pairwise(edges)):
        members = np.flatnonzero(places == k)
        if members.size:
            yield f"{low:.{digits}f} to {high:.{digits}f}", float(low + high) / 2, members


def _half_interval(values: Floats) -> float | None:
    """Half the 95 % interval of a mean; None for a single value."""
    n = len(values)
    return float(student_quantile(n - 1, 0.975)) * float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else None
