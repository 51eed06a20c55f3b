"""Train one network on a split, test it on the images the split keeps apart, and keep everything in a run folder."""

from __future__ import annotations

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
from uol.runs.evaluation import Evaluation, figures_of, predictions_table
from uol.runs.folder import RunFolder
from uol.runs.held_out import keep_held_out
from uol.runs.known_raters import known_leniency
from uol.runs.lineage import check_teachers, teachers_used
from uol.runs.multi_panel import PanelSplit, data_used, gather, joint_name, keep_panel, panels_used
from uol.runs.predictions import make_result
from uol.runs.result import Name, Result, same_division
from uol.runs.run import epochs_so_far, run
from uol.storage import provenance
from uol.storage.files import plain, write_json
from uol.training import ranks
from uol.training.loop import EpochReport
from uol.training.method import Method
from uol.training.packed import PackedImages
from uol.training.recipe import Recipe, with_defaults


class Origin(NamedTuple):
    """What was asked for: the recipe's name and the settings changed in it."""

    recipe: str
    changes: dict[str, Any]


def train_and_test(
    packed: PackedImages,
    name: str,
    split: Split,
    recipe: Recipe,
    folder: Path,
    origin: Origin,
    report: Callable[[EpochReport], None] | None = None,
    afterwards: Callable[[Method], None] | None = None,
    others: Sequence[PanelSplit] = (),
) -> Result | None:
    """Train on the images of a split and test on the others; None where there are none to test on.

    `afterwards` is given the trained method before the result is written, to test it on other data sets. The panels
    `others` train the same network and are tested too, each with separate references and calibration. The same call
    resumes a run that was stopped, and reads the result of one that has finished.
    """
    panels = (PanelSplit(packed, name, split), *others)
    kept = RunFolder(folder)
    trained_on = joint_name(panels)
    _check_names(origin.recipe, trained_on, name)
    code = provenance.commit()
    pixels = packed.checksum
    done = finished(kept, packed.rated, pixels, name, recipe, others, split)
    if ranks.agree(done is not None):
        return done
    training, rows = gather(panels)
    own = recipe.for_split(name)
    if not ranks.is_first():
        run(training, own, folder)
        return None
    for panel, used in zip(panels, rows, strict=True):
        check_teachers(own, panel.packed.rated, panel.name, panel.split, used)
    teachers = teachers_used(own.teachers)  # now: their folders may change while the pupil is trained
    started = provenance.now()
    begun: list[int] = []

    def note(epoch: EpochReport) -> None:
        if not begun:  # only now: a call that is refused leaves another run's log as it was
            kept.log(f"{provenance.command()} (commit {code.id}, {name}, from epoch {epoch.epoch})")
            begun.append(epoch.epoch)
        if report is not None:
            report(epoch)

    with kept.locked():
        try:
            method = run(training, own, folder, note)
            _keep_model(method, kept)
            first = training.panels[0]  # of several panels, it alone has images to choose settings by
            keep_held_out(method.predict, first, own, kept, method.known_of)
            on_others = _keep_others(method, others, kept, recipe.threshold)
            made = _provenance(panels, rows, pixels, recipe, kept, origin, code, started)
            made |= {"teachers": teachers} if teachers else {}
            if len(split.test) == 0:
                write_json(
                    kept.provenance,
                    {"recipe": origin.recipe} | made | ({"beside": plain(on_others)} if on_others else {}),
                )
                kept.log("trained; no images to test on")
                return None
            test = packed.subset(split.test)
            figures, table = _tested(method, test, recipe, kept, known_leniency(packed, split))
            if afterwards is not None:
                afterwards(method)
        except BaseException as error:
            if begun:
                kept.log(f"stopped: {type(error).__name__}: {error}")
            raise
        result = make_result(
            table, figures, packed.rated, name, method=recipe.method, recipe=origin.recipe, trained_on=trained_on,
            seed=recipe.seed, ensemble=1, beside=on_others or None, provenance=made,
        )  # fmt: skip
        kept.write_result(result)
        kept.log(f"finished: PC {figures['pc']:.4f}")
        return result


def _provenance(
    panels: Sequence[PanelSplit],
    rows: Sequence[Indices],
    pixels: str,
    recipe: Recipe,
    folder: RunFolder,
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
    folder: RunFolder,
    rated: RatedImages,
    pixels: str,
    split: str,
    recipe: Recipe,
    others: Sequence[PanelSplit] = (),
    parts: Split | None = None,
) -> Result | None:
    """The result of a finished run with the same recipe, ratings and pixels; None if there is none.

    `parts` are the images of the split; by default, those of the data set's split of that name.
    """
    if not folder.finished:
        return None
    result = folder.read_result()
    made = result.provenance
    before = with_defaults(made.settings)
    same = before == recipe.model_dump(mode="json") and result.split == split
    same = same and (made.data.fingerprint, made.data.pixels) == (rated.fingerprint, pixels)
    parts = rated.splits.get(split) if parts is None else parts
    same = same and same_division(made.data.division, None if parts is None else rated.division(parts))
    before_others = [(p.name, p.split, p.fingerprint, p.pixels) for p in (made.panels or [])[1:]]
    same = same and before_others == [panel.fingerprints for panel in others]
    divisions = zip((made.panels or [])[1:], others, strict=False)
    same = same and all(same_division(there.division, panel.division) for there, panel in divisions)
    whole = folder.model.is_dir() or not hasattr(methods.find(recipe.method), "scorer")
    whole = whole and all(folder.find_model(panel.packed.rated.name) is not None for panel in others)
    return result if same and whole else None


def _check_names(*names: str) -> None:
    """Refuse what could not be part of a result's name before anything is trained."""
    for name in names:
        try:
            TypeAdapter(Name).validate_python(name)
        except ValidationError as error:
            raise CallError(
                f"{name!r} cannot name a result; rename the recipe, data set or group without / and \\"
            ) from error


def _keep_model(method: Method, folder: RunFolder) -> None:
    scorer = getattr(method, "scorer", None)
    if scorer is not None:
        scorer.save_pretrained(folder.model)


def _keep_others(
    method: Method, others: Sequence[PanelSplit], folder: RunFolder, threshold: float
) -> dict[str, dict[str, Any]]:
    """Figures on the other panels that trained the network and have test images."""
    if not others:
        return {}
    assert isinstance(method, Uol)  # no other method is trained on several panels
    found = {
        panel.packed.rated.name: keep_panel(scorer, panel, folder, threshold)
        for scorer, panel in zip(method.scorers[1:], others, strict=True)
    }
    return {name: figures for name, figures in found.items() if figures is not None}


def _tested(
    method: Method, test: PackedImages, recipe: Recipe, folder: RunFolder, leniency: npt.NDArray[np.float64] | None
) -> tuple[Evaluation, pd.DataFrame]:
    table = predictions_table(test.rated, method.predict(test.centre, method.known_of(test)), leniency)
    folder.write_predictions(table)
    return figures_of(table, recipe.threshold * test.rated.scale.unit), table
