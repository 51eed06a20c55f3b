"""The paper's figures, under the names that users type; it cites its competitors' on SCUT-FBP5500 from their papers."""

from __future__ import annotations

from typing import NamedTuple

from uol.experiments.plans import BEST, PLANS


class Figures(NamedTuple):
    """Means over the five official folds."""

    pc: float
    mae: float
    rmse: float


class Elsewhere(NamedTuple):
    """Figures on a data set that trained nothing; None where the paper has the correlation alone."""

    pc: float
    mae: float | None = None
    rmse: float | None = None


FIVE_FOLDS: dict[str, dict[str, Figures]] = {
    "scut-fbp5500": {
        "regression": Figures(0.9044, 0.2248, 0.2973),
        "ldl": Figures(0.9076, 0.2214, 0.2909),
        "uncertain-regression": Figures(0.9080, 0.2218, 0.2920),
        "order-learning": Figures(0.9198, 0.2025, 0.2683),
        "uol": Figures(0.9240, 0.1975, 0.2633),
        "r3cnn": Figures(0.9142, 0.2120, 0.2800),
        "crnet": Figures(0.8869, 0.2397, 0.3186),
        "aanet": Figures(0.9055, 0.2236, 0.2954),
        "comboloss": Figures(0.9199, 0.2050, 0.2704),
        "co-attention": Figures(0.9260, 0.2020, 0.2660),
        "cnn-er": Figures(0.9250, 0.2009, 0.2650),
    }
}

# Trained on the first name, tested on the second, measured by the paper's authors: tables 2, 3 and 6.
TRANSFER: dict[str, dict[str, dict[str, Elsewhere]]] = {
    "scut-fbp5500": {
        "mebeauty": {
            "regression": Elsewhere(0.5122),
            "ldl": Elsewhere(0.5338),
            "uncertain-regression": Elsewhere(0.5367),
            "order-learning": Elsewhere(0.5442),
            "uol": Elsewhere(0.5532, 0.5230, 0.6489),
            "r3cnn": Elsewhere(0.5039, 0.5329, 0.6691),
            "crnet": Elsewhere(0.4380, 0.5645, 0.9019),
            "aanet": Elsewhere(0.3746, 0.6102, 0.7548),
            "comboloss": Elsewhere(0.5078, 0.5481, 0.6888),
            "co-attention": Elsewhere(0.4976, 0.5476, 0.6907),
            "cnn-er": Elsewhere(0.4911, 0.5753, 0.6973),
        },
        "hot-or-not": {
            "regression": Elsewhere(0.3675),
            "ldl": Elsewhere(0.3228),
            "uncertain-regression": Elsewhere(0.3895),
            "order-learning": Elsewhere(0.3958),
            "uol": Elsewhere(0.4073, 0.5410, 0.6779),
            "r3cnn": Elsewhere(0.3555, 0.5741, 0.7140),
            "crnet": Elsewhere(0.3250, 0.5811, 0.7294),
            "aanet": Elsewhere(0.2893, 0.5923, 0.7399),
            "comboloss": Elsewhere(0.3329, 0.6154, 0.7677),
            "co-attention": Elsewhere(0.2697, 0.5613, 0.7080),
            "cnn-er": Elsewhere(0.3513, 0.5269, 0.6653),
        },
    }
}

# Figures on other data sets that the paper has of variants of a method, by recipe: table 8.
VARIANTS: dict[str, dict[str, Elsewhere]] = {
    "matched-order": {
        "mebeauty": Elsewhere(0.5457, 0.5252, 0.6543),
        "hot-or-not": Elsewhere(0.4007, 0.5419, 0.6844),
    },
    "matched-hinge": {
        "mebeauty": Elsewhere(0.5463, 0.5231, 0.6508),
        "hot-or-not": Elsewhere(0.4036, 0.5410, 0.6793),
    },
    "matched-dispersion": {
        "mebeauty": Elsewhere(0.5397, 0.5290, 0.6592),
        "hot-or-not": Elsewhere(0.4036, 0.5426, 0.6792),
    },
}

# Recipes of rows that change something of a method: not what its published figures are of.
_CHANGED = {row.recipe for plan in PLANS.values() for row in plan.rows if row.recipe not in (row.base, BEST)}
_CHANGED |= {  # rows of the archive
    "distilled-pair-six-views", "distilled-pair-unblended", "fast-levelled", "half-antisymmetric", "half-black-corners",
    "half-blended-more-varied", "half-equal-groups", "half-more-varied", "half-within-groups", "strong-more-varied",
}  # fmt: skip

# Share of the pairs of MIFS in the right order; the paper's pairs are those its seven volunteers agreed on.
MAKEUP: dict[str, float] = {
    "r3cnn": 0.7391,
    "crnet": 0.9615,
    "aanet": 0.7692,
    "comboloss": 0.9231,
    "co-attention": 0.7692,
    "cnn-er": 0.9615,
    "uol": 0.9231,
}

# Correlations with the trimmed mean of a panel of methods, on 671 frontal faces of Color FERET.
PANEL: dict[str, float] = {
    "r3cnn": 0.8265,
    "crnet": 0.8564,
    "aanet": 0.7504,
    "comboloss": 0.9146,
    "co-attention": 0.7067,
    "cnn-er": 0.8490,
    "uol": 0.9266,
}


def five_folds(trained_on: str, method: str, recipe: str = "") -> Figures | None:
    """The paper's five-fold figures of a method, or None, as for a variant that it has none of."""
    if recipe in _CHANGED:
        return None
    return FIVE_FOLDS.get(trained_on, {}).get(method)


def makeup_accuracy(method: str, recipe: str = "") -> float | None:
    """The paper's share of right pairs of MIFS, or None."""
    return None if recipe in _CHANGED else MAKEUP.get(method)


def elsewhere(trained_on: str, tested_on: str, method: str, recipe: str = "") -> Elsewhere | None:
    """The paper's figures of a method, or of a variant of it, on a data set it was not trained on, or None."""
    if recipe in _CHANGED:
        return VARIANTS.get(recipe, {}).get(tested_on) if trained_on in TRANSFER else None
    return TRANSFER.get(trained_on, {}).get(tested_on, {}).get(method)


def tested_elsewhere() -> set[str]:
    """The data sets that the paper tested on without training there."""
    return {name for found in TRANSFER.values() for name in found}


def order_of_methods(method: str) -> tuple[int, str]:
    """A key that sorts methods as the paper's tables list them, others after them by name."""
    known = list(FIVE_FOLDS["scut-fbp5500"])
    return (known.index(method) if method in known else len(known), method)
