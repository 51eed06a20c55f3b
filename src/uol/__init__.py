"""Uncertainty-oriented order learning: predict a panel's mean rating of an image, with a 95 % interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "BaseScorer", "CallError", "Comparison", "ImageError", "Ranked", "RatedImages", "Ratings", "Scale", "Score",
    "Scorer", "Unranked", "UolError", "__version__", "load", "open_model",
]  # fmt: skip

if TYPE_CHECKING:
    from uol.datasets import load
    from uol.errors import CallError, ImageError, UolError
    from uol.ratings.rated_images import RatedImages
    from uol.ratings.ratings import Ratings
    from uol.ratings.scale import Scale
    from uol.scoring.base import BaseScorer, Comparison, Ranked, Score, Unranked
    from uol.scoring.base import BaseScorer as Scorer
    from uol.scoring.released import open_model

_MODULES = {
    "uol.datasets": ("load",),
    "uol.errors": ("CallError", "ImageError", "UolError"),
    "uol.ratings.rated_images": ("RatedImages",),
    "uol.ratings.ratings": ("Ratings",),
    "uol.ratings.scale": ("Scale",),
    "uol.scoring.base": ("BaseScorer", "Comparison", "Ranked", "Score", "Unranked"),
    "uol.scoring.released": ("open_model",),
}


def __getattr__(name: str) -> Any:  # torch takes seconds to import: `uol --help` must not wait for it
    from importlib import import_module

    if name == "Scorer":  # any model, whichever engine computes it; that of torch is uol.scoring.scorer.Scorer
        name = "BaseScorer"
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'uol' has no attribute {name!r}")
