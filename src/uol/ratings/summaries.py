"""What people take from a table of ratings: a row per image, and a row per rater."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.errors import CallError
from uol.ratings.metrics import pearson_interval
from uol.ratings.numerics import student_quantile
from uol.ratings.rated_images import RatedImages
from uol.ratings.rater_effects import adjusted_means, unconnected_sets
from uol.ratings.reliability import rater_table
from uol.ratings.scale import Scale

Floats = npt.NDArray[np.float64]

_NORMAL = 1.959963984540054
_ENOUGH = 10  # ratings that a rater must have given to be judged
_SAME = 0.95  # of a rater's ratings
_FAR = 3.5  # robust standard deviations from the median leniency
_LEAST_FAR = 0.15  # of the range of the scale


def image_table(rated: RatedImages) -> pd.DataFrame:
    """A row per image: n, mean, sd, standard error, 95 % interval of the mean, adjusted mean, histogram and groups.

    The interval is Student's over the image's ratings, within the scale: where the mean of many raters of the same kind
    would be. `adjusted_mean` is the mean by raters of equal leniency, empty where raters are unknown or no rating
    connects some of them with the others. Columns `rated_1` … count the ratings at each level. Votes give scale values
    with standard errors and 95 % intervals in logits.
    """
    if rated.standard_errors is not None:
        return _with_groups(vote_table(rated), rated)
    counts = rated.counts.astype(np.float64)
    known = counts > 0
    sd = np.sqrt(rated.variances)
    error = sd / np.sqrt(np.where(known, counts, np.nan))
    half = student_quantile(np.where(counts > 1, counts - 1, np.nan), 0.975) * error
    adjusted = np.full(len(rated), np.nan)
    if rated.ratings is not None and unconnected_sets(rated.ratings) == 1:
        adjusted = adjusted_means(rated.ratings)
    table = pd.DataFrame(
        {
            "image": list(rated.names),
            "n": pd.array(np.where(known, rated.counts, 0), dtype="Int64"),
            "mean": rated.scores,
            "sd": sd,
            "standard_error": error,
            "mean_low_95": np.clip(rated.scores - half, *rated.scale),
            "mean_high_95": np.clip(rated.scores + half, *rated.scale),
            "adjusted_mean": adjusted,
        }
    )
    table.loc[~known, "n"] = pd.NA
    if rated.histograms is not None and rated.levels is not None:
        for level, column in zip(rated.levels, rated.histograms.T, strict=True):
            whole = bool(np.all(column % 1 == 0))
            table[f"rated_{level:g}"] = column.astype(np.int64) if whole else column
    return _with_groups(table, rated)


def vote_table(rated: RatedImages) -> pd.DataFrame:
    """A row per image that people voted on: votes, scale value, standard error and 95 % interval in logits."""
    assert rated.standard_errors is not None
    return pd.DataFrame(
        {
            "image": list(rated.names),
            "votes": rated.counts,
            "scale_value": rated.scores,
            "standard_error": rated.standard_errors,
            "scale_value_low_95": rated.scores - _NORMAL * rated.standard_errors,
            "scale_value_high_95": rated.scores + _NORMAL * rated.standard_errors,
        }
    )


def rater_summary(rated: RatedImages) -> pd.DataFrame:
    """A row per rater: n, mean, leniency, agreement with the others, spread, whether flagged, and why.

    A rater of ten ratings or more is flagged for an agreement whose 95 % interval is below half the median of all
    raters', for ratings that are nearly all the same, or for a leniency far from that of the others: more than 3.5
    robust standard deviations and 15 % of the scale.
    """
    if rated.ratings is None:
        raise CallError(f"{rated.name}: raters are not known, and there is no table of them")
    table = rater_table(rated.ratings).reset_index().rename(columns={"count": "n", "spread": "sd"})
    table = table[table["n"] > 0].reset_index(drop=True)
    matrix = rated.ratings.matrix[:, ~np.isnan(rated.ratings.matrix).all(axis=0)]
    table.insert(2, "mean", np.nanmean(matrix, axis=0))
    reasons = _reasons(table, matrix, rated.scale)
    return table.assign(flagged=[bool(reason) for reason in reasons], reason=["; ".join(found) for found in reasons])


def _reasons(table: pd.DataFrame, matrix: Floats, scale: Scale) -> list[list[str]]:
    """Why each rater is flagged; an empty list for those who are not."""
    leniency = table["leniency"].to_numpy(np.float64)
    middle = float(np.median(leniency))
    spread = 1.4826 * float(np.median(np.abs(leniency - middle)))
    far = max(_FAR * spread, _LEAST_FAR * (scale.high - scale.low))
    usual = table["agreement"].median()
    found: list[list[str]] = []
    for place, (n, agreement) in enumerate(zip(table["n"], table["agreement"], strict=True)):
        reasons: list[str] = []
        ratings = matrix[~np.isnan(matrix[:, place]), place]
        share = float(np.unique(ratings, return_counts=True)[1].max()) / n
        if n >= _ENOUGH:
            ends = pearson_interval(float(agreement), int(n) - 3)
            if share >= _SAME:
                reasons.append(f"{share:.0%} of the ratings are the same")
            elif ends is not None and ends[1] < 0:
                reasons.append(f"rates against the others (r = {agreement:.2f}); perhaps the scale was turned round")
            elif ends is not None and ends[1] < usual / 2:
                reasons.append(f"hardly agrees with the others (r = {agreement:.2f})")
            if len(table) > 2 and abs(leniency[place] - middle) > far:
                side = "above" if leniency[place] > middle else "below"
                reasons.append(f"rates {abs(leniency[place] - middle):.2f} {side} the others")
        found.append(reasons)
    return found


def _with_groups(table: pd.DataFrame, rated: RatedImages) -> pd.DataFrame:
    taken = set(table.columns)
    names = {name: f"group_{name}" if name in taken else str(name) for name in rated.groups}
    return pd.concat([table, rated.groups.rename(columns=names).reset_index(drop=True)], axis=1)
