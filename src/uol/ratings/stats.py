"""Statistics of a rated data set, ready for JSON: scores, disagreement, reliability and groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.errors import UolError
from uol.ratings.group_differences import group_differences, group_labels
from uol.ratings.numerics import student_quantile
from uol.ratings.rated_images import RatedImages
from uol.ratings.reliability import (
    krippendorff_alpha_from_counts,
    one_way_from_moments,
    one_way_icc_from_counts,
    reliability,
    split_half,
    split_half_from_counts,
)
from uol.ratings.summaries import rater_summary, vote_table

MOST_GROUPS = 40
_BINS = 20
_FEWEST = 10  # images that a group needs for its reliability to be reported
_FEW_COLUMNS = 3  # of groups: with more of them, none are crossed


def data_stats(rated: RatedImages, seed: int = 0) -> dict[str, Any]:
    """Statistics of a rated set.

    `raters` is how many people rated or voted, None where that is unknown; `variance_peak` is the mean score of the
    tenth of the images that raters disagree about most; `differences` are those between groups, with effect sizes; and
    `scale_values` has a row per image of votes.
    """
    if not rated.rated:
        raise UolError(f"{rated.name}: nobody rated these images; there is nothing to describe")
    counts, edges = np.histogram(rated.scores, bins=_BINS, range=rated.scale)
    variances = rated.variances[np.isfinite(rated.variances)]
    return {
        "name": rated.name,
        "images": len(rated),
        "raters": raters(rated),
        "ratings_per_image": _none(float(rated.counts.mean())) if rated.counts.any() else None,
        "scale": list(rated.scale),
        "score": {
            "mean": float(rated.scores.mean()),
            "sd": _none(float(rated.scores.std(ddof=1))) if len(rated) > 1 else None,
            "min": float(rated.scores.min()),
            "max": float(rated.scores.max()),
        },
        "histogram": {"edges": edges.tolist(), "images": counts.tolist()},
        "mean_rating_variance": float(variances.mean()) if variances.size else None,
        "variance_peak": _variance_peak(rated),
        "reliability": reliabilities(rated, seed),
        "flagged_raters": [] if rated.ratings is None else _flagged(rated),
        "by_group": {" × ".join(names): group_rows(rated, names, seed) for names in _shown_groupings(rated.groups)},
        "differences": {
            name: found for (name,) in groupings(rated.groups, 1) if (found := group_differences(rated, name, seed))
        },
        "scale_values": None if rated.standard_errors is None else vote_table(rated).to_dict("records"),
        "splits": {name: {"train": len(split.train), "test": len(split.test)} for name, split in rated.splits.items()},
        "notes": list(rated.notes),
    }


def _flagged(rated: RatedImages) -> list[dict[str, Any]]:
    found = rater_summary(rated)
    columns = ("rater", "n", "leniency", "agreement", "reason")
    rows = found.loc[found["flagged"], list(columns)].itertuples(index=False, name=None)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def raters(rated: RatedImages) -> int | None:
    """How many people rated or voted; None where that is unknown."""
    return rated.people if rated.ratings is None else len(rated.ratings.raters)


def reliabilities(rated: RatedImages, seed: int = 0) -> dict[str, float | None]:
    """Reliability by rater where raters are known, else from counts per level, else from variances and counts.

    Empty where none of these are known.
    """
    if rated.ratings is not None:
        return reliability(rated.ratings, seed)
    if rated.histograms is None or rated.levels is None:
        return _from_moments(rated)
    icc = one_way_icc_from_counts(rated.histograms, rated.levels)
    halves = split_half_from_counts(rated.histograms, rated.levels, seed=seed)
    return {
        "icc_1_1": _none(icc.single),
        "icc_1_k": _none(icc.average),
        "raters_per_image": _none(icc.raters_per_image),
        "krippendorff_alpha": _none(krippendorff_alpha_from_counts(rated.histograms, rated.levels)),
        "split_half": _none(halves.correlation),
        "spearman_brown": _none(halves.spearman_brown),
    }


def _from_moments(rated: RatedImages) -> dict[str, float | None]:
    several = rated.counts > 1
    if not several.any() or not (rated.counts > 0).all() or np.isnan(rated.variances[several]).any():
        return {}
    icc, alpha = one_way_from_moments(rated.scores, rated.variances, rated.counts)
    return {
        "icc_1_1": _none(icc.single),
        "icc_1_k": _none(icc.average),
        "raters_per_image": _none(icc.raters_per_image),
        "krippendorff_alpha": _none(alpha),
    }


def groupings(columns: pd.DataFrame, together: int = 2) -> list[tuple[str, ...]]:
    """The columns to group by, one alone or two crossed if so many go `together`, that have 2 to 40 groups."""
    alone: list[tuple[str, ...]] = [(str(name),) for name in columns if 1 < columns[name].nunique() <= MOST_GROUPS]
    if together == 1:
        return alone
    crossed = combinations([name for (name,) in alone], 2)
    return alone + [pair for pair in crossed if len(columns[list(pair)].drop_duplicates()) <= MOST_GROUPS]


def _shown_groupings(columns: pd.DataFrame) -> list[tuple[str, ...]]:
    """Every column alone, and two crossed where that does not make a long list."""
    alone = [(str(name),) for name in columns]
    return alone + [names for names in groupings(columns) if len(names) > 1 and len(alone) <= _FEW_COLUMNS]


def group_rows(rated: RatedImages, names: Sequence[str], seed: int = 0) -> list[dict[str, Any]]:
    """One row per group: images, mean score with its 95 % interval, sd, mean rating variance, reliability.

    The interval is Student's over the images of the group, within the scale.

    `spearman_brown` is of the panel's means within the group; √ of it is the highest correlation with them that can be
    expected, which differs between groups, as their range of scores does.
    """
    rows = []
    labels = rated.groups[list(names)].apply(group_labels)
    bounded = rated.scale if rated.standard_errors is None else (-math.inf, math.inf)  # logits have no ends
    for values, members in labels.groupby(list(names)).indices.items():
        inside = rated.subset(members)
        scores, variances = inside.scores, inside.variances
        n = len(scores)
        sd = float(scores.std(ddof=1)) if n > 1 else math.nan
        half = float(student_quantile(n - 1, 0.975)) * sd / math.sqrt(n) if n > 1 else math.nan
        known = variances[np.isfinite(variances)]
        rows.append(
            {
                "group": " × ".join(map(str, values if isinstance(values, tuple) else (values,))),
                "images": n,
                "mean": float(scores.mean()),
                "mean_low_95": _none(float(np.clip(scores.mean() - half, *bounded))),
                "mean_high_95": _none(float(np.clip(scores.mean() + half, *bounded))),
                "sd": _none(sd),
                "mean_rating_variance": float(known.mean()) if known.size else None,
                "spearman_brown": means_reliability(inside, seed),
            }
        )
    return rows


def means_reliability(rated: RatedImages, seed: int = 0) -> float | None:
    """The reliability of the means of these images, by split halves; None where it cannot be computed."""
    if len(rated) < _FEWEST:
        return None
    if rated.ratings is not None:
        return _none(split_half(rated.ratings.matrix, seed=seed).spearman_brown)
    if rated.histograms is None or rated.levels is None:
        return None
    return _none(split_half_from_counts(rated.histograms, rated.levels, seed=seed).spearman_brown)


def _variance_peak(rated: RatedImages) -> float | None:
    known = np.flatnonzero(np.isfinite(rated.variances))
    if known.size < 10:
        return None
    most: npt.NDArray[np.intp] = known[np.argsort(rated.variances[known])[-max(known.size // 10, 1) :]]
    return float(rated.scores[most].mean())


def _none(value: float) -> float | None:
    return value if math.isfinite(value) else None
