"""Figures by group: how well a panel's scores are predicted within each gender, ethnicity, and both together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.ratings import metrics
from uol.ratings.numerics import student_quantile
from uol.ratings.stats import groupings
from uol.runs.evaluation import LENIENCY
from uol.runs.result import Group, Others

PREDICTION_COLUMNS = ("image", "score", "rating_sd", "value", "low", "high", "dispersion", LENIENCY)
FEWEST = 10  # images: with fewer a correlation says nothing
_DIGITS = 5  # of figures in a result


def group_words(table: pd.DataFrame) -> pd.DataFrame:
    """The columns of predictions that say which group an image is in, as words."""
    words = table.drop(columns=list(PREDICTION_COLUMNS), errors="ignore").astype(object)
    return words.where(words.notna() & (words != ""), "unknown").astype(str)


def split_by(words: pd.DataFrame, names: Sequence[str]) -> Iterator[tuple[list[str], npt.NDArray[np.bool_]]]:
    """The words of each group, and which rows are in it; `words` are those of `group_words`."""
    groups = list(zip(*(words[name] for name in names), strict=True))
    for group in sorted(set(groups)):
        yield list(group), np.fromiter((other == group for other in groups), np.bool_, len(groups))


def groups_of(table: pd.DataFrame) -> dict[str, Group]:
    """Figures of each group with ten images or more, by names such as "female" and "female, asian"."""
    return {name: group_figures(table, inside, _DIGITS) for name, inside in named_groups(group_words(table))}


def named_groups(words: pd.DataFrame) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """The name of each group with ten images or more, and which rows are in it; `words` are those of `group_words`."""
    columns = groupings(words)
    words = words.copy()
    known = Counter(word for name in words for word in words[name].unique() if (name,) in columns)
    for (name,) in (names for names in columns if len(names) == 1):  # a word of two columns needs its column's name
        words[name] = [f"{name} {word}" if known[word] > 1 else word for word in words[name]]
    for names in columns:
        for values, inside in split_by(words, names):
            if inside.sum() >= FEWEST:
                yield ", ".join(values), inside


def group_figures(table: pd.DataFrame, inside: npt.NDArray[np.bool_], digits: int = 15) -> Group:
    """The figures of a group of predictions, whose rows are `inside`, and the correlation on all others."""
    scores, values = table["score"].to_numpy(np.float64), table["value"].to_numpy(np.float64)
    score, value, outside = scores[inside], values[inside], ~inside
    others, n = None, int(outside.sum())
    if n:
        others = Others(images=n, pc=_pc(scores[outside], values[outside], digits) if n >= FEWEST else None)
    return Group(
        images=len(score),
        pc=_pc(score, value, digits),
        mae=round(metrics.mae(score, value), digits),
        rmse=round(metrics.rmse(score, value), digits),
        bias=round(float((value - score).mean()), digits),
        others=others,
    )


def _pc(score: npt.NDArray[np.float64], value: npt.NDArray[np.float64], digits: int) -> float | None:
    pc = metrics.pearson(score, value)
    return None if math.isnan(pc) else round(pc, digits)


class GroupMean(NamedTuple):
    """Means over networks of one group's figures; `images` of all, and a 95 % interval of PC over images.

    `pc_others` is the correlation on all other images and `gap` PC − that; the intervals of both and of the bias are
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
    others_interval: tuple[float, float] | None
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
    return [group_mean(name, [part[name] for part in parts if name in part], same_images) for name in names]


def group_mean(name: str, found: Sequence[Group], same_images: bool) -> GroupMean:
    """The mean of one group over networks, as `group_means` makes it."""
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
        others_interval=None if other is None else metrics.pearson_interval(other, other_free),
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
    middle, half = _average(group.bias for group in found), float(student_quantile(free, 0.975)) * spread
    return middle - half, middle + half


def _average(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
