"""Rows compared with rows: paired differences on the same test images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict

from uol.experiments.plans import Plan
from uol.experiments.rows import Interval, mean, row_replicates, transfer_replicates, used_results
from uol.runs.bootstrap import Difference, Floats, paired
from uol.runs.result import Result

_FIGURES = {"pc": "PC", "mae": "MAE", "rmse": "RMSE"}


class RowDifference(TypedDict):
    """One figure of a row minus that of the row `against`; None where results have no replicates."""

    method: str
    recipe: str
    trained_on: str
    against: str
    folds: int
    tested_on: str
    figure: str
    difference: float | None
    interval: Interval | None
    p: float | None


class _Figure(NamedTuple):
    """A figure of a row: its value, its replicates, the images it is from, and the fingerprints of their ratings."""

    value: float | None
    replicates: Floats | None
    images: tuple[Any, ...]
    ratings: tuple[str | None, ...] = ()  # None for a result from before they were kept

    def on_the_same(self, other: _Figure) -> bool:
        """Whether another figure is from the same images with the same ratings, as far as is known."""
        both = zip(self.ratings, other.ratings, strict=False)
        return self.images == other.images and all(None in pair or pair[0] == pair[1] for pair in both)


def differences(results: Sequence[Result], plan: Plan | None = None) -> list[RowDifference]:
    """Each row minus the plan's reference, or minus the row before: PC, MAE, RMSE, and PC on other data sets.

    Only figures on the same images are compared: the folds that both rows have, or the same whole data set by their
    networks, with the same ratings. A reading of networks is not compared with another training of them.
    """
    rows = used_results(results, plan)
    reference = next((r for r in rows if plan is not None and (r[0].method, r[0].recipe) == plan.reference), None)
    found: list[RowDifference] = []
    for place, row in enumerate(rows):
        if plan is not None and plan.reference is not None:
            other = None if row is reference else reference
        else:
            other = rows[place - 1] if place else None
        if other is not None:
            found += _minus(row, other)
    return found


def _minus(row: Sequence[Result], other: Sequence[Result]) -> list[RowDifference]:
    first, second = row[0], other[0]
    common = {r.split for r in row} & {r.split for r in other}
    if not common or _read_off_others(row, other):
        return []
    ours, theirs = (_figures([r for r in one if r.split in common]) for one in (row, other))
    found = []
    for (tested_on, figure), one in ours.items():
        two = theirs.get((tested_on, figure))
        if two is None or not one.on_the_same(two):
            continue
        gap = _difference(one, two)
        found.append(
            RowDifference(
                method=first.method,
                recipe=first.recipe,
                trained_on=first.trained_on,
                against=f"{second.method} ({second.recipe})",
                folds=len(common),
                tested_on=tested_on,
                figure=figure,
                difference=None if gap is None else gap.difference,
                interval=None if gap is None else (gap.low, gap.high),
                p=None if gap is None else gap.p,
            )
        )
    return found


def _read_off_others(row: Sequence[Result], other: Sequence[Result]) -> bool:
    """Whether a row was read off networks of the other's recipe, but of another training."""
    names, networks = {r.file_name for r in other}, {r.network for r in other}
    read = {r.network for r in row if r.network != r.source and r.network.split(",")[0] in names}
    return not read <= networks


def _difference(one: _Figure, two: _Figure) -> Difference | None:
    if one.value is None or two.value is None or one.replicates is None or two.replicates is None:
        return None
    return paired(one.value, two.value, one.replicates, two.replicates)


def _figures(row: Sequence[Result]) -> dict[tuple[str, str], _Figure]:
    """A row's figures by data set and name."""
    first = row[0]
    folds = (first.provenance.data.fingerprint, *(r.split for r in row))
    found = {
        (first.provenance.data.name, heading): _Figure(
            mean(getattr(r.metrics, name) for r in row), row_replicates(row, name), folds
        )
        for name, heading in _FIGURES.items()
    }
    for tested_on in sorted({name for r in row for name in r.transfer}):
        there = [r.transfer[tested_on] for r in row if tested_on in r.transfer]
        found[tested_on, "PC"] = _Figure(
            mean(one.pc for one in there),
            transfer_replicates(row, tested_on),
            images=tuple(one.images for one in there),
            ratings=tuple(one.fingerprint for one in there),
        )
    return found
