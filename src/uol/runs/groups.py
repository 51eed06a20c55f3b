"""Figures by group: how well a panel's scores are predicted within each gender, ethnicity, and both together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t

from uol.ratings import metrics
from uol.runs.evaluation import LENIENCY
from uol.runs.result import Group, Others

PREDICTION_COLUMNS = ("image", "score", "rating_sd", "value", "low", "high", "dispersion", LENIENCY)
FEWEST = 10  # images: with fewer a correlation says nothing
_MOST = 40  # groups: a column with more is no grouping
_ROUNDED = 1e-4  # figures may have been rounded to four digits


def groups_of(table: pd.DataFrame) -> dict[str, Group]:
    """Figures of each group with ten images or more, by names such as "female" and "female, asian"."""
    groups = table.drop(columns=list(PREDICTION_COLUMNS), errors="ignore").astype(object).fillna("unknown").astype(str)
    columns = [name for name in groups if 1 < groups[name].nunique() <= _MOST]
    words = Counter(word for name in columns for word in groups[name].unique())
    for name in columns:  # a word of two columns says nothing without its column's name
        groups[name] = [f"{name} {word}" if words[word] > 1 else word for word in groups[name]]
    found: dict[str, Group] = {}
    for chosen in [(name,) for name in columns] + list(combinations(columns, 2)):
        for values, inside in table.groupby([groups[name] for name in chosen], sort=True):
            if len(inside) >= FEWEST:
                found[", ".join(map(str, values))] = _figures(inside, table.drop(index=inside.index))
    return found


def _figures(inside: pd.DataFrame, outside: pd.DataFrame) -> Group:
    score, value = inside["score"].to_numpy(np.float64), inside["value"].to_numpy(np.float64)
    others = Others(images=len(outside), pc=_pc(outside) if len(outside) >= FEWEST else None)
    return Group(
        images=len(inside),
        pc=_pc(inside),
        mae=round(metrics.mae(score, value), 5),
        rmse=round(metrics.rmse(score, value), 5),
        bias=round(float((value - score).mean()), 5),
        others=others,
    )


def _pc(table: pd.DataFrame) -> float | None:
    pc = metrics.pearson(table["score"], table["value"])
    return None if math.isnan(pc) else round(pc, 5)


class GroupMean(NamedTuple):
    """Means over networks of one group's figures; `images` of all, and a 95 % interval of PC over images.

    `pc_others` is the correlation on all other images and `gap` PC − that; the intervals of the gap and the bias are
    of 95 % over images too. None where unknown; `kept` is False if a result did not keep figures of the others.
    """

    group: str
    images: int
    pc: float | None
    interval: tuple[float, float] | None
    mae: float
    bias: float
    bias_interval: tuple[float, float] | None
    pc_others: float | None
    gap: float | None
    gap_interval: tuple[float, float] | None
    kept: bool


def group_means(parts: Sequence[dict[str, Group]], same_images: bool) -> list[GroupMean]:
    """Groups over the networks of a row, whose test images are those of different folds, or the same for all.

    The interval is Fisher's, of the correlation's inverse hyperbolic tangent, whose variance is 1/(n − 3); that of the
    gap takes a group's images and the others for independent samples, which they are as far as photographs are. Where
    all networks are tested on the same images, their number narrows no interval.
    """
    names = list(dict.fromkeys(name for part in parts for name in part))
    return [_mean(name, [part[name] for part in parts if name in part], same_images) for name in names]


def _mean(name: str, found: Sequence[Group], same_images: bool) -> GroupMean:
    images = found[0].images if same_images else sum(group.images for group in found)
    pc, free = _correlation(found, same_images)
    rest = [group.others for group in found if group.others is not None]
    other, other_free = _correlation(rest, same_images) if len(rest) == len(found) else (None, 0)
    known = None if pc is None or other is None else (pc, other)
    return GroupMean(
        group=name,
        images=images,
        pc=pc,
        interval=None if pc is None else metrics.pearson_interval(pc, free),
        mae=_average(g.mae for g in found),
        bias=_average(g.bias for g in found),
        bias_interval=_bias_interval(found, same_images),
        pc_others=other,
        gap=None if known is None else known[0] - known[1],
        gap_interval=None if known is None else metrics.pearson_gap(known[0], free, known[1], other_free),
        kept=len(rest) == len(found),
    )


def _correlation(found: Sequence[Group] | Sequence[Others], same_images: bool) -> tuple[float | None, int]:
    """The mean correlation, None unless all are known, and how many images it rests on, less three of each sample."""
    known = [part.pc for part in found if part.pc is not None]
    free = found[0].images - 3 if same_images else sum(part.images - 3 for part in found)
    return (_average(known) if len(known) == len(found) else None), free


def _bias_interval(found: Sequence[Group], same_images: bool) -> tuple[float, float] | None:
    """Student's, of the mean error: errors have the variance RMSE² − bias²."""
    free = found[0].images - 1 if same_images else sum(group.images - 1 for group in found)
    if min(group.images for group in found) < 2:
        return None
    errors = [math.sqrt(max(group.rmse**2 - group.bias**2, 0.0) / (group.images - 1)) for group in found]
    spread = _average(errors) if same_images else math.hypot(*errors) / len(errors)
    middle, half = _average(group.bias for group in found), float(t.ppf(0.975, free)) * spread
    return middle - half, middle + half


def _average(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
