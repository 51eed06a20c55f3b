"""A recipe for tests that train."""

from __future__ import annotations

from uol.training.recipe import Recipe, check_recipe


def quick_recipe(**changes: object) -> Recipe:
    """A recipe that trains a tiny network for moments."""
    settings: dict[str, object] = {
        "model": {"backbone": "test_byobnet", "resize": 32, "crop": 32, "dimensions": 16, "hidden": 16},
        "epochs": 3,
        "batch_size": 16,
        "learning_rate": 3e-3,
        "pairs_per_image": 6,
        "samples": 2,
        "held_out": 0.2,
    }
    return check_recipe(settings | changes, "test")
