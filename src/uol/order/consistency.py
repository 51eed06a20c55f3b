"""The maximum-consistency rule of order learning: the score that agrees with most comparisons."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from uol.order.order import TOLERANCE, order_of

Floats = npt.NDArray[np.float64]


def estimate_by_consistency(
    outcomes: npt.ArrayLike,
    references: npt.ArrayLike,
    threshold: float,
    bounds: tuple[float, float],
    step: float = 0.01,
) -> Floats:
    """Every reference votes for the scores that fit its comparison; the mean of the scores with most votes wins.

    Outcomes (N, R) as `Order` values from the image's side, or (N, R, 3) as probabilities, which vote in parts. The
    candidates lie `step` apart within `bounds`. Where references are few or missing in a part of the scale, no score
    there can win: the reason why the paper prefers Bradley-Terry.

    >>> estimate_by_consistency([[2, 1, 0]], [2.0, 3.0, 4.0], threshold=0.2, bounds=(1, 5)).round(2)
    array([3.])
    """
    outcomes = np.asarray(outcomes)
    votes_cast = outcomes.astype(np.float64) if outcomes.ndim == 3 else np.eye(3)[outcomes.astype(np.intp)]
    candidates = np.linspace(*bounds, num=round((bounds[1] - bounds[0]) / step) + 1)
    r = np.asarray(references, np.float64)
    fitting = np.eye(3)[order_of(candidates[:, None], r[None], threshold)]  # (G, R, 3): the outcome each score expects
    votes = votes_cast.reshape(len(votes_cast), -1) @ fitting.reshape(len(candidates), -1).T
    most = votes >= votes.max(1, keepdims=True) - TOLERANCE
    return np.asarray((most * candidates).sum(1) / most.sum(1))
