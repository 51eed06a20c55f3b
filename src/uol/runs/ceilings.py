"""Groups and the reliability of their ratings: how much of a lower correlation the ratings themselves explain.

The means of few raters, or of images that differ little, are unreliable, and nothing can correlate with them by more
than √reliability, the ceiling (Spearman 1904). A correlation divided by the ceiling is that with the means which
countless raters would give.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import Field

from uol.errors import CallError
from uol.ratings.rated_images import RatedImages
from uol.ratings.stats import means_reliability
from uol.runs.folder import RunFolder, run_folders
from uol.runs.groups import GroupMean, group_means, group_words, groups_of, named_groups
from uol.runs.lineage import read_lineage
from uol.runs.predictions import read_predictions
from uol.storage.validation import Strict

_DIGITS = 4

Interval = tuple[float, float]


class GroupReliability(Strict):
    """The reliability of the means of a group's images, and of all others; None where it cannot be computed."""

    images: int = Field(ge=1)
    reliability: float | None
    others: float | None


class DatasetReliability(Strict):
    """The reliability of a data set's means within each group, as `groups_of` names them."""

    fingerprint: str
    groups: dict[str, GroupReliability]


class Ceiling(NamedTuple):
    """A group's correlation, and what the reliability of its ratings says of it; None where unknown.

    `corrected` is PC / √reliability and `corrected_gap` that minus the same of all other images, with a 95 % interval
    over images (the reliabilities are taken as known). `expected` is the PC of a network that is as good in the group
    as on the others: PC of others · √(reliability / reliability of others). `explained` is the share of the gap up to
    it, of groups that are shown to be worse.
    """

    mean: GroupMean
    reliability: float | None
    ceiling: float | None
    corrected: float | None
    corrected_others: float | None
    corrected_gap: float | None
    corrected_interval: Interval | None
    expected: float | None
    explained: float | None


def reliability_by_group(rated: RatedImages) -> DatasetReliability:
    """The reliability of a data set's means within each group of ten images or more."""
    found = {}
    for name, inside in named_groups(group_words(rated.groups)) if len(rated.groups) else ():
        within, others = (
            means_reliability(rated.subset(np.flatnonzero(rows))) if rows.any() else None for rows in (inside, ~inside)
        )
        found[name] = GroupReliability(images=int(inside.sum()), reliability=_rounded(within), others=_rounded(others))
    return DatasetReliability(fingerprint=rated.fingerprint, groups=found)


def ceilings(means: Sequence[GroupMean], known: Mapping[str, GroupReliability]) -> list[Ceiling]:
    """The groups of networks with the reliability of their ratings, where it is known."""
    return [_ceiling(mean, known.get(mean.group)) for mean in means]


def _ceiling(mean: GroupMean, known: GroupReliability | None) -> Ceiling:
    ceiling = _root(None if known is None else known.reliability)
    others = _root(None if known is None else known.others)
    reliability = None if known is None else known.reliability
    if mean.pc is None or ceiling is None:
        return Ceiling(mean, reliability, ceiling, *[None] * 6)
    corrected = mean.pc / ceiling
    if mean.pc_others is None or others is None:
        return Ceiling(mean, reliability, ceiling, corrected, *[None] * 5)
    expected = mean.pc_others * ceiling / others
    worse = mean.gap is not None and mean.gap_interval is not None and mean.gap_interval[1] < 0
    return Ceiling(
        mean,
        reliability,
        ceiling,
        corrected,
        mean.pc_others / others,
        corrected - mean.pc_others / others,
        _gap_interval(mean, ceiling, others),
        expected,
        (mean.pc_others - expected) / (mean.pc_others - mean.pc) if worse else None,
    )


def _gap_interval(mean: GroupMean, ceiling: float, others: float) -> Interval | None:
    """Zou's interval of a difference, as `metrics.pearson_gap`, of correlations divided by their ceilings."""
    if mean.interval is None or mean.others_interval is None or mean.pc is None or mean.pc_others is None:
        return None
    low, pc, high = (value / ceiling for value in (mean.interval[0], mean.pc, mean.interval[1]))
    below, above = mean.others_interval
    least, other, most = (value / others for value in (below, mean.pc_others, above))
    return pc - other - math.hypot(pc - low, most - other), pc - other + math.hypot(high - pc, other - least)


def run_ceilings(folder: Path, rated: RatedImages) -> list[Ceiling]:
    """The groups of a data set in the predictions of a run, or of a folder of folds."""
    tables = [read_predictions(_predictions_on(run, rated)) for run in run_folders(folder)]
    same_images = len({tuple(table["image"]) for table in tables}) == 1
    means = group_means([groups_of(table) for table in tables], same_images)
    return ceilings(means, reliability_by_group(rated).groups)


def _predictions_on(run: RunFolder, rated: RatedImages) -> Path:
    """A run's predictions on a data set."""
    lineage = read_lineage(run.path)
    trained = None if lineage is None else lineage.split_of(rated.fingerprint)
    if trained is not None:
        trained.check(run, rated)
    path = run.evaluation_table(rated.name) if trained is None else trained.folder(run).predictions
    if not path.is_file():
        raise CallError(f"{run}: no predictions on {rated.name}; uol evaluate {run} --data {rated.name} makes them")
    return path


def _root(value: float | None) -> float | None:
    return None if value is None or value <= 0 else math.sqrt(value)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
