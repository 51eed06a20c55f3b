"""A trial: one network trained on a split and tested on what the split keeps apart, everything kept in a folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import uol
from uol import provenance
from uol.evaluation import Evaluation, evaluate, predictions_table
from uol.experiments.result import Result, read_result, write_result
from uol.files import plain, write_json, write_text
from uol.methods.base import Method, Predictions
from uol.rated_images import RatedImages, Split
from uol.scorer import Scorer
from uol.training.batches import PackedImages
from uol.training.loop import EpochReport
from uol.training.recipe import Recipe
from uol.training.run import METRICS, hold_out, run

RESULT, PREDICTIONS, MODEL, EVALUATIONS, LOG = "result.json", "predictions.csv", "model", "evaluations", "log.txt"


class Origin(NamedTuple):
    """What was asked for: the recipe's name and the settings changed in it."""

    recipe: str
    changes: dict[str, Any]


def trial(
    packed: PackedImages,
    name: str,
    split: Split,
    recipe: Recipe,
    folder: Path,
    origin: Origin,
    report: Callable[[EpochReport], None] | None = None,
) -> Result | None:
    """Train on the images of a split and test on the others; None where there are none to test on.

    The same call goes on with a trial that was stopped, and reads the result of one that has finished.
    """
    done = finished(folder, packed.rated, name, recipe)
    if done is not None:
        return done
    started = provenance.now()
    log(folder, f"{provenance.command()} (commit {provenance.commit().id}, {name}, {len(split.train)} images)")
    try:
        training = packed.subset(split.train)
        method = run(training, recipe, folder, report)
        _keep_model(method, folder)
        if len(split.test) == 0:
            log(folder, "trained; the data set has no test images")
            return None
        test = packed.subset(split.test)
        figures = _tested(method, test, recipe, folder)
    except BaseException as error:
        log(folder, f"stopped: {type(error).__name__}: {error}")
        raise
    seconds = pd.read_csv(folder / METRICS)["seconds"]
    kept = hold_out(training, recipe)[1]
    held_out = 0 if kept is None else len(kept)
    code = provenance.commit()
    result = Result.model_validate(
        plain(
            {
                "experiment": packed.rated.name,
                "method": recipe.method,
                "recipe": origin.recipe,
                "trained_on": packed.rated.name,
                "split": name,
                "seed": recipe.seed,
                "ensemble": 1,
                "metrics": figures,
                "score_sd": float(np.std(test.rated.scores)),
                "transfer": {},
                "provenance": {
                    "command": provenance.command(),
                    "commit": code.id,
                    "modified": code.modified,
                    "uol": uol.__version__,
                    "started": started,
                    "settings": recipe.model_dump(mode="json"),
                    "changes": origin.changes,
                    "data": {
                        "name": packed.rated.name,
                        "fingerprint": packed.rated.fingerprint,
                        "scale": list(packed.rated.scale),
                        "training": len(training) - held_out,
                        "held_out": held_out,
                        "test": len(test),
                    },
                    "hardware": provenance.hardware(),
                    "seconds": float(seconds.sum()),
                    "seconds_per_epoch": float(seconds.median()),
                },
            }
        )
    )
    write_result(folder / RESULT, result)
    log(folder, f"finished: PC {figures['pc']:.4f}")
    return result


def finished(folder: Path, rated: RatedImages, split: str, recipe: Recipe) -> Result | None:
    """The result of a folder whose trial, of the same recipe and data, has ended; else None."""
    if not (folder / RESULT).is_file():
        return None
    result = read_result(folder / RESULT)
    made = result.provenance
    same = made.settings == recipe.model_dump(mode="json") and made.data.fingerprint == rated.fingerprint
    return result if same and result.split == split else None


def evaluate_on(scorer: Scorer, packed: PackedImages, threshold: float = 0.2) -> tuple[Evaluation, pd.DataFrame]:
    """Figures and predictions of a model on rated images, whose scores are mapped linearly to the model's scale."""
    moved = packed.rated.rescaled(scorer.panel.scale)
    predictions = Predictions.of(scorer.score_embedded(scorer.embed_pixels(packed.centre)))
    return evaluate(moved, predictions, threshold), predictions_table(moved, predictions)


def keep_evaluation(
    folder: Path, name: str, split: str | None, framing: str, figures: Evaluation, table: pd.DataFrame
) -> None:
    """Keep an evaluation on another data set in a run folder."""
    place = folder / EVALUATIONS
    write_text(place / f"{name}.csv", table.to_csv(index=False, float_format="%.6g"))
    write_json(place / f"{name}.json", {"data": name, "split": split, "framing": framing, **figures})


def log(folder: Path, event: str) -> None:
    """Add a line with the time to a run folder's log."""
    with contextlib.suppress(OSError):  # whatever hinders it will be told where it matters
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / LOG, "a", encoding="utf-8") as file:
            file.write(f"{provenance.now()} {' '.join(event.split())}\n")


def _keep_model(method: Method, folder: Path) -> None:
    scorer = getattr(method, "scorer", None)
    if scorer is not None:
        scorer.save_pretrained(folder / MODEL)


def _tested(method: Method, test: PackedImages, recipe: Recipe, folder: Path) -> Evaluation:
    predictions = method.predict(test.centre)
    table = predictions_table(test.rated, predictions)
    write_text(folder / PREDICTIONS, table.to_csv(index=False, float_format="%.6g"))
    return evaluate(test.rated, predictions, recipe.threshold)
