"""Figures of experiments: each row's figures with intervals beside the paper's, and how far scores reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from uol.errors import UolError
from uol.reports.figures import BLUE, GREY, ORANGE, PURPLE, tidy
from uol.runs.result import Result, Spread
from uol.studies.comparing import in_plan_order
from uol.studies.plans import Plan
from uol.studies.sources import Source
from uol.studies.table import Row, of_one_seed, row_groups
from uol.studies.views import rows_of

_PANELS: Mapping[str, tuple[str, str]] = {"pc": ("PC", "higher"), "mae": ("MAE", "lower"), "rmse": ("RMSE", "lower")}
_COLOURS = (BLUE, ORANGE, PURPLE)


def figures_by_row(source: Source, title: str) -> Figure:
    """PC, MAE and RMSE of each row with 95 % intervals; the paper's figures as open marks."""
    rows = rows_of(source)
    if not rows:
        raise UolError("no results yet, so there is nothing to draw")
    places = np.arange(len(rows))[::-1]
    figure = Figure(figsize=(11.0, 1.7 + 0.34 * len(rows)), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for ax, (key, (heading, better)) in zip(axes, _PANELS.items(), strict=True):
        for row, place in zip(rows, places, strict=True):
            _mark(ax, row, key, place)
        ax.set(xlabel=f"{heading} ({better} is better)", ylim=(-0.7, len(rows) - 0.3))
        ax.set_yticks(places, [_label(row, source.plan) for row in rows])
        ax.grid(axis="x", color="#dddddd", lw=0.6)
        ax.set_axisbelow(True)
        tidy(ax)
    axes[0].plot([], [], "o", color=BLUE, label="ours, with 95 % interval")
    axes[0].plot([], [], "D", mfc="none", color=ORANGE, label="published")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower right", ncols=2, frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=11)
    return figure


def range_of_scores(source: Source, title: str) -> Figure:
    """How many test images get which score, by each row, over the panel's own means."""
    found = {}
    for group in in_plan_order([of_one_seed(group) for group in row_groups(source.results)], source.plan):
        spreads = [result.spread for result in group if result.spread is not None]
        if spreads:
            found[_name(group[0], source.plan)] = (spreads, group[0].provenance.data.scale)
    if not found:
        raise UolError("no result tells how far its scores reach, so there is nothing to draw")
    figure = Figure(figsize=(8.2, 0.9 + 1.9 * len(found)), layout="constrained")
    axes = np.atleast_1d(figure.subplots(len(found), 1, sharex=True, sharey=True))
    for number, (ax, (label, (spreads, scale))) in enumerate(zip(axes, found.items(), strict=True)):
        edges = np.linspace(scale[0], scale[1], len(spreads[0].panel) + 1)
        ax.stairs(_share(spreads, "panel"), edges, fill=True, color=GREY, alpha=0.35, label="the raters' means")
        colour = _COLOURS[number % len(_COLOURS)]
        ax.stairs(_share(spreads, "predicted"), edges, color=colour, lw=1.4, label="predicted")
        least, most = min(s.predicted_ends[0] for s in spreads), max(s.predicted_ends[1] for s in spreads)
        for end in (least, most):
            ax.axvline(end, color=colour, lw=0.8, ls=":")
        ax.set_title(f"{label}: {least:.2f} to {most:.2f}", fontsize=9, loc="left")
        ax.set_ylabel("% of images", fontsize=8)
        ax.legend(frameon=False, fontsize=8, loc="upper left")
        tidy(ax)
    axes[-1].set_xlabel("score")
    figure.suptitle(title, fontsize=11)
    return figure


def _mark(ax: Axes, row: Row, key: str, place: int) -> None:
    value, ends = row[key], row["intervals"][key]  # type: ignore[literal-required]
    if row["paper"] is not None:
        ax.plot(row["paper"][key], place, "D", mfc="none", color=ORANGE, ms=6)
    if value is not None:
        if ends is not None:
            ax.plot(ends, [place, place], color=BLUE, lw=2, alpha=0.6, solid_capstyle="butt")
        ax.plot(value, place, "o", color=BLUE, ms=5)


def _label(row: Row, plan: Plan | None) -> str:
    name = f"{row['method']} ({row['recipe']})"
    if plan is not None:
        name = plan.rows[plan.order(row["method"], row["recipe"])].label
    return name if row["folds"] in (0, 5) else f"{name}, {row['folds']} of 5 folds"


def _name(result: Result, plan: Plan | None) -> str:
    if plan is None:
        return f"{result.method} ({result.recipe})"
    return plan.rows[plan.order(result.method, result.recipe)].label


def _share(spreads: Sequence[Spread], what: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Percentages of all test images, of all folds, in each part of the scale."""
    counts = np.sum([getattr(spread, what) for spread in spreads], axis=0, dtype=np.float64)
    return np.asarray(100 * counts / counts.sum())
