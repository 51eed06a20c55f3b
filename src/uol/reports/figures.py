"""Figures of scores, intervals, dispersion and comparisons: arrays in, matplotlib figures out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.offsetbox import AnnotationBbox, OffsetImage

from uol.order.bradley_terry import BradleyTerry, estimate, log_likelihood
from uol.order.calibration import Calibration
from uol.order.order import Order
from uol.ratings import metrics
from uol.ratings.scale import Scale

if TYPE_CHECKING:
    from uol.training.predictions import Predictions

BLUE, ORANGE, GREY, GREEN, PURPLE = "#2f6690", "#d1603d", "#8d99ae", "#5b8e7d", "#7d5ba6"
OUTCOME_COLOURS = {Order.LESS: ORANGE, Order.SIMILAR: GREY, Order.GREATER: BLUE}


def score_against_truth(
    truth: npt.NDArray[np.float64], predictions: Mapping[str, Predictions], scale: Scale, panel: str
) -> Figure:
    """Predicted against panel scores, one plot per method; intervals that miss are in colour."""
    figure = Figure(figsize=(4.0 * len(predictions), 4.1), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(predictions), sharex=True, sharey=True))
    for ax, (method, predicted) in zip(axes, predictions.items(), strict=True):
        known = np.isfinite(predicted.low) & np.isfinite(predicted.high)
        inside = (predicted.low <= truth) & (truth <= predicted.high)
        error = np.maximum([predicted.value - predicted.low, predicted.high - predicted.value], 0)
        for held, colour, alpha in ((inside, GREY, 0.18), (known & ~inside, ORANGE, 0.55)):
            ax.errorbar(
                truth[held], predicted.value[held], error[:, held], fmt="none", ecolor=colour, alpha=alpha, lw=0.7
            )
        size, alpha = (3.5, 0.8) if len(truth) <= 2000 else (2.0, 0.5)
        ax.plot(truth, predicted.value, ".", color=BLUE, ms=size, alpha=alpha)
        ax.plot(scale, scale, color="black", lw=0.8)
        correlation = metrics.pearson(truth, predicted.value)
        ax.set(title=f"{_words(method)}: PC {correlation:.3f}", xlabel=f"mean score of {_words(panel)}")
        if known.any():
            ax.text(
                0.03, 0.97, f"{inside[known].mean():.1%} of the intervals hold the panel's mean",
                transform=ax.transAxes, va="top", fontsize=8, color="#444444",
            )  # fmt: skip
        tidy(ax)
    axes[0].set_ylabel("predicted, with 95 % interval")
    return figure


def dispersion_against_spread(predicted: npt.NDArray[np.float64], spread: npt.NDArray[np.float64]) -> Figure:
    """Predicted dispersion against the standard deviation of the ratings, with the mean in ten equal groups."""
    known = np.isfinite(predicted) & np.isfinite(spread)
    x, y = predicted[known], spread[known]
    figure = Figure(figsize=(5.2, 4.1), layout="constrained")
    ax = figure.subplots()
    ax.plot(x, y, ".", color=BLUE, ms=3.5, alpha=0.45, label="one image")
    groups = [group for group in np.array_split(np.argsort(x), 10) if group.size]
    ax.plot(
        [x[g].mean() for g in groups],
        [y[g].mean() for g in groups],
        "o-",
        color=ORANGE,
        ms=5,
        lw=1.2,
        label="means of ten groups",
    )
    ends = [min(x.min(), y.min()), max(x.max(), y.max())]
    ax.plot(ends, ends, color="black", lw=0.8)
    ax.set(
        xlabel="predicted dispersion",
        ylabel="standard deviation of the ratings",
        title=f"PC {metrics.pearson(x, y):.3f}",
    )
    ax.legend(frameon=False, fontsize=8)
    tidy(ax)
    return figure


def places_on_scale(
    images: Sequence[npt.NDArray[np.uint8]], predictions: Predictions, truth: npt.NDArray[np.float64], scale: Scale
) -> Figure:
    """Images from the lowest to the highest score: each under its interval, with the panel's mean as a mark."""
    figure = Figure(figsize=(11.0, 4.4), layout="constrained")
    ax = figure.subplots()
    order = np.argsort(predictions.value)
    x = np.arange(len(order))
    value, low, high = (column[order] for column in (predictions.value, predictions.low, predictions.high))
    ax.errorbar(
        x, value, [value - low, high - value], fmt="o", color=BLUE, ms=6, lw=2.2, label="predicted, 95 % interval"
    )
    ax.plot(x, truth[order], "D", color=ORANGE, ms=6, mec="white", mew=0.7, zorder=4, label="the panel's mean")
    floor = max(scale.low, float(min(low.min(), truth.min())))
    width = (scale.high - scale.low) * 0.16
    for place, i in enumerate(order):
        picture = OffsetImage(images[i], zoom=50 / images[i].shape[0])
        ax.add_artist(AnnotationBbox(picture, (place, floor - 0.75 * width), frameon=False, box_alignment=(0.5, 0.5)))
    ax.set(
        xlim=(-0.6, len(order) - 0.4), ylim=(floor - 1.4 * width, None), xticks=[], ylabel="score on the panel's scale"
    )
    ax.legend(frameon=False, fontsize=9, loc="upper left")
    ax.spines[["bottom", "right", "top"]].set_visible(False)
    return figure


def likelihood_of_one(
    outcomes: npt.NDArray[np.float64],
    references: npt.NDArray[np.float64],
    model: BradleyTerry,
    interval: tuple[float, float, float],
    truth: float | None,
    scale: Scale,
) -> Figure:
    """One image against its references: each comparison's likeliest outcome, and the likelihood they add up to.

    outcomes (R, 3) are probabilities; `interval` is the value, low and high of the final score.
    """
    value, low, high = interval
    figure = Figure(figsize=(7.2, 4.1), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    top.plot(*likelihood_curve(outcomes, references, model, scale), color="black", lw=1.2)
    top.axvspan(low, high, color=BLUE, alpha=0.15, lw=0, label="calibrated 95 % interval")
    top.axvline(value, color=BLUE, lw=1.5, label=f"score {value:.2f}")
    if truth is not None:
        top.axvline(truth, color=ORANGE, lw=1.5, ls="--", label=f"the panel's mean {truth:.2f}")
    top.set(ylabel="likelihood (peak = 1)", yticks=[0, 0.5, 1])
    top.legend(frameon=False, fontsize=8)
    likeliest = outcomes.argmax(-1)
    for order, colour in OUTCOME_COLOURS.items():
        chosen = likeliest == order
        label = f"judged {order.name.lower()} than the reference" if order is not Order.SIMILAR else "judged similar"
        bottom.plot(
            references[chosen], outcomes[chosen].max(-1), ".", color=colour, ms=5, label=f"{label} ({chosen.sum()})"
        )
    bottom.set(xlabel="score of the reference", ylabel="certainty", ylim=(0.3, 1.03), xlim=tuple(scale))
    figure.legend(*bottom.get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    tidy(top)
    tidy(bottom)
    return figure


def likelihood_curve(
    outcomes: npt.NDArray[np.float64],
    references: npt.NDArray[np.float64],
    model: BradleyTerry,
    scale: Scale,
    calibration: Calibration | None = None,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Scores along the scale, and the likelihood of each as a share of the highest: (G,), (G,).

    The likelihood is one of Bradley-Terry scores; with a `calibration` each is moved to where its final score lies.
    """
    peak, error = (float(part[0]) for part in estimate(outcomes[None], references, model, scale))
    # Hundreds of comparisons make a peak so narrow that an even grid would step over its tip.
    near = np.clip(peak + error * np.linspace(-5, 5, 201), *scale)
    grid = np.union1d(np.linspace(*scale, 801), near)
    curve = log_likelihood(grid, outcomes, references, model)
    scores = grid if calibration is None else calibration.value(grid, scale)
    return scores, np.exp(curve - curve.max())


def loss_curves(curves: Mapping[str, Sequence[float]]) -> Figure:
    """The total loss per epoch of each method, relative to its first epoch."""
    figure = Figure(figsize=(5.2, 4.1), layout="constrained")
    ax = figure.subplots()
    for (method, values), colour in zip(curves.items(), (GREY, ORANGE, BLUE, GREEN), strict=False):
        ax.plot(np.arange(1, len(values) + 1), np.asarray(values) / values[0], color=colour, label=_words(method))
    ax.set(xlabel="epoch", ylabel="training loss / first epoch", ylim=(0, None))
    ax.legend(frameon=False, fontsize=8)
    tidy(ax)
    return figure


def training_curves(runs: Mapping[str, Mapping[str, npt.ArrayLike]]) -> Figure:
    """Every loss and the learning rate by epoch, one plot each, one line per run."""
    names = list(dict.fromkeys(name for run in runs.values() for name in run if name not in ("epoch", "seconds")))
    rows = max(-(-len(names) // 3), 1)
    height = 2.4 * rows + (0.3 if len(runs) > 1 else 0)
    figure = Figure(figsize=(8.0, height), layout=ConstrainedLayoutEngine(h_pad=0.1))
    axes = figure.subplots(rows, 3, squeeze=False).ravel()
    for ax, name in zip(axes, names, strict=False):
        for k, (label, run) in enumerate(runs.items()):
            if name in run:
                epochs, values = np.asarray(run["epoch"]), np.asarray(run[name], np.float64)
                known = np.isfinite(values)  # held-out losses are not taken every epoch
                mark = "o" if known.sum() < len(values) or len(values) == 1 else None
                ax.plot(
                    epochs[known], values[known], ms=2.5, color=_run_colour(k), lw=1.2, marker=mark, label=_words(label)
                )
        ax.set_title(_words(name).replace("_", " "), fontsize=9)
        ax.set_xlabel("epoch", fontsize=8)
        ax.ticklabel_format(axis="y", scilimits=(-3, 4), useMathText=True)
        ax.yaxis.get_offset_text().set_fontsize(7)
        tidy(ax)
    for ax in axes[len(names) :]:
        ax.set_axis_off()
    if len(runs) > 1:
        lines = [Line2D([], [], color=_run_colour(k), label=_words(label)) for k, label in enumerate(runs)]
        figure.legend(handles=lines, frameon=False, fontsize=8, loc="outside lower center", ncols=min(len(runs), 8))
    return figure


def error_by_score(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Bias and mean absolute error in bins of the panel score, with 95 % intervals of the means."""
    figure = Figure(figsize=(8.0, 3.4), layout="constrained")
    for ax, name, label in zip(
        figure.subplots(1, 2), ("bias", "mae"), ("bias: predicted − panel", "mean absolute error"), strict=True
    ):
        half = [row[f"{name}_half"] or 0.0 for row in rows]
        ax.errorbar(
            [row["middle"] for row in rows], [row[name] for row in rows], half, fmt="o-", color=BLUE, ms=4, lw=1.2
        )
        ax.axhline(0, color="black", lw=0.8)
        ax.set(xlabel="the panel's mean score", ylabel=label)
        tidy(ax)
    return figure


def calibration_of_intervals(
    by_score: Sequence[Mapping[str, Any]], by_level: Sequence[Mapping[str, Any]], level: float
) -> Figure:
    """Coverage by predicted score, and coverage by nominal level against what it should be."""
    figure = Figure(figsize=(8.0, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    coverage = np.array([row["coverage"] for row in by_score])
    below = np.maximum(coverage - [row["low"] for row in by_score], 0)
    above = np.maximum([row["high"] for row in by_score] - coverage, 0)
    left.errorbar([row["middle"] for row in by_score], coverage, [below, above], fmt="o-", color=BLUE, ms=4, lw=1.2)
    left.axhline(level, color="black", lw=0.8)
    left.set(xlabel="predicted score", ylabel=f"share of {100 * level:g} % intervals that hold")
    right.plot([0, 1], [0, 1], color="black", lw=0.8)
    right.plot([row["nominal"] for row in by_level], [row["coverage"] for row in by_level], color=BLUE, lw=1.8)
    right.set(xlabel="nominal level", ylabel="share of intervals that hold", xlim=(0, 1), ylim=(0, 1.02))
    tidy(left)
    tidy(right)
    return figure


def reference_scores(runs: Sequence[npt.NDArray[np.float64]]) -> Figure:
    """How many references there are along the scale; of several runs the mean, with a line from fewest to most."""
    edges = np.histogram_bin_edges(np.concatenate(runs), 20)
    counts = np.array([np.histogram(scores, edges)[0] for scores in runs])
    middle = (edges[:-1] + edges[1:]) / 2
    figure = Figure(figsize=(5.2, 3.4), layout="constrained")
    ax = figure.subplots()
    ax.bar(middle, counts.mean(0), np.diff(edges), color=BLUE)
    if len(runs) > 1:
        ax.vlines(middle, counts.min(0), counts.max(0), color=ORANGE, lw=1.0)
    ax.set(xlabel="score of the reference", ylabel="references")
    tidy(ax)
    return figure


def means_by_group(
    rows: Sequence[Mapping[str, Any]],
    label: str,
    mean: str = "mean",
    line: float | None = None,
    ends: tuple[str, str] = ("low", "high"),
) -> Figure:
    """One line per group (`group`, `images`): its mean, with its interval where there is one."""
    figure = Figure(figsize=(7.2, 0.8 + 0.34 * len(rows)), layout="constrained")
    ax = figure.subplots()
    if line is not None:
        ax.axvline(line, color="black", lw=0.8)
    for place, row in enumerate(rows):
        if row[ends[0]] is not None:
            ax.plot([row[end] for end in ends], [place, place], color=BLUE, lw=2)
        ax.plot(row[mean], place, "o", color=BLUE)
    ax.set_yticks(range(len(rows)), [f"{_words(row['group'])} ({row['images']})" for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlabel(_words(label))
    tidy(ax)
    return figure


def _run_colour(place: int) -> str:
    return (BLUE, ORANGE, GREEN, PURPLE, GREY)[place % 5]


def tidy(ax: Axes) -> None:
    """The plain look that all figures share."""
    ax.spines[["right", "top"]].set_visible(False)
    ax.tick_params(labelsize=8)


def _words(name: object) -> str:
    """A name as text: matplotlib takes what is between two $ for a formula."""
    return str(name).replace("$", r"\$")
