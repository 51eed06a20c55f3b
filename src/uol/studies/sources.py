"""What a table's name stands for: the results of a data set, those of a plan, or panels of methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uol.errors import CallError
from uol.runs.result import Result, read_results
from uol.studies.anchoring import Anchoring, read_anchorings
from uol.studies.method_panel import PANEL_DATA, Panel, read_panels
from uol.studies.plans import PLANS, Plan
from uol.studies.published import FIVE_FOLDS


@dataclass(frozen=True)
class Source:
    """Results to show, the plan that orders them, if any, panels, and curves of anchoring."""

    results: Sequence[Result] = ()
    plan: Plan | None = None
    panels: Sequence[Panel] = ()
    anchorings: Sequence[Anchoring] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show."""
        return not self.results and not self.panels and not self.anchorings


def table_names(results: Path) -> list[str]:
    """Data sets with published figures, with results or with panels."""
    return sorted(FIVE_FOLDS.keys() | {path.parent.name for path in results.glob("*/*.json")})


def find_source(results: Path, name: str) -> Source:
    """The results under a name: a plan's, or a data set's."""
    if name in PLANS:
        plan = PLANS[name]
        return Source(plan.of(read_results(results / plan.trained_on)), plan)
    if name not in (*table_names(results), *PANEL_DATA) and not (results / name).is_dir():
        raise CallError(f"no table called {name!r}: there are {', '.join([*table_names(results), *PLANS])}")
    folder = results / name
    return Source(read_results(folder), None, read_panels(folder), read_anchorings(folder))
