"""Predictions against what a panel said: the figures of every table in this project."""

from __future__ import annotations

from typing import TypedDict

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.order.order import order_accuracy
from uol.ratings import metrics
from uol.ratings.rated_images import RatedImages
from uol.storage.csv_text import as_written
from uol.training.predictions import Predictions

DIGITS = 6  # of the numbers in a table of predictions
LENIENCY = "known_raters_leniency"  # a column of predictions: how lenient an image's raters are together


class Evaluation(TypedDict):
    """Figures on one set of images; NaN where undefined."""

    images: int
    pc: float
    mae: float
    rmse: float
    spearman: float
    order_accuracy: float
    coverage: float
    interval_width: float
    dispersion_pc: float


def predictions_table(
    rated: RatedImages, predictions: Predictions, leniency: npt.NDArray[np.float64] | None = None
) -> pd.DataFrame:
    """Each image with the panel's score, the prediction, the leniency of its raters (if known), and its groups.

    Numbers are those that a run folder stores, so that figures of this table can be computed again from the file.
    """
    numbers = {"score": rated.scores, "rating_sd": np.sqrt(rated.variances), **predictions._asdict()}
    numbers |= {} if leniency is None else {LENIENCY: leniency}
    table = pd.DataFrame(
        {"image": list(rated.names), **{name: stored_numbers(values) for name, values in numbers.items()}}
    )
    for name in rated.groups.columns:
        table[f"group {name}" if name in table or name == LENIENCY else str(name)] = rated.groups[name].to_numpy()
    return table


def stored_numbers(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Numbers as a table of predictions stores them."""
    return np.array([as_written(value, DIGITS) for value in np.asarray(values, np.float64)], np.float64)


def evaluate(rated: RatedImages, predictions: Predictions, threshold: float = 0.2) -> Evaluation:
    """Compare predictions with a panel's scores on the same scale; `threshold` is θ as on a scale of 1 to 5."""
    return figures_of(predictions_table(rated, predictions), threshold * rated.scale.unit)


def figures_of(table: pd.DataFrame, threshold: float | None) -> Evaluation:
    """The figures of a table of predictions; `threshold` is θ on its scale, None for no order accuracy.

    `dispersion_pc` correlates predicted dispersion with the standard deviation of the panel's ratings. Coverage and
    width are those of predictions with an interval. A column that the table has not is unknown.
    """
    columns = ("score", "value", "low", "high", "rating_sd", "dispersion")
    truth, value, low, high, spread, dispersion = (
        table[name].to_numpy(np.float64) if name in table else np.full(len(table), np.nan) for name in columns
    )
    bounded = np.isfinite(low) & np.isfinite(high)
    known = np.isfinite(spread) & np.isfinite(dispersion)
    unknown = float("nan")
    return Evaluation(
        images=len(table),
        pc=metrics.pearson(truth, value),
        mae=metrics.mae(truth, value),
        rmse=metrics.rmse(truth, value),
        spearman=metrics.spearman(truth, value),
        order_accuracy=unknown if threshold is None else order_accuracy(truth, value, threshold),
        coverage=metrics.coverage(truth[bounded], low[bounded], high[bounded]) if bounded.any() else unknown,
        interval_width=float((high - low)[bounded].mean()) if bounded.any() else unknown,
        dispersion_pc=metrics.pearson(spread[known], dispersion[known]) if known.any() else unknown,
    )
