"""Plans: named experiments, each a list of rows that are trained and tested under one protocol.

A row is a method under a recipe; the recipe's name is part of its results' identity, so a row that changes a setting of
the base recipe has a name of its own. Rows that occur in several plans are the same networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from uol.errors import CallError
from uol.experiments.result import Result
from uol.training.recipe import Recipe, load_recipe

BASE = "matched"


@dataclass(frozen=True)
class PlanRow:
    """A line of a plan's table: `changes` are made to the base recipe.

    `read_by` names another way of reading scores off the networks of the row with recipe `network`; nothing is trained.
    """

    label: str
    method: str
    recipe: str = BASE
    changes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    read_by: str | None = None
    network: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What tells its results from other rows'."""
        return self.method, self.recipe

    @property
    def folder(self) -> str:
        """The name of its folder among a plan's runs."""
        return f"{self.method}-{self.recipe}"

    def settings(self, changes: Mapping[str, Any]) -> Recipe:
        """Its recipe: the base, then what the row is about, then what was asked for."""
        return load_recipe(BASE, {**changes, **self.changes, "method": self.method})


@dataclass(frozen=True)
class Plan:
    """A named experiment. Differences are told against the row `reference`, or the row before where it is None."""

    name: str
    title: str
    rows: tuple[PlanRow, ...]
    reference: tuple[str, str] | None
    trained_on: str = "scut-fbp5500"
    tested_on: tuple[str, ...] = ("mebeauty", "hot-or-not", "mifs", "color-feret")
    protocol: str = (
        "the official folds, means over them; the network after the last epoch; one recipe for all rows; other data "
        "sets without fine-tuning, scores mapped linearly"
    )

    def of(self, results: Sequence[Result]) -> list[Result]:
        """The results that belong to its rows."""
        keys = {row.key for row in self.rows}
        return [r for r in results if (r.method, r.recipe) in keys and r.trained_on == self.trained_on]

    def order(self, method: str, recipe: str) -> int:
        """Where a row stands in its table."""
        return [row.key for row in self.rows].index((method, recipe))

    def choose(self, methods: Sequence[str]) -> list[PlanRow]:
        """Its rows of some methods; all of them where none is named."""
        known = {row.method for row in self.rows}
        for method in methods:
            if method not in known:
                raise CallError(f"plan {self.name} has no method {method!r}; it has {', '.join(sorted(known))}")
        return [row for row in self.rows if not methods or row.method in methods]


_UOL = PlanRow("UOL: order, hinge and dispersion", "uol")
_ORDER = PlanRow("order learning, scores by Bradley-Terry", "order-learning")
_CONSISTENCY = PlanRow(
    "order learning, scores by maximum consistency", "order-learning", "matched-consistency",
    read_by="consistency", network=BASE,
)  # fmt: skip
_MODULES = (
    PlanRow("regression", "regression"),
    PlanRow("regression of label distributions", "ldl"),
    PlanRow("regression with uncertainty", "uncertain-regression"),
    _ORDER,
    _UOL,
)
_LOSSES = (
    PlanRow("order alone", "uol", "matched-order", MappingProxyType({"alpha": 0.0, "beta": 0.0})),
    PlanRow("order and hinge", "uol", "matched-hinge", MappingProxyType({"beta": 0.0})),
    PlanRow("order and dispersion", "uol", "matched-dispersion", MappingProxyType({"alpha": 0.0})),
    _UOL,
)
_METHODS = (
    PlanRow("R3CNN", "r3cnn"),
    PlanRow("CRNet", "crnet"),
    PlanRow("AaNet", "aanet"),
    PlanRow("ComboLoss", "comboloss"),
    PlanRow("Co-attention", "co-attention"),
    PlanRow("CNN-ER", "cnn-er"),
    _UOL,
)

PLANS: dict[str, Plan] = {
    plan.name: plan
    for plan in (
        Plan("modules", "What order learning and uncertainty each add", _MODULES, _UOL.key),
        Plan("losses", "What each loss adds", _LOSSES, _UOL.key),
        Plan("methods", "UOL and six methods, on one backbone", _METHODS, _UOL.key),
        Plan("scores", "Two ways of reading scores off the same networks", (_ORDER, _CONSISTENCY), None),
        Plan(
            "matched",
            "All methods and variants, under one recipe",
            (*_MODULES[:4], _CONSISTENCY, *_METHODS[:6], *_LOSSES),
            _UOL.key,
        ),
    )
}


def find_plan(name: str) -> Plan:
    """A plan by its name."""
    if name not in PLANS:
        raise CallError(f"no experiment called {name!r}; there are {', '.join(PLANS)}")
    return PLANS[name]
