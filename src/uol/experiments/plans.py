"""Plans: named experiments, each a list of rows that are trained and tested under one protocol.

A row is a method under a recipe; the recipe's name is part of its results' identity, so a row that changes a setting of
its base recipe has another name. Rows that occur in several plans are the same networks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from uol.errors import CallError
from uol.runs.result import Result, is_fold
from uol.training.recipe import Recipe, load_recipe

BASE = "matched"
STRONG, BEST, DISTILLED = "strong", "best", "distilled"
HALF, FAST, PAPER = "half", "fast", "paper"


@dataclass(frozen=True)
class PlanRow:
    """A line of a plan's table: `changes` are made to the recipe `base`.

    A row with a `network` trains nothing: it reads scores off that row's networks, by maximum consistency (with the
    network's references, or with balanced ones), or by a scorer that is made again with the row's changes. `needs` is a
    setting that only the command line can give; rows of the same plan that do not need it are not given it.
    """

    label: str
    method: str
    recipe: str = BASE
    changes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    base: str = BASE
    network: PlanRow | None = None
    read_by: Literal["scorer", "consistency", "balanced consistency"] = "scorer"
    needs: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What distinguishes its results from those of other rows."""
        return self.method, self.recipe

    @property
    def folder(self) -> str:
        """The name of its folder among a plan's runs."""
        return f"{self.method}-{self.recipe}"

    def settings(self, changes: Mapping[str, Any]) -> Recipe:
        """Its recipe: the base, then what was asked for, then what the row is about."""
        return load_recipe(self.base, {**changes, **self.changes, "method": self.method})


@dataclass(frozen=True)
class Plan:
    """A named experiment. Differences are from the row `reference`, or the row before where it is None."""

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
    table: str = "main"  # what `uol experiment table` shows of it

    def of(self, results: Sequence[Result]) -> list[Result]:
        """The results of folds that belong to its rows."""
        keys = {row.key for row in self.rows}
        folds = [r for r in results if r.trained_on == self.trained_on and is_fold(r.split)]
        return [r for r in folds if (r.method, r.recipe) in keys]

    def order(self, method: str, recipe: str) -> int:
        """Where a row stands in its table."""
        return [row.key for row in self.rows].index((method, recipe))

    def choose(self, methods: Sequence[str], recipes: Sequence[str] = ()) -> list[PlanRow]:
        """Its rows of some methods and recipes; of all where none is named."""
        for what, named, known in (
            ("method", methods, {row.method for row in self.rows}),
            ("recipe", recipes, {row.recipe for row in self.rows}),
        ):
            for name in named:
                if name not in known:
                    raise CallError(f"experiment {self.name} has no {what} {name!r}; it has {', '.join(sorted(known))}")
        found = [
            row
            for row in self.rows
            if (not methods or row.method in methods) and (not recipes or row.recipe in recipes)
        ]
        if not found:
            raise CallError(f"experiment {self.name} has no row of both a method and a recipe that were named")
        return found

    @property
    def reserved(self) -> frozenset[str]:
        """Settings that are for the rows alone that need them."""
        return frozenset(row.needs for row in self.rows if row.needs is not None)

    def check_needs(
        self, rows: Sequence[PlanRow], given: Mapping[str, Any], named: Collection[str] = ()
    ) -> list[PlanRow]:
        """The chosen rows that miss what they need; one whose recipe was `named` is refused.

        So is a setting that is for rows alone which were not chosen.
        """
        missing = [row for row in rows if row.needs is not None and not given.get(row.needs)]
        for row in missing:
            if row.recipe in named:
                raise CallError(f"{row.recipe} needs --set {row.needs}=…")
        for name in sorted(self.reserved & set(given)):
            if not any(row.needs == name for row in rows):
                owners = ", ".join(row.recipe for row in self.rows if row.needs == name)
                raise CallError(f"--set {name}: is for {owners} alone in experiment {self.name}, which was not chosen")
        return missing


_UOL = PlanRow("UOL: order, hinge and dispersion", "uol")
_ORDER = PlanRow("order learning, scores by Bradley-Terry", "order-learning")
_CONSISTENCY = PlanRow(
    "order learning, scores by maximum consistency", "order-learning", "matched-consistency",
    network=_ORDER, read_by="consistency",
)  # fmt: skip
_BALANCED = PlanRow(
    "the same, references balanced and without gaps", "order-learning", "matched-consistency-balanced",
    network=_ORDER, read_by="balanced consistency",
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
    PlanRow(
        "Co-attention, parts by landmarks", "co-attention", "matched-landmarks", MappingProxyType({"landmarks": True})
    ),
    PlanRow("CNN-ER", "cnn-er"),
    _UOL,
)


def _change(
    base: PlanRow, label: str, name: str, changes: Mapping[str, Any], read: bool = False, needs: str | None = None
) -> PlanRow:
    """A row with one thing changed, trained again or `read` off its networks."""
    recipe = f"{base.recipe}-{name}"
    network = base if read else None
    return PlanRow(label, "uol", recipe, MappingProxyType({**base.changes, **changes}), base.base, network, needs=needs)


def _augmented(**amounts: float | tuple[float, float]) -> dict[str, Any]:
    return {f"augmentation.{name}": amount for name, amount in amounts.items()}


_PLAIN = _augmented(contrast=0.06, brightness=0.02, saturation=(1.0, 1.0), grey=0.0, channel_gain=0.0)
_MIXED = _augmented(mix=0.4)
_WHOLE = {"model.framing": "whole", "model.pooling": "mean", "augmentation.random_crop": True}
_SIX_VIEWS = {"scoring.zooms": (1.0, 0.96, 1.04)}
_LEVELS = {"model.levels": 5}
_COMPARED, _HISTOGRAM = {"scoring.histogram_share": 0.0}, {"scoring.histogram_share": 1.0}

_HALF = PlanRow("half", "uol", HALF, base=HALF)
_HALF_LEVELS = _change(_HALF, "histograms predicted from Gaussians", "levels", _LEVELS)
_IDEAS = (
    _HALF,
    _change(_HALF, "hard targets", "hard-targets", {"order_target": "hard"}),
    _change(_HALF, "pairs by Algorithm 2", "balanced-pairs", {"pairs": "balanced"}),
    _change(_HALF, "closed-form sampling", "closed-form", {"sampling": "closed-form"}),
    _change(_HALF, "without helpers", "no-helpers", {"score_weight": 0.0, "histogram_weight": 0.0}),
    _HALF_LEVELS,
    _change(_HALF_LEVELS, "the same, read: comparisons alone", "compared", _COMPARED, read=True),
    _change(_HALF_LEVELS, "the same, read: histograms alone", "alone", _HISTOGRAM, read=True),
    _change(_HALF, "features by their mean", "mean-pooling", {"model.pooling": "mean"}),
    _change(_HALF, "views mirrored only", "mirrored-only", {"augmentation": {"flip": True}}),
    _change(_HALF, "colours nearly as they are", "plain", _PLAIN),
    _change(_HALF, "blended faces", "blended", _MIXED),
    _change(_HALF, "photographs as they are, faces not aligned", "whole", _WHOLE | {"model.resize": 128}),
)

_FAST = PlanRow("fast", "uol", FAST, base=FAST, needs="teachers")
_READINGS = (
    _FAST,
    *(
        _change(_FAST, label, name, changes, read=True, needs="teachers")
        for label, name, changes in (
            ("hard outcomes", "hard-outcomes", {"scoring.outcomes": "hard"}),
            ("one direction", "one-direction", {"scoring.both_directions": False}),
            ("without the mirror image", "no-mirror", {"scoring.mirror": False}),
            ("six views", "six-views", _SIX_VIEWS),
            ("Monte Carlo, T = 8", "sampled-scores", {"scoring.samples": 8}),
            ("at most 1 reference per bin", "references-1", {"references_per_bin": 1}),
            ("at most 3 references per bin", "references-3", {"references_per_bin": 3}),
            ("at most 30 references per bin", "references-30", {"references_per_bin": 30}),
        )
    ),
)

_STRONG = PlanRow("strong", "uol", STRONG, base=STRONG)
_STRONG_WHOLE = _change(_STRONG, "photographs as they are, faces not aligned", "whole", _WHOLE | {"model.resize": 256})
_STRONG_LEVELS = _change(_STRONG, "histograms predicted from Gaussians", "levels", _LEVELS)
_DISTILLED = PlanRow("distilled: best, taught by several", "uol", DISTILLED, base=DISTILLED, needs="teachers")
_RECIPES = (
    _STRONG,
    _change(_STRONG, "colours nearly as they are", "plain", _PLAIN),
    _change(_STRONG, "blended faces", "blended", _MIXED),
    _STRONG_WHOLE,
    _change(_STRONG_WHOLE, "the same, read: faces aligned", "aligned", {"model.framing": "face"}, read=True),
    _change(_STRONG, "read: six views", "six-views", _SIX_VIEWS, read=True),
    _STRONG_LEVELS,
    _change(_STRONG_LEVELS, "the same, read: comparisons alone", "compared", _COMPARED, read=True),
    replace(
        _change(_STRONG_LEVELS, "best: the same, read: six views", "six-views", _SIX_VIEWS, read=True), recipe=BEST
    ),
    _DISTILLED,
)


def _steps(*steps: tuple[str, str, Mapping[str, Any]]) -> tuple[PlanRow, ...]:
    """`paper`, then rows that each keep the changes of all before; those of `scoring` alone are read."""
    rows = [PlanRow("the paper to the letter", "uol", PAPER, base=PAPER)]
    for label, name, changes in steps:
        network = rows[-1] if all(setting.startswith("scoring.") for setting in changes) else None
        every = MappingProxyType({**rows[-1].changes, **changes})
        rows.append(PlanRow(label, "uol", f"{PAPER}-{name}", every, PAPER, network))
    return tuple(rows)


_SCHEDULE = {
    "optimizer": "adamw", "learning_rate": 1.5e-4, "final_learning_rate": 1.5e-6, "warmup_steps": 100, "epochs": 50,
    "frozen": 4,
}  # fmt: skip
_MEANS = {"scoring.samples": 0, "scoring.outcomes": "probabilities", "scoring.both_directions": True}
_VARIED = _augmented(
    random_crop=True, rotation=4.0, zoom=0.048, shift=0.024, contrast=0.25, brightness=0.10, saturation=(0.6, 1.3),
    grey=0.1, channel_gain=0.06, mask=0.15, erase=0.15,
)  # fmt: skip
_FACES = {"model.framing": "face", "model.resize": 224, "augmentation.random_crop": False}
_LADDER = (
    *_steps(
        ("half the epochs, AdamW, four frozen convolutions", "schedule", _SCHEDULE),
        (
            "pixels divided by the standard deviation, a comparator that starts with differences",
            "start",
            {"model.normalise": "mean-std", "comparator_start": "differences"},
        ),
        ("read: means, probabilities, both directions", "means", _MEANS),
        ("a twentieth held out: a line of the scores", "line", {"held_out": 0.05}),
        ("all pairs, with probabilities as targets", "soft", {"pairs": "all", "order_target": "soft"}),
        ("helpers, and β of 0.3", "helpers", {"score_weight": 1.0, "histogram_weight": 0.5, "beta": 0.3}),
        ("varied images, cropped at random", "varied", _VARIED),
        ("read: the mirror image too", "mirror", {"scoring.mirror": True}),
        ("faces aligned and shown whole", "faces", _FACES),
    ),
    replace(_STRONG, label="features summed with one weight per position: `strong`"),
    replace(_STRONG_LEVELS, label="histograms predicted from Gaussians"),
    replace(_RECIPES[-2], label="read: six views: `best`", network=_STRONG_LEVELS),
    replace(_DISTILLED, label="taught by several: `distilled`, which is released"),
)

_SMALL = PlanRow(
    "the paper's settings at half the size, 12 epochs", "uol", f"{PAPER}-small",
    MappingProxyType({"model.resize": 128, "model.crop": 112, "epochs": 12}), PAPER,
)  # fmt: skip


def _values(label: str, name: str, setting: str, values: Sequence[float], read: bool = False) -> list[PlanRow]:
    """A row for each value of a setting; T is set for training and scoring alike."""
    settings = [setting, "scoring.samples"] if setting == "samples" else [setting]
    return [
        _change(_SMALL, f"{label} = {value:g}", f"{name}-{value:g}", dict.fromkeys(settings, value), read)
        for value in values
    ]


_SENSITIVITY = (
    _SMALL,
    *_values("references per bin", "references", "references_per_bin", (1, 3, 30), read=True),
    *_values("T in scoring alone", "scored", "scoring.samples", (1, 4, 16, 32), read=True),
    *_values("T", "samples", "samples", (1, 4, 16, 32)),
    *_values("θ", "threshold", "threshold", (0.1, 0.3, 0.4)),
    *_values("N", "pairs", "pairs_per_image", (2, 4, 16)),
    *_values("D", "dimensions", "model.dimensions", (64, 128, 1024)),
    *_values("α", "alpha", "alpha", (0.0, 1e-3, 1e-2)),
    *_values("β", "beta", "beta", (0.0, 1e-2, 0.3)),
    *_values("τ", "margin", "margin", (0.5, 2.0, 5.0)),
)

PLANS: dict[str, Plan] = {
    plan.name: plan
    for plan in (
        Plan("modules", "What order learning and uncertainty each add", _MODULES, _UOL.key),
        Plan("losses", "What each loss adds", _LOSSES, _UOL.key),
        Plan("methods", "UOL and six methods, on one backbone", _METHODS, _UOL.key),
        Plan("scores", "Two ways of reading scores off the same networks", (_ORDER, _CONSISTENCY, _BALANCED), None),
        Plan(
            "matched",
            "All methods and variants, under one recipe",
            (*_MODULES[:4], _CONSISTENCY, _BALANCED, *_METHODS[:-1], *_LOSSES),
            _UOL.key,
        ),
        Plan(
            "ideas",
            f"What each idea adds, at half the size of `{STRONG}`",
            _IDEAS,
            _HALF.key,
            protocol="the official folds, means over them; the network after the last epoch; one change of the recipe "
            f"`{HALF}` in each row; other data sets without fine-tuning, scores mapped linearly",
        ),
        Plan(
            "readings",
            f"Ways of reading scores off the networks of `{FAST}`",
            _READINGS,
            _FAST.key,
            protocol="the official folds, means over them; the same networks in all rows, scored in other ways or with "
            "other references, and calibrated again",
        ),
        Plan(
            "recipes",
            "Recipes for one network, at full size",
            _RECIPES,
            _STRONG.key,
            protocol="the official folds, means over them; the network after the last epoch; other data sets without "
            "fine-tuning, scores mapped linearly",
        ),
        Plan(
            "ladder",
            "From the paper to what is released, one step at a time",
            _LADDER,
            None,
            protocol="the official folds, means over them; the network after the last epoch; each row keeps the "
            "changes of the rows before; other data sets without fine-tuning, scores mapped linearly",
            table="gains",
        ),
        Plan(
            "sensitivity",
            "Settings that the paper leaves open, or whose value it does not explain",
            _SENSITIVITY,
            _SMALL.key,
            protocol="three of the official folds, means over them; the network after the last epoch; one change of "
            "`paper` at half the size and 12 epochs in each row; other data sets without fine-tuning, scores mapped "
            "linearly",
            table="gains",
        ),
    )
}


def find_plan(name: str) -> Plan:
    """A plan by its name."""
    if name not in PLANS:
        raise CallError(f"no experiment called {name!r}; there are {', '.join(PLANS)}")
    return PLANS[name]
