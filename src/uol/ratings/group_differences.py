"""Differences between groups of images, with effect sizes and intervals by a bootstrap over people and images."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.ratings.rated_images import RatedImages

Floats = npt.NDArray[np.float64]

DRAWS = 1000
UNKNOWN = "unknown"
_AT_ONCE = 100  # draws that are held in memory together
_MOST_PAIRED = 4  # groups: more are each compared with all other images, not in pairs
_FEWEST = 2  # images of a group


def group_labels(column: pd.Series[Any]) -> pd.Series[str]:
    """The group of each image as text; those without one are unknown."""
    return column.astype(object).fillna("").astype(str).replace("", UNKNOWN)


def group_differences(rated: RatedImages, column: str, seed: int = 0) -> dict[str, Any] | None:
    """Differences of mean scores between the groups of a column: {method, rows}; None if there are not two groups.

    Up to four groups are compared in pairs, more of them each with all other images. `effect_size` is Hedges' g, the
    difference in standard deviations of the images' scores within the two groups. Each of the draws takes as many
    images of every group at random, with repetition, and as many raters, where raters are known; the intervals hold
    the middle 95 % of the draws. Images whose group is unknown are left out.
    """
    labels = group_labels(rated.groups[column])
    sizes = labels[labels != UNKNOWN].value_counts()
    names = sorted(sizes.index[sizes >= _FEWEST])
    if len(names) < 2:
        return None
    chosen = np.flatnonzero(labels.isin(names))
    code = pd.Categorical(labels.iloc[chosen], categories=names).codes.astype(np.intp)
    inside = rated.subset(chosen)
    origin = float(inside.scores.mean())
    whole = _sums(inside.scores[:, None] - origin, np.ones((len(chosen), 1)), code, len(names))
    draws = [_drawn(inside, code, len(names), origin, np.random.default_rng([seed, part]))
             for part in range(DRAWS // _AT_ONCE)]  # fmt: skip
    drawn = np.concatenate(draws, axis=2)
    paired = len(names) <= _MOST_PAIRED
    pairs: list[tuple[int, int | None]] = [*combinations(range(len(names)), 2)] if paired else []
    rows = []
    for one, other in pairs or [(one, None) for one in range(len(names))]:
        gap, effect = (part.item() for part in _compared(whole, one, other))
        gaps, effects = _compared(drawn, one, other)
        most = rated.scale.high - rated.scale.low if rated.standard_errors is None else np.inf  # logits have no ends
        low, high = _ends(gaps, most)
        rows.append(
            {
                "group": names[one],
                "other": "all others" if other is None else names[other],
                "images": int(sizes[names[one]]),
                "other_images": int(len(chosen) - sizes[names[one]] if other is None else sizes[names[other]]),
                "difference": gap,
                "difference_low_95": low,
                "difference_high_95": high,
                "effect_size": effect if np.isfinite(effect) else None,
                "effect_size_low_95": _ends(effects)[0],
                "effect_size_high_95": _ends(effects)[1],
            }
        )
    who = "raters and images" if rated.ratings is not None else "images; raters are not known, and do not count here"
    return {"method": f"95 % intervals by {DRAWS} bootstrap draws of {who}; effect size is Hedges' g", "rows": rows}


def _drawn(rated: RatedImages, code: npt.NDArray[np.intp], groups: int, origin: float, random: Any) -> Floats:
    """Sums of draws: (3, groups, draws)."""
    weight = np.empty((len(code), _AT_ONCE))
    for group in range(groups):
        members = np.flatnonzero(code == group)
        weight[members] = random.multinomial(len(members), np.full(len(members), 1 / len(members)), _AT_ONCE).T
    if rated.ratings is None:
        return _sums(np.repeat(rated.scores[:, None] - origin, _AT_ONCE, axis=1), weight, code, groups)
    matrix = rated.ratings.matrix
    rated_by = ~np.isnan(matrix)
    people = random.multinomial(matrix.shape[1], np.full(matrix.shape[1], 1 / matrix.shape[1]), _AT_ONCE).T
    sizes = rated_by.astype(np.float64) @ people
    means = np.where(rated_by, matrix - origin, 0.0) @ people / np.maximum(sizes, 1)
    return _sums(means, np.where(sizes > 0, weight, 0.0), code, groups)


def _sums(values: Floats, weight: Floats, code: npt.NDArray[np.intp], groups: int) -> Floats:
    """How many images each group has in each draw, the sum of their scores and of their squares: (3, groups, draws)."""
    member = (code == np.arange(groups)[:, None]).astype(np.float64)
    return np.stack([member @ weight, member @ (weight * values), member @ (weight * values**2)])


def _compared(sums: Floats, one: int, other: int | None) -> tuple[Floats, Floats]:
    """Difference of the means of two groups and Hedges' g, (draws,) each; NaN where undefined."""
    first = sums[:, one]
    second = sums.sum(axis=1) - first if other is None else sums[:, other]
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = first[1] / first[0] - second[1] / second[0]
        squares = first[2] - first[1] ** 2 / first[0] + second[2] - second[1] ** 2 / second[0]
        free = first[0] + second[0] - 2
        spread = np.sqrt(np.maximum(squares, 0.0) / free)
        effect = np.where(spread > 1e-9, gap / spread, np.nan) * (1 - 3 / (4 * free - 1))
    return gap, effect


def _ends(draws: Floats, most: float = np.inf) -> tuple[float | None, float | None]:
    known = draws[np.isfinite(draws)]
    if known.size < DRAWS / 2:
        return None, None
    low, high = np.quantile(known, [0.025, 0.975])
    return float(np.clip(low, -most, most)), float(np.clip(high, -most, most))
