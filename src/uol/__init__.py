"""Uncertainty-oriented order learning: what a panel of raters would say of an image, with an honest interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Comparison", "Ranked", "RatedImages", "Ratings", "Score", "Scorer"]

if TYPE_CHECKING:
    from uol.ratings.rated_images import RatedImages
    from uol.ratings.ratings import Ratings
    from uol.scoring.base import Comparison, Ranked, Score
    from uol.scoring.scorer import Scorer

_HOMES = {
    "Comparison": "uol.scoring.base", "Ranked": "uol.scoring.base", "RatedImages": "uol.ratings.rated_images",
    "Ratings": "uol.ratings.ratings", "Score": "uol.scoring.base", "Scorer": "uol.scoring.scorer",
}  # fmt: skip


def __getattr__(name: str) -> Any:  # torch takes seconds to import: `uol --help` must not wait for it
    if name not in __all__:
        raise AttributeError(f"module 'uol' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
