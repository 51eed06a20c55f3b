"""Figures by group of every row: on its test folds, and on other data sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from uol.experiments.plans import Plan
from uol.experiments.rows import WHO, Cells, Source, View, Who, used_results, who
from uol.reports.formats import format_interval
from uol.runs.groups import GroupMean, group_means
from uol.runs.result import Result


class RowGroups(NamedTuple):
    """The groups of one row on one data set."""

    who: Who
    tested_on: str
    means: list[GroupMean]

    @property
    def worst_first(self) -> list[GroupMean]:
        """Its groups by how far they are behind all other images; where that is unknown, last."""
        return sorted(self.means, key=lambda mean: math.inf if mean.gap is None else mean.gap)


def groups_by_row(results: Sequence[Result], plan: Plan | None = None, tested_on: str | None = None) -> list[RowGroups]:
    """The groups of each row: on the test folds, then on other data sets; of `tested_on` alone where it is given."""
    found = []
    for used in used_results(results, plan):
        first = used[0]
        tested = [(first.provenance.data.name, [r.groups or {} for r in used], False)]
        for name in sorted({name for r in used for name in r.transfer}):
            there = [r.transfer[name] for r in used if name in r.transfer]
            tested.append((name, [one.groups or {} for one in there], True))
        for name in sorted({name for r in used for name in r.beside or {}}):
            panels = [r.beside[name] for r in used if r.beside and name in r.beside]
            tested.append((name, [one.groups or {} for one in panels], len({one.split for one in panels}) == 1))
        found += [
            RowGroups(who(first), name, group_means(parts, same_images))
            for name, parts, same_images in tested
            if tested_on in (None, name)
        ]
    return found


def groups_table(source: Source) -> View:
    """Every group of every row."""
    rows: list[Cells] = [
        {**row.who, "tested_on": row.tested_on, **dict[str, Any](mean._asdict())}
        | {"interval_pc": format_interval(mean.interval)}
        for row in groups_by_row(source.results, tested_on=source.tested_on)
        for mean in row.means
    ]
    columns = {"tested_on": "tested on", "group": "group", "images": "images", "pc": "PC",
               "interval_pc": "95 % of PC", "mae": "MAE", "bias": "bias"}  # fmt: skip
    return View(rows, WHO | columns)


def gaps_table(source: Source) -> View:
    """How far each group is behind all other images: of every row and data set the worst group first."""
    rows: list[Cells] = []
    for row in groups_by_row(source.results, tested_on=source.tested_on):
        ordered = row.worst_first
        rows += [
            {**dict[str, Any](row.who), "tested_on": row.tested_on, "group": mean.group, "images": mean.images}
            | {"pc": mean.pc, "pc_others": mean.pc_others}
            | {"difference": mean.gap, "interval": format_interval(mean.gap_interval, signed=True)}
            | {"bias": mean.bias, "interval_bias": format_interval(mean.bias_interval, signed=True)}
            | {"told": _in_words(mean, worst=place == 0 and all(one.kept for one in ordered))}
            for place, mean in enumerate(ordered)
        ]
    columns = {"tested_on": "tested on", "group": "group", "images": "images", "pc": "PC", "pc_others": "PC of others",
               "difference": "gap", "interval": "95 % of gap", "bias": "bias",
               "interval_bias": "95 % of bias", "told": "in words"}  # fmt: skip
    return View(rows, WHO | columns)


def _in_words(mean: GroupMean, worst: bool) -> str:
    """What the figures of a group say; no group is called the worst while a gap is unknown."""
    if mean.gap is None or mean.gap_interval is None:
        return "too few images" if mean.kept else "gap unknown: add the run again with --replace"
    side = f"PC {abs(mean.gap):.4f} {'below' if mean.gap < 0 else 'above'} all others"
    sure = mean.gap_interval[0] > 0 or mean.gap_interval[1] < 0
    if worst and mean.gap < 0:
        return f"largest gap: {side}" + ("" if sure else ", which may be chance")
    return side if sure else "no gap shown"
