"""Figures by group: how well a panel's scores are predicted within each gender, ethnicity, and both together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd

from uol import metrics
from uol.experiments.result import Group

PREDICTION_COLUMNS = ("image", "score", "rating_sd", "value", "low", "high", "dispersion")
FEWEST = 10  # images: with fewer a correlation says nothing
_MOST = 40  # groups: a column with more is no grouping
_NORMAL = 1.959963984540054


def groups_of(table: pd.DataFrame) -> dict[str, Group]:
    """Figures of each group with ten images or more, by names such as "female" and "female, asian"."""
    told = table.drop(columns=list(PREDICTION_COLUMNS), errors="ignore").astype(object).fillna("unknown").astype(str)
    columns = [name for name in told if 1 < told[name].nunique() <= _MOST]
    words = Counter(word for name in columns for word in told[name].unique())
    for name in columns:  # a word of two columns says nothing without its column's name
        told[name] = [f"{name} {word}" if words[word] > 1 else word for word in told[name]]
    found: dict[str, Group] = {}
    for chosen in [(name,) for name in columns] + list(combinations(columns, 2)):
        for values, inside in table.groupby([told[name] for name in chosen], sort=True):
            if len(inside) >= FEWEST:
                found[", ".join(map(str, values))] = _figures(inside)
    return found


def _figures(inside: pd.DataFrame) -> Group:
    score, value = inside["score"].to_numpy(np.float64), inside["value"].to_numpy(np.float64)
    pc = metrics.pearson(score, value)
    return Group(
        images=len(inside),
        pc=None if math.isnan(pc) else round(pc, 5),
        mae=round(metrics.mae(score, value), 5),
        rmse=round(metrics.rmse(score, value), 5),
        bias=round(float((value - score).mean()), 5),
    )


class GroupMean(NamedTuple):
    """Means over networks of one group's figures; `images` of all, and a 95 % interval of PC over images."""

    group: str
    images: int
    pc: float | None
    interval: tuple[float, float] | None
    mae: float
    bias: float


def group_means(parts: Sequence[dict[str, Group]], same_images: bool) -> list[GroupMean]:
    """Groups over the networks of a row, whose test images are those of different folds, or the same for all.

    The interval is Fisher's, of the correlation's inverse hyperbolic tangent, whose variance is 1/(n − 3).
    """
    names = list(dict.fromkeys(name for part in parts for name in part))
    return [_mean(name, [part[name] for part in parts if name in part], same_images) for name in names]


def _mean(name: str, found: Sequence[Group], same_images: bool) -> GroupMean:
    known = [group.pc for group in found if group.pc is not None]
    images = found[0].images if same_images else sum(group.images for group in found)
    free = found[0].images - 3 if same_images else sum(group.images - 3 for group in found)
    pc = _average(known) if len(known) == len(found) else None
    interval = None
    if pc is not None and free > 0 and abs(pc) < 1:
        middle, half = math.atanh(pc), _NORMAL / math.sqrt(free)
        interval = (math.tanh(middle - half), math.tanh(middle + half))
    return GroupMean(name, images, pc, interval, _average(g.mae for g in found), _average(g.bias for g in found))


def _average(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
