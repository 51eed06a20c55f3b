"""What anchoring is worth: errors on another panel's test images by the number of its rated images given as anchors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

import numpy as np
import torch

from uol.errors import CallError
from uol.evaluation import Evaluation, evaluate
from uol.gaussians import Gaussians
from uol.methods.base import Predictions
from uol.rated_images import RatedImages, Split
from uol.scorer import FEWEST_ANCHORS, Scorer

SIZES = (10, 30, 100, 300)
FIGURES = ("pc", "mae", "rmse", "coverage", "interval_width", "dispersion_pc")


class Point(TypedDict):
    """Means over draws of anchors, and standard deviations, of figures in units of the model's own scale.

    `anchors` is 0 for the model as it is, with scores mapped linearly between the two scales.
    """

    anchors: int
    draws: int
    mean: dict[str, float]
    sd: dict[str, float]


def anchoring_curve(
    scorer: Scorer,
    rated: RatedImages,
    gaussians: Gaussians,
    split: Split,
    sizes: Sequence[int] = SIZES,
    draws: int = 10,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> list[Point]:
    """Anchor with random training images of a split, `draws` times for each size, and test on its test images.

    `gaussians` are those of all images. Last comes the whole training part, which can only be drawn once.
    """
    if not len(split.test) or len(split.train) < FEWEST_ANCHORS:
        raise CallError(f"{rated.name}: anchoring needs a split with test images and {FEWEST_ANCHORS} others")
    if small := [size for size in sizes if size < FEWEST_ANCHORS]:
        raise CallError(f"{small[0]} anchors: at least {FEWEST_ANCHORS} are needed")
    unit = scorer.panel.scale.unit / rated.scale.unit
    test, there = rated.subset(split.test), gaussians.rows(torch.from_numpy(split.test))
    plain = evaluate(test.rescaled(scorer.panel.scale), Predictions.of(scorer.score_embedded(there)))
    points = [_point(0, [plain], 1.0)]
    wanted = [size for size in sizes if size < len(split.train)]
    for number, size in enumerate([*wanted, len(split.train)]):
        found = []
        for draw in range(draws if number < len(wanted) else 1):
            rng = np.random.default_rng([seed, size, draw])
            chosen = np.sort(rng.choice(split.train, size, replace=False))
            anchored = scorer.anchor_embedded(rated.subset(chosen), gaussians.rows(torch.from_numpy(chosen)))
            found.append(evaluate(test, Predictions.of(anchored.score_embedded(there))))
            if progress is not None:
                progress(number * draws + draw + 1)
        points.append(_point(size, found, unit))
    return points


def _point(anchors: int, found: Sequence[Evaluation], unit: float) -> Point:
    in_units = {"mae", "rmse", "interval_width"}
    values = {
        key: [float(one[key]) * (unit if key in in_units else 1.0) for one in found]  # type: ignore[literal-required]
        for key in FIGURES
    }
    return Point(
        anchors=anchors,
        draws=len(found),
        mean={key: float(np.mean(column)) for key, column in values.items()},
        sd={key: float(np.std(column, ddof=1)) if len(column) > 1 else 0.0 for key, column in values.items()},
    )
