"""Figures of scores, intervals, dispersion and comparisons: arrays in, matplotlib figures out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnnotationBbox, OffsetImage

from uol import metrics
from uol.bradley_terry import BradleyTerry, log_likelihood
from uol.methods.base import Predictions
from uol.order import Order
from uol.rated_images import Scale

BLUE, ORANGE, GREY, GREEN = "#2f6690", "#d1603d", "#8d99ae", "#5b8e7d"
OUTCOME_COLOURS = {Order.LESS: ORANGE, Order.SIMILAR: GREY, Order.GREATER: BLUE}


def score_against_truth(
    truth: npt.NDArray[np.float64], predictions: Mapping[str, Predictions], scale: Scale, panel: str
) -> Figure:
    """Predicted against panel scores, one plot per method, with the interval of every image that misses it in colour."""
    figure = Figure(figsize=(4.0 * len(predictions), 4.1), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(predictions), sharex=True, sharey=True))
    for ax, (method, predicted) in zip(axes, predictions.items(), strict=True):
        inside = (predicted.low <= truth) & (truth <= predicted.high)
        error = np.stack([predicted.value - predicted.low, predicted.high - predicted.value])
        for held, colour, alpha in ((inside, GREY, 0.18), (~inside, ORANGE, 0.55)):
            ax.errorbar(truth[held], predicted.value[held], error[:, held], fmt="none", ecolor=colour, alpha=alpha, lw=0.7)
        ax.plot(truth, predicted.value, ".", color=BLUE, ms=3.5, alpha=0.8)
        ax.plot(scale, scale, color="black", lw=0.8)
        ax.set(title=f"{method}: PC {metrics.pearson(truth, predicted.value):.3f}", xlabel=f"mean score of {panel}")
        ax.text(
            0.03, 0.97, f"{inside.mean():.1%} of the intervals hold the panel's mean", transform=ax.transAxes, va="top",
            fontsize=8, color="#444444",
        )  # fmt: skip
        _tidy(ax)
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
    ax.plot([x[g].mean() for g in groups], [y[g].mean() for g in groups], "o-", color=ORANGE, ms=5, lw=1.2, label="means of ten groups")
    ends = [min(x.min(), y.min()), max(x.max(), y.max())]
    ax.plot(ends, ends, color="black", lw=0.8)
    ax.set(xlabel="predicted dispersion", ylabel="standard deviation of the ratings", title=f"PC {metrics.pearson(x, y):.3f}")
    ax.legend(frameon=False, fontsize=8)
    _tidy(ax)
    return figure


def places_on_scale(
    images: Sequence[npt.NDArray[np.uint8]], predictions: Predictions, truth: npt.NDArray[np.float64], scale: Scale
) -> Figure:
    """Images where they fall on the panel's scale: the picture, its interval as a bar, the panel's mean as a mark."""
    order = np.argsort(predictions.value)
    figure = Figure(figsize=(10.5, 4.0), layout="constrained")
    ax = figure.subplots()
    rows = 3
    for place, i in enumerate(order):
        height = 1.0 * (place % rows)
        box = AnnotationBbox(OffsetImage(images[i], zoom=52 / images[i].shape[0]), (predictions.value[i], height + 0.18), frameon=False, box_alignment=(0.5, 0))
        ax.add_artist(box)
        ax.plot([predictions.low[i], predictions.high[i]], [height, height], color=BLUE, lw=2.2, solid_capstyle="round")
        ax.plot(predictions.value[i], height, "o", color=BLUE, ms=5)
        ax.plot(truth[i], height, "D", color=ORANGE, ms=5, mec="white", mew=0.6)
    ax.plot([], [], "o-", color=BLUE, label="predicted score and 95 % interval")
    ax.plot([], [], "D", color=ORANGE, mec="white", label="the panel's mean")
    ax.legend(frameon=False, fontsize=8, loc="upper left", ncols=2, bbox_to_anchor=(0, 1.12))
    low, high = float(predictions.low.min()), float(predictions.high.max())
    ax.set(xlim=(max(low - 0.15, scale.low - 0.1), min(high + 0.15, scale.high + 0.1)), ylim=(-0.25, rows), yticks=[], xlabel="score on the panel's scale")
    ax.spines[["left", "right", "top"]].set_visible(False)
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
    grid = np.linspace(*scale, 801)
    curve = log_likelihood(grid, outcomes, references, model)
    top.plot(grid, np.exp(curve - curve.max()), color="black", lw=1.2)
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
        bottom.plot(references[chosen], outcomes[chosen].max(-1), ".", color=colour, ms=5, label=f"{label} ({chosen.sum()})")
    bottom.set(xlabel="score of the reference", ylabel="certainty", ylim=(0.3, 1.03), xlim=tuple(scale))
    bottom.legend(frameon=False, fontsize=7, loc="lower right")
    _tidy(top)
    _tidy(bottom)
    return figure


def loss_curves(curves: Mapping[str, Sequence[float]]) -> Figure:
    """The total loss per epoch of each method, relative to its first epoch."""
    figure = Figure(figsize=(5.2, 4.1), layout="constrained")
    ax = figure.subplots()
    for (method, values), colour in zip(curves.items(), (GREY, ORANGE, BLUE, GREEN), strict=False):
        ax.plot(np.arange(1, len(values) + 1), np.asarray(values) / values[0], color=colour, label=method)
    ax.set(xlabel="epoch", ylabel="training loss / first epoch", ylim=(0, None))
    ax.legend(frameon=False, fontsize=8)
    _tidy(ax)
    return figure


def _tidy(ax: Axes) -> None:
    ax.spines[["right", "top"]].set_visible(False)
    ax.tick_params(labelsize=8)
