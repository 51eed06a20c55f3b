"""Which experiments and tables there are, and how many of their results exist."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from uol.experiments.plans import PLANS, Plan
from uol.experiments.published import FIVE_FOLDS, order_of_methods
from uol.experiments.rows import find_source, table_names
from uol.runs.result import Result


def list_experiments(results: Path) -> list[dict[str, Any]]:
    """A row for each data set with results, then for each experiment; `of` is how many results it has when complete."""
    rows: list[dict[str, Any]] = []
    for name in table_names(results):
        source = find_source(results, name)
        methods = {result.method for result in source.results} | {one.method for one in source.left_out}
        methods |= {method for panel in source.panels for method in panel.members}
        rows.append(
            {
                "name": name,
                "title": None,
                "results": len(source.results) + len(source.panels) + len(source.left_out),
                "of": None,
                "methods": sorted(methods, key=order_of_methods),
                "published": name in FIVE_FOLDS,
            }
        )
    for plan in PLANS.values():
        there, of = count_there(plan, find_source(results, plan.name).results)
        planned = list(dict.fromkeys(row.method for row in plan.rows))
        rows.append(
            {"name": plan.name, "title": plan.title, "results": there, "of": of, "methods": planned, "published": True}
        )
    return rows


def count_there(plan: Plan, results: Sequence[Result], folds: int = 5) -> tuple[int, int]:
    """How many of a plan's results, one seed of each row on each fold, are there, and how many there can be."""
    found = {(r.method, r.recipe, r.split) for r in plan.of(results)}
    return len(found), folds * len(plan.rows)
