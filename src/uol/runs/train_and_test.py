"""A trial: one network trained on a split and tested on what the split keeps apart, everything kept in a folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import TypeAdapter, ValidationError

from uol import methods
from uol.errors import CallError
from uol.methods.uol import Uol
from uol.ratings.rated_images import Indices, RatedImages, Split
from uol.runs.evaluation import Evaluation, evaluate, predictions_table
from uol.runs.held_out import keep_held_out
from uol.runs.known_raters import known_leniency
from uol.runs.lineage import check_teachers, teachers_used
from uol.runs.multi_panel import (
    PANELS,
    Divided,
    data_used,
    gather,
    joint_name,
    keep_panel,
    panels_used,
)
from uol.runs.predictions import replicates_elsewhere, spread_of, tested_parts
from uol.runs.result import Name, Result, read_result, same_division, write_result
from uol.runs.run import epochs_so_far, run
from uol.scoring.base import BaseScorer
from uol.scoring.folder import PROVENANCE
from uol.storage import provenance
from uol.storage.csv_text import frame_text
from uol.storage.files import plain, write_json, write_text
from uol.training.batches import PackedImages
from uol.training.loop import EpochReport
from uol.training.method import Method
from uol.training.predictions import Predictions
from uol.training.recipe import Recipe, with_defaults

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
    afterwards: Callable[[Method], None] | None = None,
    beside: Sequence[Divided] = (),
) -> Result | None:
    """Train on the images of a split and test on the others; None where there are none to test on.

    `afterwards` is given the trained method before the result is written, to test it on other data sets. The panels
    `beside` train the same network, and are tested too, each with references and a calibration of its own.
    The same call goes on with a trial that was stopped, and reads the result of one that has finished.
    """
    panels = (Divided(packed, name, split), *beside)
    trained_on = joint_name(panels)
    _check_names(origin.recipe, trained_on, name)
    code = provenance.commit()
    pixels = packed.checksum
    done = finished(folder, packed.rated, pixels, name, recipe, beside, split)
    if done is not None:
        return done
    training, rows = gather(panels)
    own = recipe.for_split(name)
    for panel, kept in zip(panels, rows, strict=True):
        check_teachers(own, panel.packed.rated, panel.name, panel.split, kept)
    teachers = teachers_used(own.teachers)  # now: their folders may change while the pupil is trained
    started = provenance.now()
    begun: list[int] = []

    def note(epoch: EpochReport) -> None:
        if not begun:  # only now: a call that is refused leaves another run's log as it was
            log(folder, f"{provenance.command()} (commit {code.id}, {name}, from epoch {epoch.epoch})")
            begun.append(epoch.epoch)
        if report is not None:
            report(epoch)

    try:
        method = run(training, own, folder, note)
        _keep_model(method, folder)
        keep_held_out(method.predict, training.panels[0], own, folder)  # of several panels, the one it answers for
        elsewhere = _kept_beside(method, beside, folder, recipe.threshold)
        made = _provenance(panels, rows, pixels, recipe, folder, origin, code, started)
        made |= {"teachers": teachers} if teachers else {}
        if len(split.test) == 0:
            write_json(
                folder / PROVENANCE,
                {"recipe": origin.recipe} | made | ({"beside": plain(elsewhere)} if elsewhere else {}),
            )
            log(folder, "trained; no images to test on")
            return None
        test = packed.subset(split.test)
        figures, table = _tested(method, test, recipe, folder, known_leniency(packed, split))
        if afterwards is not None:
            afterwards(method)
    except BaseException as error:
        if begun:
            log(folder, f"stopped: {type(error).__name__}: {error}")
        raise
    result = Result.model_validate(
        plain(
            {
                "experiment": trained_on,
                "method": recipe.method,
                "recipe": origin.recipe,
                "trained_on": trained_on,
                "split": name,
                "seed": recipe.seed,
                "ensemble": 1,
                "metrics": figures,
                "score_sd": float(np.std(test.rated.scores)),
                "transfer": {},
                "beside": elsewhere or None,
                "spread": spread_of(table, packed.rated.scale).model_dump(),
                **tested_parts(table, packed.rated.fingerprint, name),
                "provenance": made,
            }
        )
    )
    write_result(folder / RESULT, result)
    log(folder, f"finished: PC {figures['pc']:.4f}")
    return result


def _provenance(
    panels: Sequence[Divided],
    rows: Sequence[Indices],
    pixels: str,
    recipe: Recipe,
    folder: Path,
    origin: Origin,
    code: provenance.Commit,
    started: str,
) -> dict[str, Any]:
    """Everything needed to train this network again."""
    seconds = [epoch.seconds for epoch in epochs_so_far(folder, recipe)]
    joined = {"panels": panels_used(panels, rows, recipe)} if len(panels) > 1 else {}
    return {
        **provenance.of_code(code),
        "started": started,
        "settings": recipe.model_dump(mode="json"),
        "changes": origin.changes,
        "data": data_used(panels[0], pixels, len(rows[0]), recipe),
        **joined,
        "hardware": provenance.hardware(),
        "seconds": sum(seconds) if len(seconds) == recipe.epochs else None,
        "seconds_per_epoch": float(np.median(seconds)) if seconds else None,
    }


def finished(
    folder: Path,
    rated: RatedImages,
    pixels: str,
    split: str,
    recipe: Recipe,
    beside: Sequence[Divided] = (),
    parts: Split | None = None,
) -> Result | None:
    """The result of a folder whose trial, of the same recipe, ratings and pixels, has ended; else None.

    `parts` are the images of the split; by default, those of the data set's own split of that name.
    """
    if not (folder / RESULT).is_file():
        return None
    result = read_result(folder / RESULT)
    made = result.provenance
    before = with_defaults(made.settings)
    same = before == recipe.model_dump(mode="json") and result.split == split
    same = same and (made.data.fingerprint, made.data.pixels) == (rated.fingerprint, pixels)
    parts = rated.splits.get(split) if parts is None else parts
    same = same and same_division(made.data.division, None if parts is None else rated.division(parts))
    others = [(p.name, p.split, p.fingerprint, p.pixels) for p in (made.panels or [])[1:]]
    same = same and others == [panel.fingerprints for panel in beside]
    divisions = zip((made.panels or [])[1:], beside, strict=False)
    same = same and all(same_division(there.division, panel.division) for there, panel in divisions)
    whole = (folder / MODEL).is_dir() or not hasattr(methods.find(recipe.method), "scorer")
    whole = whole and all((folder / PANELS / panel.packed.rated.name / MODEL).is_dir() for panel in beside)
    return result if same and whole else None


def evaluate_on(scorer: BaseScorer, packed: PackedImages, threshold: float = 0.2) -> tuple[Evaluation, pd.DataFrame]:
    """Figures and predictions of a model on rated images, whose scores are mapped linearly to the model's scale."""
    moved = packed.rated.rescaled(scorer.panel.scale)
    predictions = Predictions.of(scorer.score_exactly(packed.centre))
    return evaluate(moved, predictions, threshold), predictions_table(moved, predictions)


def keep_evaluation(
    folder: Path, name: str, split: str | None, framing: str, figures: Evaluation, table: pd.DataFrame
) -> None:
    """Keep an evaluation on another data set in a run folder."""
    place = folder / EVALUATIONS
    write_text(place / f"{name}.csv", frame_text(table, digits=6))
    kept: dict[str, Any] = {"data": name, "split": split, "framing": framing, **figures}
    if split is None:
        kept["replicates"] = replicates_elsewhere(table, name).model_dump()
    write_json(place / f"{name}.json", kept)


def _check_names(*names: str) -> None:
    """Refuse what could not be part of a result's name before anything is trained."""
    for name in names:
        try:
            TypeAdapter(Name).validate_python(name)
        except ValidationError as error:
            raise CallError(
                f"{name!r} cannot name a result; rename the recipe, data set or group without / and \\"
            ) from error


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


def _kept_beside(
    method: Method, beside: Sequence[Divided], folder: Path, threshold: float
) -> dict[str, dict[str, Any]]:
    """Figures on the other panels that were trained on, those that have test images."""
    if not beside:
        return {}
    assert isinstance(method, Uol)  # no other is trained on several panels
    found = {
        panel.packed.rated.name: keep_panel(scorer, panel, folder, threshold)
        for scorer, panel in zip(method.scorers[1:], beside, strict=True)
    }
    return {name: figures for name, figures in found.items() if figures is not None}


def _tested(
    method: Method, test: PackedImages, recipe: Recipe, folder: Path, leniency: npt.NDArray[np.float64] | None
) -> tuple[Evaluation, pd.DataFrame]:
    predictions = method.predict(test.centre, test.attributes)
    table = predictions_table(test.rated, predictions, leniency)
    write_text(folder / PREDICTIONS, frame_text(table, digits=6))
    return evaluate(test.rated, predictions, recipe.threshold), table
