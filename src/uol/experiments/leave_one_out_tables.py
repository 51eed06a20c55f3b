"""Tables of networks that were tested on a panel left out of their training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from uol.experiments.leave_one_out import LeftOut
from uol.experiments.rows import Cells, View, interval_of
from uol.reports.formats import format_interval
from uol.runs.bootstrap import Difference, mean_of, paired
from uol.runs.groups import GroupMean, group_means
from uol.runs.result import Transfer

_WHO = {"left_out": "left out", "recipe": "recipe", "trained_on": "trained on", "passes": "passes",
        "read_on": "read on"}  # fmt: skip


def left_out_figures(found: Sequence[LeftOut]) -> View:
    """The figures of each reading, with the interval of PC."""
    rows = [
        _who(one, panel)
        | {"seed": one.seed, "images": figures.images, "pc": figures.pc, "mae": figures.mae, "rmse": figures.rmse}
        | {"spearman": figures.spearman, "interval_pc": format_interval(pc_interval(figures))}
        for one in found
        for panel, figures in one.readings.items()
    ]
    return View(rows, _WHO | {"images": "images", "pc": "PC", "interval_pc": "95 % of PC", "spearman": "Spearman"})


def left_out_brief(found: Sequence[LeftOut]) -> View:
    """PC of each network with its interval, a column for each panel that reads."""
    panels = dict.fromkeys(panel for one in found for panel in one.readings)
    rows = []
    for one in found:
        row: Cells = {"left_out": one.left_out, "recipe": one.recipe, "passes": one.passes}
        for panel in panels:
            figures = one.readings.get(panel)
            row[panel] = None if figures is None else f"{figures.pc:.4f} ({format_interval(pc_interval(figures))})"
        rows.append(row)
    columns = {"left_out": "left out", "recipe": "recipe", "passes": "passes"}
    return View(rows, columns | {panel: f"read on {panel}" for panel in panels})


def left_out_differences(found: Sequence[LeftOut]) -> View:
    """PC of each recipe minus that of the one before, of the same panels that train, are left out and read."""
    rows: list[Cells] = []
    for one, two, panel in pairs_of(found):
        gap = difference(one.readings[panel], two.readings[panel])
        known = {} if gap is None else gap._asdict()
        between = None if gap is None else (gap.low, gap.high)
        rows.append(
            _who(one, panel)
            | {"against": two.recipe, "difference": known.get("difference"), "p": known.get("p")}
            | {"interval": format_interval(between, signed=True)}
        )
    columns = {"against": "against", "difference": "difference", "interval": "95 %", "p": "p"}
    return View(rows, _WHO | columns)


def left_out_groups(found: Sequence[LeftOut]) -> View:
    """PC within each group of the images left out, a column for each recipe and reading."""
    rows: dict[tuple[str, str], Cells] = {}
    columns = {"left_out": "left out", "group": "group", "images": "images"}
    for one in found:
        for panel in one.readings:
            key = f"{one.recipe}, read on {panel}"
            columns[key] = key
            for mean in left_out_means(one, panel):
                row = rows.setdefault((one.left_out, mean.group), {"left_out": one.left_out, "group": mean.group})
                row |= {"images": mean.images, key: mean.pc}
    return View([dict.fromkeys(columns) | row for row in rows.values()], columns)


def left_out_gaps(found: Sequence[LeftOut]) -> View:
    """Each group of the images left out against all other images, with intervals."""
    rows = [
        _who(one, panel)
        | {"group": mean.group, "images": mean.images, "pc": mean.pc, "interval_pc": format_interval(mean.interval)}
        | {"pc_others": mean.pc_others, "difference": mean.gap}
        | {"interval": format_interval(mean.gap_interval, signed=True), "bias": mean.bias}
        for one in found
        for panel in one.readings
        for mean in left_out_means(one, panel)
    ]
    columns = {"group": "group", "images": "images", "pc": "PC", "interval_pc": "95 % of PC",
               "pc_others": "PC of others", "difference": "gap", "interval": "95 % of gap", "bias": "bias"}  # fmt: skip
    return View(rows, _WHO | columns)


LEFT_OUT_KINDS: dict[str, Callable[[Sequence[LeftOut]], View]] = {
    "main": left_out_figures,
    "brief": left_out_brief,
    "differences": left_out_differences,
    "groups": left_out_groups,
    "gaps": left_out_gaps,
}


def pc_interval(figures: Transfer) -> tuple[float, float] | None:
    """The 95 % interval of a reading's correlation, None without replicates."""
    return interval_of(mean_of([None if figures.replicates is None else figures.replicates.pc]))


def difference(one: Transfer, two: Transfer) -> Difference | None:
    """The paired difference of two correlations on the same images, None without replicates."""
    first, second = (mean_of([None if f.replicates is None else f.replicates.pc]) for f in (one, two))
    if first is None or second is None or one.pc is None or two.pc is None:
        return None
    return paired(one.pc, two.pc, first, second)


def pairs_of(found: Sequence[LeftOut]) -> list[tuple[LeftOut, LeftOut, str]]:
    """Each run with the one before of the same panels, left out and trained, and each panel that reads in both."""
    return [
        (one, two, panel)
        for two, one in pairwise(sorted(found, key=_panels_of))
        if _panels_of(one) == _panels_of(two)
        for panel in one.readings
        if panel in two.readings
    ]


def _panels_of(one: LeftOut) -> tuple[str, str, int, list[str]]:
    return one.left_out, one.method, one.seed, [panel.name for panel in one.panels]


def left_out_means(one: LeftOut, panel: str) -> list[GroupMean]:
    """The groups of the images left out, by the panel that reads them."""
    return group_means([one.readings[panel].groups or {}], same_images=True)


def _who(one: LeftOut, panel: str) -> Cells:
    trained = " + ".join(data.name for data in one.panels)
    return {"left_out": one.left_out, "method": one.method, "recipe": one.recipe, "trained_on": trained,
            "passes": one.passes, "read_on": panel}  # fmt: skip
