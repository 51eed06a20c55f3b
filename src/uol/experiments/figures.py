"""Figures of experiments: each row's figures with intervals, its groups, and how far scores reach."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from uol.errors import UolError
from uol.experiments.gain_tables import Gain, settings_of
from uol.experiments.groups import RowGroups, groups_by_row
from uol.experiments.plans import Plan
from uol.experiments.rows import Interval, Row, Source, Who, make_rows, used_results, who
from uol.reports.figures import BLUE, GREY, ORANGE, PURPLE, tidy
from uol.runs.result import Spread

_PANELS: Mapping[str, tuple[str, str]] = {"pc": ("PC", "higher"), "mae": ("MAE", "lower"), "rmse": ("RMSE", "lower")}
Colour = str | tuple[float, float, float, float]
_COLOURS = (BLUE, ORANGE, PURPLE)


def figures_by_row(source: Source, title: str) -> Figure:
    """PC, MAE and RMSE of each row with 95 % intervals; the paper's figures as open marks."""
    rows = make_rows(source.results, source.plan)
    if not rows:
        raise UolError("no results yet, so there is nothing to draw")
    places = np.arange(len(rows))[::-1]
    apart = ConstrainedLayoutEngine(wspace=0.06)  # the last number of one axis from the first of the next
    figure = Figure(figsize=(11.0, 1.7 + 0.34 * len(rows)), layout=apart)
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
    for used in used_results(source.results, source.plan):
        spreads = [result.spread for result in used if result.spread is not None]
        if spreads:
            found[_name(who(used[0]), source.plan)] = (spreads, used[0].provenance.data.scale)
    if not found:
        raise UolError("no result says how far its scores reach, so there is nothing to draw")
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
        # Above the plot: inside it, a line at an end of the scores would cross the words.
        ax.legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.1)
        tidy(ax)
    axes[-1].set_xlabel("score")
    figure.suptitle(title, fontsize=11)
    return figure


def groups_of_rows(source: Source, title: str) -> Figure:
    """PC of each row within each group with 95 % intervals: a panel of the figure for every data set tested on."""
    found = groups_by_row(source.results, source.plan, source.tested_on)
    by_data: dict[str, list[RowGroups]] = {}
    for row in found:
        if any(mean.pc is not None for mean in row.means):
            by_data.setdefault(row.tested_on, []).append(row)
    if not by_data:
        raise UolError("no result has figures by group, so there is nothing to draw")
    names = {
        data: list(dict.fromkeys(mean.group for row in rows for mean in row.means)) for data, rows in by_data.items()
    }
    labels = list(dict.fromkeys(_name(row.who, source.plan) for rows in by_data.values() for row in rows))
    most = max(len(groups) for groups in names.values())
    height = 1.6 + most * max(0.3, 0.09 * len(labels)) + 0.18 * math.ceil(len(labels) / 3)
    figure = Figure(figsize=(5.6 * len(by_data) + 1.5, height), layout="constrained")
    colours = {label: colormaps["turbo"]((number + 0.5) / len(labels)) for number, label in enumerate(labels)}
    for ax, (data, rows) in zip(np.atleast_1d(figure.subplots(1, len(by_data))), by_data.items(), strict=True):
        for number, group in enumerate(names[data]):
            for row in rows:
                label = _name(row.who, source.plan)
                place = -number - 0.8 * (labels.index(label) - (len(labels) - 1) / 2) / len(labels)
                for mean in row.means:
                    if mean.group == group and mean.pc is not None:
                        _dot(ax, place, mean.pc, mean.interval, colours[label])
        ax.set_yticks(-np.arange(len(names[data])), names[data])
        ax.set(xlabel="PC (higher is better)", ylim=(-len(names[data]) + 0.4, 0.6))
        ax.set_title(f"tested on {data}", fontsize=9, loc="left")
        ax.grid(axis="x", color="#dddddd", lw=0.6)
        ax.set_axisbelow(True)
        tidy(ax)
    for label, colour in colours.items():
        figure.axes[0].plot([], [], "o", color=colour, ms=4, label=label)
    entries = figure.axes[0].get_legend_handles_labels()
    figure.legend(*entries, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    figure.suptitle(f"{title}: PC by group, 95 % intervals", fontsize=11)
    return figure


def gains_by_setting(source: Source, title: str) -> Figure:
    """What other values of each setting gain in PC, with 95 % intervals: on the test images, and on MEBeauty."""
    settings = settings_of(source)
    if not settings:
        raise UolError("no row of this experiment changes one setting of its reference, so there is nothing to draw")
    figure = Figure(figsize=(11.0, 4.6), layout="constrained")
    axes = figure.subplots(2, len(settings), sharey="row", squeeze=False)
    for column, (name, default, values) in zip(axes.T, settings, strict=True):
        shown = {value: (row.own, row.elsewhere) for value, row in values}
        ordered = sorted({default, *shown})
        for ax, which, colour in zip(column, (0, 1), (BLUE, ORANGE), strict=True):
            for place, value in enumerate(ordered):
                _upright(ax, place, shown[value][which] if value in shown else Gain(0.0, None), colour)
            ax.axhline(0, color=GREY, lw=0.8)
            ax.set_xticks(range(len(ordered)), [f"{value:g}" for value in ordered], fontsize=7, rotation=45)
            ax.set_xlim(-0.6, len(ordered) - 0.4)
            tidy(ax)
        column[0].set_title(name, fontsize=9)
    axes[0, 0].set_ylabel("gain in PC", fontsize=8)
    axes[1, 0].set_ylabel("gain in PC, MEBeauty", fontsize=8)
    figure.suptitle(title, fontsize=11)
    return figure


def _upright(ax: Axes, place: int, gain: Gain, colour: Colour) -> None:
    """A gain with its interval; an open mark where there is none: the value that others are compared with."""
    if gain.value is None:
        return
    if gain.ends is not None:
        ax.plot([place, place], gain.ends, color=colour, lw=1.4, alpha=0.6, solid_capstyle="butt")
    ax.plot(place, gain.value, "o", color=colour, ms=3.5, mfc=None if gain.ends is not None else "white")


def _dot(ax: Axes, place: float, value: float, ends: Interval | None, colour: Colour) -> None:
    if ends is not None:
        ax.plot(ends, [place, place], color=colour, lw=1.4, alpha=0.6, solid_capstyle="butt")
    ax.plot(value, place, "o", color=colour, ms=3.5)


def _mark(ax: Axes, row: Row, key: str, place: int) -> None:
    value, ends = row[key], row["intervals"][key]  # type: ignore[literal-required]
    if row["paper"] is not None:
        ax.plot(row["paper"][key], place, "D", mfc="none", color=ORANGE, ms=6)
    if value is not None:
        _dot(ax, place, value, ends, BLUE)


def _label(row: Row, plan: Plan | None) -> str:
    name = _name(row, plan)
    return name if row["folds"] in (0, 5) else f"{name}, {row['folds']} of 5 folds"


def _name(who: Who, plan: Plan | None) -> str:
    if plan is None:
        return f"{who['method']} ({who['recipe']})"
    return plan.rows[plan.order(who["method"], who["recipe"])].label


def _share(spreads: Sequence[Spread], what: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Percentages of all test images, of all folds, in each part of the scale."""
    counts = np.sum([getattr(spread, what) for spread in spreads], axis=0, dtype=np.float64)
    return np.asarray(100 * counts / counts.sum())
