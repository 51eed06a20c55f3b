"""Results as if they had been measured, for tests of tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from uol.experiments.kept_predictions import kept_path
from uol.experiments.leave_one_out import LeftOut
from uol.runs.result import Result


def metrics(pc: float | None = 0.9, **changes: Any) -> dict[str, Any]:
    """Figures that may be true together."""
    found = {
        "images": 1100, "pc": pc, "mae": 0.25, "rmse": 0.5, "spearman": 0.88, "order_accuracy": 0.7, "coverage": 0.94,
        "interval_width": 1.1, "dispersion_pc": 0.4,
    }  # fmt: skip
    return found | changes


def elsewhere(pc: float | None = 0.6, **changes: Any) -> dict[str, Any]:
    """Figures on another data set."""
    return metrics(pc, split=None, framing="face") | changes


def replicates(pc: float = 0.9, seed: int = 0, spread: float = 0.01) -> dict[str, list[float]]:
    """Twenty replicates around a correlation; rows with the same seed move together, as on the same images."""
    moves = [spread * math.sin(1.7 * (b + 1) + seed) for b in range(20)]
    return {
        "pc": [pc + move for move in moves],
        "mae": [0.25 - move for move in moves],
        "rmse": [0.5 - move for move in moves],
    }


def spread(least: float = 1.5, most: float = 4.5) -> dict[str, list[float] | list[int]]:
    """How far scores reach."""
    low, high = round((least - 1) * 10), round((most - 1) * 10)
    counts = [1 if low <= part < high else 0 for part in range(40)]
    return {
        "predicted_ends": [least, most],
        "panel_ends": [1.0, 4.75],
        "predicted": counts,
        "panel": [1] * 37 + [0] * 3,
    }


def groups(pc: float = 0.9) -> dict[str, dict[str, Any]]:
    """Figures of two groups."""
    return {
        "female": {"images": 600, "pc": pc, "mae": 0.25, "rmse": 0.5, "bias": 0.05},
        "male": {"images": 500, "pc": pc - 0.1, "mae": 0.3, "rmse": 0.6, "bias": -0.05},
    }


def makeup(right: int = 80, pairs: int = 107) -> dict[str, Any]:
    """Pairs with and without make-up."""
    return {
        "accuracy": right / pairs, "right": right, "pairs": pairs, "answer": "with make-up", "takes": "first",
        "framing": "face",
    }  # fmt: skip


def whole_row(method: str = "uol", pc: float = 0.9, **changes: Any) -> list[Result]:
    """Five folds of one method with everything a result may have."""
    other = elsewhere(pc - 0.3, replicates=replicates(pc - 0.3) | {"mae": None, "rmse": None}, groups=groups(pc - 0.3))
    joint = metrics(pc, trained=True, split="2022", score_sd=1.0, replicates=replicates(pc))
    parts = {
        "transfer": {"mebeauty": other},
        "beside": {"another": joint},
        "makeup": makeup(),
        "spread": spread(),
        "groups": groups(pc),
    }
    return [
        measured(f"fold-{k}", 0, pc, method=method, replicates=replicates(pc, k), **(parts | changes))
        for k in range(1, 6)
    ]


def values(split: str = "fold-1", seed: int = 0, pc: float | None = 0.9, **changes: Any) -> dict[str, Any]:
    """What result.json holds; `figures`, `provenance` and `settings` change what is inside."""
    figures, provenance = changes.pop("figures", {}), changes.pop("provenance", {})
    settings = {"method": "uol", "epochs": 100, "init": "/here/vgg16.safetensors", "seed": seed}
    return {
        "experiment": "scut-fbp5500",
        "method": "uol",
        "recipe": "paper",
        "trained_on": "scut-fbp5500",
        "split": split,
        "seed": seed,
        "ensemble": 1,
        "metrics": metrics(pc) | figures,
        "score_sd": 0.6878,
        "transfer": {},
        "provenance": {
            "command": f"uol train --fold {split} --set seed={seed}",
            "commit": "0123456789" * 4,
            "modified": False,
            "told": False,
            "uol": "0.1.0",
            "started": "2026-01-01T07:00:00+00:00",
            "settings": settings | changes.pop("settings", {}),
            "changes": {},
            "data": {
                "name": "scut-fbp5500",
                "fingerprint": "ab" * 32,
                "pixels": None,
                "scale": [1.0, 5.0],
                "training": 4180,
                "held_out": 220,
                "test": 1100,
            },
            "hardware": {"machine": "x86_64, 16 cores", "gpu": None, "python": "3.12.3", "torch": "2.11.0"},
            "seconds": 104.2,
            "seconds_per_epoch": 1.02,
            **provenance,
        },
        **changes,
    }


def measured(split: str = "fold-1", seed: int = 0, pc: float | None = 0.9, **changes: Any) -> Result:
    """A result with these values."""
    return Result.model_validate(values(split, seed, pc, **changes))


def five_folds(seed: int = 0, **changes: Any) -> list[Result]:
    """Five folds with correlations of .90 to .94."""
    return [measured(f"fold-{k}", seed, 0.89 + k / 100, **changes) for k in range(1, 6)]


def keep_predictions(folder: Path, results: Sequence[Result]) -> None:
    """Files where predictions of all that results report are kept, with nothing in them."""
    for result in results:
        for name in ("", *result.transfer, *(result.beside or {})):
            path = kept_path(folder / result.file_name, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()


def left_out_result(left_out: str, readings: dict[str, float], recipe: str = "paper") -> LeftOut:
    """What a network of the panels that read measured on a panel left out, with correlations by these."""
    made = values()["provenance"]
    panels = [made["data"] | {"name": name, "split": "whole", "left_out": 0, "test": 0} for name in readings]
    found = {name: elsewhere(pc, groups=groups(pc), replicates={"pc": replicates(pc)["pc"], "mae": None, "rmse": None})
             for name, pc in readings.items()}  # fmt: skip
    several = {"panels": panels} if len(panels) > 1 else {}
    return LeftOut.model_validate(
        {"experiment": "leave-one-out", "method": "uol", "recipe": recipe, "left_out": left_out, "seed": 0}
        | {"readings": found, "provenance": made | {"data": made["data"] | {"name": next(iter(readings))}} | several}
    )
