"""Results to rows: means over folds of one seed, and the spread over seeds of one fold."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict

from uol.runs.bootstrap import Floats, interval, mean_of
from uol.runs.result import Result, is_fold
from uol.studies.published import five_folds, order_of_methods

FOLDS = "folds"


class Row(TypedDict):
    """One line of an experiment's table.

    `split` is "folds", or the one split that the figures are from (`folds` is then 0); `seeds` counts the seeds at
    hand, and `seed` is the one that the figures are from; `pc_sd` is the standard deviation over folds; `intervals` are
    those of a bootstrap over test images (95 %), None for results that were kept without replicates.
    """

    method: str
    recipe: str
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
    trained_on: str
    ensemble: int
    intervals: dict[str, tuple[float, float] | None]
    transfer: dict[str, float | None]
    transfer_intervals: dict[str, tuple[float, float] | None]
    transfer_folds: dict[str, int]
    paper: dict[str, float] | None


class Spread(TypedDict):
    """How far the seeds of one split differ: {mean, sd, min, max} of each figure."""

    method: str
    recipe: str
    trained_on: str
    ensemble: int
    split: str
    seeds: int
    pc: dict[str, float | None]
    mae: dict[str, float | None]
    rmse: dict[str, float | None]


def table(results: Iterable[Result]) -> list[Row]:
    """One row per method, recipe, data set and number of networks; splits other than folds have rows of their own."""
    return [_row(group) for group in row_groups(results)]


def row_groups(results: Iterable[Result]) -> list[list[Result]]:
    """The results of each row of the table, of all seeds."""
    return _grouped(results, lambda r: (*_sort_key(r), "" if is_fold(r.split) else r.split))


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
        method=first.method,
        recipe=first.recipe,
        split=FOLDS if is_fold(first.split) else first.split,
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
        trained_on=first.trained_on,
        ensemble=first.ensemble,
        intervals={name: _interval(row_replicates(used, name)) for name in ("pc", "mae", "rmse")},
        transfer={name: mean(values) for name, values in transfer.items()},
        transfer_intervals={name: _interval(transfer_replicates(used, name)) for name in tested_on},
        transfer_folds={name: len(values) for name, values in transfer.items()},
        paper=None if paper is None else paper._asdict(),
    )


def _interval(replicates: Floats | None) -> tuple[float, float] | None:
    return None if replicates is None else interval(replicates)


def _spread(group: list[Result]) -> Spread:
    first = group[0]
    return Spread(
        method=first.method,
        recipe=first.recipe,
        trained_on=first.trained_on,
        ensemble=first.ensemble,
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
