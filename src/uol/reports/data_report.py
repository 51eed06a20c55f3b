"""The HTML report on a rated data set: distribution, disagreement, raters and groups."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from uol.errors import counted
from uol.ratings.rated_images import RatedImages
from uol.ratings.reliability import rater_table
from uol.ratings.stats import MOST_GROUPS, data_stats
from uol.reports.figures import BLUE, GREY, ORANGE, means_by_group, tidy
from uol.reports.html import Section, write_report

GROUP_COLUMNS = {
    "group": "group", "images": "images", "mean": "mean score", "mean_low_95": "low, 95 %",
    "mean_high_95": "high, 95 %", "sd": "sd",
    "mean_rating_variance": "mean rating variance", "spearman_brown": "reliability of means",
}  # fmt: skip
DIFFERENCE_COLUMNS = {
    "group": "group", "other": "minus", "difference": "difference", "difference_low_95": "low, 95 %",
    "difference_high_95": "high, 95 %", "effect_size": "Hedges' g", "effect_size_low_95": "low, 95 %",
    "effect_size_high_95": "high, 95 %",
}  # fmt: skip
VOTE_COLUMNS = {
    "image": "image", "votes": "votes", "scale_value": "scale value", "standard_error": "standard error",
    "scale_value_low_95": "low, 95 %", "scale_value_high_95": "high, 95 %",
}  # fmt: skip
RELIABILITY_NAMES = {
    "icc_2_1": "ICC(2,1): one rater", "icc_2_k": "ICC(2,k): the panel's mean", "icc_1_1": "ICC(1,1): one rating",
    "icc_1_k": "ICC(1,k): the panel's mean", "raters_per_image": "ratings per image (harmonic mean)",
    "krippendorff_alpha": "Krippendorff's alpha, interval", "split_half": "split half",
    "spearman_brown": "split half, Spearman-Brown", "adjusted_pc": "PC of means and means adjusted for leniency",
}  # fmt: skip


def write_data_report(path: str | os.PathLike[str], rated: RatedImages, stats: dict[str, Any] | None = None) -> None:
    """Write the report; `stats` may be given where they are computed already."""
    stats = data_stats(rated) if stats is None else stats
    sections = [
        Section(
            "Scores",
            f"Mean {stats['score']['mean']:.3f}, from {stats['score']['min']:.2f} to {stats['score']['max']:.2f} on a "
            f"scale of {rated.scale.low:g} to {rated.scale.high:g}.",
            figures=[_distribution(rated), *_disagreement(rated), *_ratings_per_image(rated)],
        ),
        Section(
            "Reliability",
            "How far raters agree, and how well their mean would be found again with other raters of the same kind."
            if stats["reliability"]
            else "Only means are known: reliability needs single ratings, counts per level, or variances and counts.",
            {"what": "", "value": "value"} if stats["reliability"] else None,
            [{"what": RELIABILITY_NAMES[name], "value": value} for name, value in stats["reliability"].items()],
        ),
    ]
    if rated.ratings is not None and len(rated.ratings.raters) > 1:
        sections.append(
            Section(
                "Raters",
                "Leniency is a rater's shift apart from the images seen; agreement is the correlation with the others.",
                figures=[_raters(rated)],
            )
        )
    for name, rows in stats["by_group"].items():
        if 1 < len(rows) <= MOST_GROUPS:
            sections.append(
                Section(
                    f"By {name}",
                    "Mean scores with 95 % intervals. How well a group's means can be predicted is limited by their "
                    "reliability, a PC of about its root, and PC is lower where scores differ less (sd).",
                    GROUP_COLUMNS,
                    rows,
                    [means_by_group(rows, "mean score", ends=("mean_low_95", "mean_high_95"))],
                )
            )
        if name in stats["differences"]:
            found = stats["differences"][name]
            text = f"Differences of mean scores: {found['method']}."
            sections.append(Section(f"Differences by {name}", text, DIFFERENCE_COLUMNS, found["rows"]))
    if stats["scale_values"]:
        best = sorted(stats["scale_values"], key=lambda row: -row["scale_value"])
        text = "In logits, centred on zero, with standard errors and 95 % intervals."
        sections.append(Section("Scale values", text, VOTE_COLUMNS, best))
    if rated.notes:
        sections.append(
            Section("Notes of the loader", columns={"note": "note"}, rows=[{"note": n} for n in rated.notes])
        )
    raters = counted(stats["raters"], "rater") if stats["raters"] else "unknown raters"
    write_report(path, f"Ratings: {rated.name}", f"{counted(len(rated), 'image')}, {raters}.", sections)


def _distribution(rated: RatedImages) -> Figure:
    figure = Figure(figsize=(5.2, 3.8), layout="constrained")
    ax = figure.subplots()
    ax.hist(rated.scores, bins=40, range=rated.scale, color=BLUE)
    ax.set(xlabel="mean score", ylabel="images")
    tidy(ax)
    return figure


def _disagreement(rated: RatedImages) -> list[Figure]:
    known = np.flatnonzero(np.isfinite(rated.variances))
    if known.size < 10:
        return []
    x, y = rated.scores[known], rated.variances[known]
    figure = Figure(figsize=(5.2, 3.8), layout="constrained")
    ax = figure.subplots()
    ax.plot(x, y, ".", color=BLUE, ms=2.5, alpha=0.4)
    parts = np.array_split(np.argsort(x), 10)
    ax.plot([x[p].mean() for p in parts], [y[p].mean() for p in parts], "o-", color=ORANGE, label="means of ten groups")
    ax.set(xlabel="mean score", ylabel="variance of the ratings")
    ax.legend(frameon=False, fontsize=8)
    tidy(ax)
    return [figure]


def _ratings_per_image(rated: RatedImages) -> list[Figure]:
    """None where the number is unknown or the same for all images."""
    if np.ptp(rated.counts) == 0:
        return []
    figure = Figure(figsize=(5.2, 3.8), layout="constrained")
    ax = figure.subplots()
    ax.hist(rated.counts, bins=min(40, int(np.ptp(rated.counts)) + 1), color=BLUE)
    ax.set(xlabel="ratings of an image", ylabel="images")
    tidy(ax)
    return [figure]


def _raters(rated: RatedImages) -> Figure:
    assert rated.ratings is not None
    table = rater_table(rated.ratings)
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    ax = figure.subplots()
    ax.axvline(0, color=GREY, lw=0.8)
    ax.plot(table["leniency"], table["agreement"], "o", color=BLUE, ms=4, alpha=0.7)
    ax.set(xlabel="leniency", ylabel="agreement with the other raters")
    tidy(ax)
    return figure
