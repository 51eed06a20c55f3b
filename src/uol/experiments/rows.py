"""From a name to the rows of its tables: means over folds of one seed, other data sets, the spread over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from uol.errors import CallError
from uol.experiments.anchoring_curve import Anchoring, read_anchorings
from uol.experiments.leave_one_out import LEAVE_ONE_OUT, LeftOut, read_left_out
from uol.experiments.method_panel import PANEL_DATA, Panel, read_panels
from uol.experiments.plans import PLANS, Plan
from uol.experiments.published import FIVE_FOLDS, Elsewhere, elsewhere, five_folds, order_of_methods, tested_elsewhere
from uol.runs.bootstrap import Floats, interval, mean_of
from uol.runs.ceilings import DatasetReliability, GroupReliability
from uol.runs.result import Result, is_fold
from uol.runs.result_checks import read_results
from uol.storage.validation import check_values, read_object

RELIABILITY = "reliability.json"  # the reliability of ratings by group, in the folder of results
ARCHIVE = "archive"  # the folder of results that no other table shows
FOLDS = "folds"
FIGURES = ("pc", "mae", "rmse")

WHO = {"method": "method", "recipe": "recipe", "ensemble": "networks"}  # the first columns of most tables

Interval = tuple[float, float]
Cell = str | int | float | None
Cells = dict[str, Cell]


class View(NamedTuple):
    """Rows, and the columns to show of them: key → heading."""

    rows: list[Cells]
    columns: dict[str, str]


@dataclass(frozen=True)
class Source:
    """Results to show, the plan that orders them, if any, panels of methods, curves of anchoring, panels left out.

    With `tested_on`, the results are of networks trained elsewhere, and tables show their figures on this data set.
    """

    results: Sequence[Result] = ()
    plan: Plan | None = None
    panels: Sequence[Panel] = ()
    anchorings: Sequence[Anchoring] = ()
    tested_on: str | None = None
    left_out: Sequence[LeftOut] = ()
    folder: Path | None = None  # of the results, with their predictions
    reliability: Mapping[str, DatasetReliability] = field(default_factory=dict)  # of ratings, by data set

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.results or self.panels or self.anchorings or self.left_out) and self.tested_on is None

    def reliability_of(self, data: str) -> Mapping[str, GroupReliability]:
        """The reliability of the means of each group of a data set; none if it is not kept."""
        return self.reliability[data].groups if data in self.reliability else {}

    def only(self, recipes: Sequence[str]) -> Source:
        """The rows of some recipes, named RECIPE or METHOD-RECIPE, or of panels left out; all where none is named."""
        if not recipes:
            return self
        if self.left_out:
            kept = [one for one in self.left_out if {one.left_out, one.recipe} & set(recipes)]
            if unknown := set(recipes) - {name for one in kept for name in (one.left_out, one.recipe)}:
                raise CallError(f"no results of {min(unknown)}")
            return replace(self, left_out=kept)
        chosen = [r for r in self.results if {r.recipe, f"{r.method}-{r.recipe}"} & set(recipes)]
        for name in recipes:
            if not any(name in (r.recipe, f"{r.method}-{r.recipe}") for r in chosen):
                raise CallError(f"no results of {name}")
        return replace(self, results=chosen)


def table_names(results: Path) -> list[str]:
    """Data sets with published figures, with results, with panels of methods or with curves of anchoring."""
    found = {path.parent.name for path in results.glob("*/*.json")}
    return sorted((FIVE_FOLDS.keys() | found) - {ARCHIVE})


def find_source(results: Path, name: str) -> Source:
    """The results under a name: a plan's, a data set's, or those that other networks have on a data set."""
    return replace(_find_source(results, name), reliability=read_reliability(results))


def read_reliability(results: Path) -> dict[str, DatasetReliability]:
    """The reliability of the means of each group that is kept with results, by data set."""
    path = results / RELIABILITY
    values = read_object(path) if path.is_file() else {}
    return {name: check_values(DatasetReliability, value, path) for name, value in values.items()}


def _find_source(results: Path, name: str) -> Source:
    if name in PLANS:
        plan = PLANS[name]
        folder = results / plan.trained_on
        return Source(plan.of(read_results(folder)), plan, folder=folder)
    known = (*table_names(results), *PANEL_DATA, *tested_elsewhere())
    if name == ARCHIVE or (name not in known and not (results / name).is_dir()):
        raise CallError(f"no table called {name!r}: there are {', '.join([*table_names(results), *PLANS])}")
    folder = results / name
    if name == LEAVE_ONE_OUT:
        return Source(left_out=read_left_out(folder), folder=folder)
    own, panels, curves = read_results(folder), read_panels(folder), read_anchorings(folder)
    tested = [] if own else [r for other in table_names(results) for r in _read(results / other) if name in r.transfer]
    if tested or (not own and name in tested_elsewhere()):
        return Source(tested, None, panels, curves, tested_on=name)
    return Source(own, None, panels, curves, folder=folder)


def _read(folder: Path) -> list[Result]:
    return read_results(folder) if folder.is_dir() and folder.name != LEAVE_ONE_OUT else []


class Who(TypedDict):
    """Which networks a row is of."""

    method: str
    recipe: str
    trained_on: str
    ensemble: int


class Row(Who):
    """One line of an experiment's table.

    `split` is "folds", or the one split that the figures are from (`folds` is then 0); `seeds` counts the seeds that
    were run, and `seed` is the one that the figures are from; `pc_sd` is the standard deviation over folds; `intervals`
    are those of a bootstrap over test images (95 %), None for results that were kept without replicates.
    """

    split: str
    folds: int
    seeds: int
    seed: int
    pc: float | None
    mae: float | None
    rmse: float | None
    spearman: float | None
    order_accuracy: float | None
    coverage: float | None
    dispersion_pc: float | None
    pc_sd: float | None
    intervals: dict[str, Interval | None]
    transfer: dict[str, float | None]
    transfer_intervals: dict[str, Interval | None]
    transfer_folds: dict[str, int]
    paper: dict[str, float] | None


class ElsewhereRow(Who):
    """The means of a row's networks on one data set that they never saw; `paper` has the published figures."""

    split: str
    tested_on: str
    models: int
    pc: float | None
    mae: float | None
    rmse: float | None
    interval: Interval | None
    paper: Elsewhere | None


class Spread(Who):
    """How far the seeds of one split differ: {mean, sd, min, max} of each figure."""

    split: str
    seeds: int
    pc: dict[str, float | None]
    mae: dict[str, float | None]
    rmse: dict[str, float | None]


def make_rows(results: Iterable[Result], plan: Plan | None = None) -> list[Row]:
    """One row per method, recipe, data set and number of networks; splits other than folds have separate rows.

    Rows stand in the order of the plan, if there is one.
    """
    return [_row(group) for group in row_groups(results, plan)]


def elsewhere_rows(results: Iterable[Result], plan: Plan | None = None) -> list[ElsewhereRow]:
    """The same rows on each data set that their networks were tested on without training there."""
    return [
        _elsewhere_row(used, name)
        for used in used_results(results, plan)
        for name in sorted({name for r in used for name in r.transfer})
    ]


def used_results(results: Iterable[Result], plan: Plan | None = None) -> list[list[Result]]:
    """The results of one seed of each row."""
    return [of_one_seed(group) for group in row_groups(results, plan)]


def row_groups(results: Iterable[Result], plan: Plan | None = None) -> list[list[Result]]:
    """The results of each row of the table, of all seeds."""
    found = _grouped(results, lambda r: (*_sort_key(r), "" if is_fold(r.split) else r.split))
    return found if plan is None else sorted(found, key=lambda row: plan.order(row[0].method, row[0].recipe))


def who(result: Result) -> Who:
    """Which networks a result is of."""
    return Who(method=result.method, recipe=result.recipe, trained_on=result.trained_on, ensemble=result.ensemble)


def row_replicates(used: Sequence[Result], figure: str) -> Floats | None:
    """Replicates of a row's mean over folds, (B,); None where a fold has none."""
    return mean_of([None if r.replicates is None else getattr(r.replicates, figure) for r in used])


def transfer_replicates(used: Sequence[Result], tested_on: str) -> Floats | None:
    """Replicates of a row's mean correlation on another data set, (B,); None where a network has none."""
    found = [r.transfer[tested_on].replicates for r in used if tested_on in r.transfer]
    return mean_of([None if one is None else one.pc for one in found])


def seed_spread(results: Iterable[Result]) -> list[Spread]:
    """How far seeds differ, for every split that was run with two or more."""
    groups = _grouped(results, lambda r: (*_sort_key(r), _split_key(r)))
    return [_spread(group) for group in groups if len(group) > 1]


def in_order(results: Iterable[Result]) -> list[Result]:
    """Results as tables list them: by method, recipe, number of networks, seed and split."""
    return sorted(results, key=lambda r: (*_sort_key(r), r.seed, _split_key(r)))


def of_one_seed(results: Sequence[Result]) -> list[Result]:
    """The results of the lowest seed that has all folds; without one, of the lowest seed that has the most."""
    splits: dict[int, int] = {}
    for result in results:
        splits[result.seed] = splits.get(result.seed, 0) + 1
    seed = min(splits, key=lambda s: (-splits[s], s))
    return sorted((r for r in results if r.seed == seed), key=_split_key)


def mean(values: Iterable[float | None]) -> float | None:
    """The mean, or None where a value is undefined or there are none."""
    values = list(values)
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known and len(known) == len(values) else None


def sample_sd(values: Iterable[float | None]) -> float | None:
    """The standard deviation with n − 1 in the denominator, or None where a value is undefined or alone."""
    values = list(values)
    known = [value for value in values if value is not None]
    return statistics.stdev(known) if len(known) > 1 and len(known) == len(values) else None


def _row(group: list[Result]) -> Row:
    used = of_one_seed(group)
    first = used[0]
    tested_on = sorted({name for r in used for name in r.transfer})
    transfer = {name: [r.transfer[name].pc for r in used if name in r.transfer] for name in tested_on}
    paper = five_folds(first.trained_on, first.method, first.recipe) if is_fold(first.split) else None
    return Row(
        **who(first),
        split=_split(first),
        folds=len(used) if is_fold(first.split) else 0,
        seeds=len({r.seed for r in group}),
        seed=first.seed,
        pc=mean(r.metrics.pc for r in used),
        mae=mean(r.metrics.mae for r in used),
        rmse=mean(r.metrics.rmse for r in used),
        spearman=mean(r.metrics.spearman for r in used),
        order_accuracy=mean(r.metrics.order_accuracy for r in used),
        coverage=mean(r.metrics.coverage for r in used),
        dispersion_pc=mean(r.metrics.dispersion_pc for r in used),
        pc_sd=sample_sd(r.metrics.pc for r in used),
        intervals={name: interval_of(row_replicates(used, name)) for name in FIGURES},
        transfer={name: mean(values) for name, values in transfer.items()},
        transfer_intervals={name: interval_of(transfer_replicates(used, name)) for name in tested_on},
        transfer_folds={name: len(values) for name, values in transfer.items()},
        paper=None if paper is None else paper._asdict(),
    )


def _elsewhere_row(used: Sequence[Result], tested_on: str) -> ElsewhereRow:
    first = used[0]
    there = [r.transfer[tested_on] for r in used if tested_on in r.transfer]
    return ElsewhereRow(
        **who(first),
        split=_split(first),
        tested_on=tested_on,
        models=len(there),
        pc=mean(one.pc for one in there),
        mae=mean(one.mae for one in there),
        rmse=mean(one.rmse for one in there),
        interval=interval_of(transfer_replicates(used, tested_on)),
        paper=elsewhere(first.trained_on, tested_on, first.method, first.recipe),
    )


def _split(result: Result) -> str:
    return FOLDS if is_fold(result.split) else result.split


def interval_of(replicates: Floats | None) -> Interval | None:
    """The 95 % interval of replicates, None where there are none."""
    return None if replicates is None else interval(replicates)


def _spread(group: list[Result]) -> Spread:
    first = group[0]
    return Spread(
        **who(first),
        split=first.split,
        seeds=len(group),
        pc=_summary([r.metrics.pc for r in group]),
        mae=_summary([r.metrics.mae for r in group]),
        rmse=_summary([r.metrics.rmse for r in group]),
    )


def _summary(values: list[float | None]) -> dict[str, float | None]:
    known = [value for value in values if value is not None]
    ends = (min(known), max(known)) if known and len(known) == len(values) else (None, None)
    return {"mean": mean(values), "sd": sample_sd(values), "min": ends[0], "max": ends[1]}


def _grouped(results: Iterable[Result], key: Callable[[Result], tuple[Any, ...]]) -> list[list[Result]]:
    groups: dict[tuple[Any, ...], list[Result]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return [groups[name] for name in sorted(groups)]


def _sort_key(result: Result) -> tuple[Any, ...]:
    return (result.trained_on, order_of_methods(result.method), result.recipe, result.ensemble)


def _split_key(result: Result) -> tuple[int, str]:
    return (len(result.split), result.split)  # fold-10 after fold-9
