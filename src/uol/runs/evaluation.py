"""Predictions against what a panel said: the figures of every table in this project."""

from __future__ import annotations

from typing import TypedDict

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.order.order import order_accuracy
from uol.ratings import metrics
from uol.ratings.rated_images import RatedImages
from uol.training.predictions import Predictions

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
    """Each image with the panel's score, the prediction, the leniency of its raters (if known), and its groups."""
    table = pd.DataFrame(
        {
            "image": list(rated.names),
            "score": rated.scores,
            "rating_sd": np.sqrt(rated.variances),
            **predictions._asdict(),
            **({} if leniency is None else {LENIENCY: leniency}),
        }
    )
    for name in rated.groups.columns:
        table[f"group {name}" if name in table or name == LENIENCY else str(name)] = rated.groups[name].to_numpy()
    return table


def evaluate(rated: RatedImages, predictions: Predictions, threshold: float = 0.2) -> Evaluation:
    """Compare predictions with a panel's scores on the same scale; `threshold` is θ as on a scale of 1 to 5.

    `dispersion_pc` correlates predicted dispersion with the standard deviation of the panel's ratings. Predictions
    without intervals have no coverage.
    """
    truth = rated.scores
    unknown = bool(np.isnan(predictions.low).all())
    spread = np.sqrt(rated.variances)
    known = np.isfinite(spread) & np.isfinite(predictions.dispersion)
    return Evaluation(
        images=len(rated),
        pc=metrics.pearson(truth, predictions.value),
        mae=metrics.mae(truth, predictions.value),
        rmse=metrics.rmse(truth, predictions.value),
        spearman=metrics.spearman(truth, predictions.value),
        order_accuracy=order_accuracy(truth, predictions.value, threshold * rated.scale.unit),
        coverage=float("nan") if unknown else metrics.coverage(truth, predictions.low, predictions.high),
        interval_width=float((predictions.high - predictions.low).mean()),
        dispersion_pc=metrics.pearson(spread[known], predictions.dispersion[known]) if known.any() else float("nan"),
    )
