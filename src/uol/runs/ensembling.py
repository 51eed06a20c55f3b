"""Ensembles of finished runs, asked together: matched fold by fold, calibrated on held-out images, tested, kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from uol.errors import CallError
from uol.ratings.rated_images import RatedImages, Split
from uol.ratings.scale import Scale
from uol.runs.evaluation import Evaluation, figures_of, predictions_table
from uol.runs.folder import RunFolder, run_folders
from uol.runs.known_raters import known_leniency
from uol.runs.lineage import Lineage, TrainedSplit, teachers_together
from uol.runs.multi_panel import PanelSplit, keep_panel, training_rows
from uol.runs.predictions import make_result
from uol.runs.result import Member, Name, PanelData, Result
from uol.scoring.ensemble import FEWEST_MEMBERS, EnsembleScorer, check_members
from uol.scoring.folder import load_scorer
from uol.scoring.scorer import Scorer
from uol.storage import provenance
from uol.training.packed import PackedImages
from uol.training.predictions import Predictions
from uol.training.recipe import Recipe, held_out_rows, stored_recipe

Combined: TypeAlias = Literal["scores", "predictions"]  # what is averaged; with predictions no network is asked
SEVERAL = "ensemble"  # stands for the method of members of several


class MemberRun(NamedTuple):
    """A finished run that becomes a member: its folder, what it measured, and its settings."""

    folder: RunFolder
    result: Result
    recipe: Recipe


class OtherPanel(NamedTuple):
    """A panel after the first that trained the members: its images, and the split of a name."""

    rated: RatedImages
    name: str
    split: Split


class Fold(NamedTuple):
    """The members of one split, and the run folder of their ensemble."""

    split: str
    members: list[MemberRun]
    folder: RunFolder


class EnsemblePredictor:
    """An ensemble that can be tested on other data sets."""

    def __init__(self, scorer: EnsembleScorer) -> None:
        self.scale: Scale = scorer.panel.scale
        self._scorer = scorer

    def predict(self, pixels: Tensor, attributes: Tensor | None = None) -> Predictions:
        """Scores of images, uint8 (N, 3, size, size); attributes are passed over."""
        del attributes
        return Predictions.of(self._scorer.score_exactly(pixels))


def match_runs(
    folders: Sequence[Path],
    rated: RatedImages,
    out: Path,
    name: str,
    combine: Combined = "scores",
    others: Callable[[str], Sequence[OtherPanel]] = lambda split: (),
) -> list[Fold]:
    """The runs of folders, by split; whatever can be refused without loading a network is refused here.

    `others` gives the panels after the first that trained the networks of a split; they are required to combine scores.
    """
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError as error:
        raise CallError(f"--name {name!r}: cannot name a result") from error
    found: dict[str, list[MemberRun]] = {}
    seen: set[Path] = set()
    for folder in (run for given in folders for run in _tested_runs(given)):
        if folder.path.resolve() in seen:
            raise CallError(f"{folder}: given twice")
        seen.add(folder.path.resolve())
        run = _read_run(folder, rated, combine)
        found.setdefault(run.result.split, []).append(run)
    sizes = {len(members) for members in found.values()}
    if len(sizes) > 1:
        counts = ", ".join(f"{split}: {len(members)}" for split, members in found.items())
        raise CallError(f"every fold needs the same number of runs ({counts})")
    if sizes.pop() < FEWEST_MEMBERS:
        raise CallError(f"an ensemble needs at least {FEWEST_MEMBERS} runs of each fold; name another run folder")
    single = len(found) == 1 and all(RunFolder(folder).begun for folder in folders)
    folds = [Fold(split, members, RunFolder(out if single else out / split)) for split, members in found.items()]
    for fold in folds:
        _check_different(fold)
        _check_panels(fold)
        if combine != "predictions":
            _check_others(fold, others(fold.split))
            _check_alike(fold)
        _check_place(fold, name, combine)
    return folds


def build(
    fold: Fold, members: Sequence[Scorer], packed: PackedImages, others: Sequence[PanelSplit] = ()
) -> EnsembleScorer:
    """The ensemble of a fold's networks, calibrated for each panel on the images that all of them held out."""
    panels = [PanelSplit(packed, fold.split, packed.rated.splits[fold.split]), *others]
    made = []
    for place, (panel, rows) in enumerate(zip(panels, training_rows(panels), strict=True)):
        name = panel.packed.rated.name
        for member in fold.members:
            (used,) = (data for _, data in Lineage.of(member.result).data if data.name == name)
            if used.training + used.held_out != len(rows):
                part = f"a part of {panel.name} of {name}"
                raise CallError(f"{member.folder}: was trained on {part} only: what it held out is not known")
        ensemble = EnsembleScorer([network.on_panel(name) if place else network for network in members])
        kept = panel.packed.subset(rows[held_out_rows(len(rows), fold.members[0].recipe)[1]])
        ensemble.calibrate(kept.rated, ensemble.embed_pixels(kept.centre))
        made.append(ensemble)
    return made[0].with_panels(made[1:])


def load_networks(fold: Fold) -> list[Scorer]:
    """The networks of a fold's runs, which must have the same first panel and see images framed alike."""
    members = [load_scorer(member.folder.model) for member in fold.members]
    check_members(members)
    return members


def keep(
    ensemble: EnsembleScorer,
    fold: Fold,
    packed: PackedImages,
    name: str,
    started: str,
    others: Sequence[PanelSplit] = (),
) -> Result:
    """Test an ensemble on each panel's test images; model, predictions and result are kept in the fold's folder."""
    code, split = provenance.commit(), packed.rated.splits[fold.split]
    test = packed.subset(split.test)
    predictions = Predictions.of(ensemble.score_exactly(test.centre))
    table = predictions_table(test.rated, predictions, known_leniency(packed, split))
    threshold = fold.members[0].recipe.threshold
    figures = figures_of(table, threshold * packed.rated.scale.unit)
    used = fold.members[0].result.provenance.data
    data = {"pixels": packed.checksum, "training": used.training, "held_out": used.held_out}
    with fold.folder.locked():
        on_panels = {
            panel.packed.rated.name: found
            for panel in others
            if (found := keep_panel(ensemble.on_panel(panel.packed.rated.name), panel, fold.folder, threshold))
        }
        result = result_of(fold, packed.rated, name, (started, code), "scores", table, figures, data, on_panels)
        if not fold.folder.finished:  # if it has, the evaluations are of the same ensemble
            fold.folder.remove_evaluations()
        ensemble.save_pretrained(fold.folder.model)
        fold.folder.write_predictions(table)
        keep_result(fold, result)
    return result


def result_of(
    fold: Fold,
    rated: RatedImages,
    name: str,
    begun: tuple[str, provenance.Commit],
    combine: Combined,
    table: pd.DataFrame,
    figures: Evaluation,
    data: dict[str, Any],
    on_panels: dict[str, Any] | None = None,
) -> Result:
    """The result of a fold's ensemble, from its predictions and figures on the test images.

    `begun` is when the work began, and with which code; `data` has the checksum of pixels and the numbers of images
    that trained and were held out; `on_panels` has figures on other panels that trained all members.
    """
    split = rated.splits[fold.split]
    results = [member.result for member in fold.members]
    seconds = [result.provenance.seconds for result in results]
    named = {result.method for result in results}
    panels = _panels(results)
    trained_on = rated.name if panels is None else "+".join(panel.name for panel in panels)
    made: dict[str, Any] = {
        **provenance.of_code(begun[1]),
        "started": begun[0],
        "settings": results[0].provenance.settings,
        "changes": {"combine": combine},
        "data": {
            "name": rated.name,
            "fingerprint": rated.fingerprint,
            "scale": list(rated.scale),
            "test": len(split.test),
            "division": rated.division(split),
            **data,
        },
        "teachers": teachers_together(result.provenance for result in results),
        "hardware": provenance.hardware(),
        "seconds": None if None in seconds else sum(value for value in seconds if value is not None),
        "seconds_per_epoch": None,
        "members": [member_of(member).model_dump() for member in fold.members],
        "panels": None if panels is None else [panel.model_dump() for panel in panels],
    }
    return make_result(
        table, figures, rated, fold.split, method=named.pop() if len(named) == 1 else SEVERAL, recipe=name,
        trained_on=trained_on, seed=min(result.seed for result in results), ensemble=len(results),
        beside=on_panels or None, provenance=made,
    )  # fmt: skip


def _panels(results: Sequence[Result]) -> list[PanelData] | None:
    """The panels that trained any of an ensemble's members, the same for all that several trained; else None."""
    found = [result.provenance.panels for result in results if result.provenance.panels]
    return found[0] if found else None


def keep_result(fold: Fold, result: Result) -> None:
    """Write an ensemble's result, the last of what its folder holds, and a line of its log."""
    fold.folder.write_result(result)
    made, pc = result.provenance, result.metrics.pc
    shown = "undefined" if pc is None else f"{pc:.4f}"
    fold.folder.log(f"{made.command} (commit {made.commit}, {fold.split}): PC {shown}")


def member_of(member: MemberRun) -> Member:
    """A member as an ensemble's provenance names it."""
    result, made = member.result, member.result.provenance
    return Member(
        recipe=result.recipe,
        seed=result.seed,
        command=made.command,
        commit=made.commit,
        modified=made.modified,
        told=made.told,
        started=made.started,
        settings=made.settings,
    )


def _tested_runs(folder: Path) -> list[RunFolder]:
    """The run in a folder, or those in its subfolders except one that was trained on every image, which has no fold."""
    runs = run_folders(folder)
    return [run for run in runs if run.finished or not run.provenance.is_file()] or runs


def _read_run(folder: RunFolder, rated: RatedImages, combine: Combined) -> MemberRun:
    if not folder.finished:
        raise CallError(f"{folder}: no {folder.result.name}: the run has not finished, or has no images to test on")
    result = folder.read_result()
    if result.ensemble > 1:
        raise CallError(f"{folder}: an ensemble already; name the runs it is made of")
    if combine == "predictions" and not folder.predictions.is_file():
        raise CallError(f"{folder}: no {folder.predictions.name}, which is what is averaged")
    if combine != "predictions" and not folder.model.is_dir():
        raise CallError(f"{folder}: a run without a model folder; method {result.method} makes none, or it is gone")
    if result.provenance.data.fingerprint != rated.fingerprint:  # of the first panel, if several trained it
        raise CallError(f"{folder}: was trained on different images or ratings than those of {rated.name} given here")
    if result.split not in rated.splits:
        raise CallError(
            f"{folder}: was trained on {result.split}, which is no split of {rated.name} itself; an ensemble needs one"
        )
    trained = Lineage.of(result).split_of(rated.fingerprint)
    if trained is not None:
        trained.check(folder, rated)
    data = result.provenance.data
    whole = data.training + data.held_out == len(rated.splits[result.split].train)
    if combine != "predictions" and not whole and not result.provenance.panels:  # of several, copies are left out
        raise CallError(f"{folder}: was trained on a part of {result.split} only: what it held out is not known")
    return MemberRun(folder, result, stored_recipe(result.provenance.settings, str(folder.result)))


def _check_panels(fold: Fold) -> None:
    """Refuse networks that were trained on different panels: what their mean was trained on could not be named."""
    several = [member for member in fold.members if member.result.provenance.panels]
    panels = [[(p.name, p.fingerprint, p.split) for p in one.result.provenance.panels or ()] for one in several]
    for member, trained in zip(several, panels, strict=True):
        if trained != panels[0]:
            raise CallError(f"{member.folder}: was trained on different panels than {several[0].folder}")


def _check_different(fold: Fold) -> None:
    """Refuse a network that is there twice, in folders of different names."""
    for place, member in enumerate(fold.members):
        for other in fold.members[:place]:
            if _trained_as(member) == _trained_as(other) or member.result.network == other.result.network:
                raise CallError(f"{member.folder}: the same network as {other.folder}; it counts once")


def _check_others(fold: Fold, others: Sequence[OtherPanel]) -> None:
    """Refuse members that were trained on other panels than those given."""
    given = {other.rated.name: other for other in others}
    for member in fold.members:
        trained = {panel.name: panel for panel in (member.result.provenance.panels or [])[1:]}
        for missing in trained.keys() - given.keys():
            raise CallError(
                f"{member.folder}: was trained on {missing} too; name that panel with --with {missing}=FOLDER:SPLIT"
            )
        for name, other in given.items():
            if name not in trained:
                raise CallError(f"--with {name}: {member.folder} was not trained on it; leave it out")
            there = TrainedSplit(trained[name].split, trained[name].division, name)
            if (trained[name].fingerprint, there.name) != (other.rated.fingerprint, other.name):
                raise CallError(
                    f"--with {name}: {member.folder} was trained on its {there.name}, which has other images or "
                    f"ratings than {other.name} given here"
                )
            there.check(member.folder, other.rated)


def _check_alike(fold: Fold) -> None:
    """Refuse members of different methods, or any that was trained on images that others held out."""
    first = fold.members[0]
    images = first.result.provenance.data.training + first.result.provenance.data.held_out
    kept = held_out_rows(images, first.recipe)[1]
    if len(kept) == 0:
        raise CallError(f"{first.folder}: held out no images, and an ensemble is calibrated on those")
    for member in fold.members[1:]:
        if member.result.method != first.result.method:
            both = f"{first.result.method} and {member.result.method}"
            raise CallError(f"{member.folder}: members of an ensemble must be of one method, not {both}")
        if not np.array_equal(held_out_rows(images, member.recipe)[1], kept):
            raise CallError(
                f"{member.folder}: held out different images than {first.folder}, which leaves none to calibrate on; "
                "train with the same held_out and held_out_seed"
            )


def _trained_as(member: MemberRun) -> tuple[Any, ...]:
    """What identifies a training: settings too, because several may begin in one second."""
    result, made = member.result, member.result.provenance
    return result.recipe, result.seed, made.started, made.commit, made.settings


def other_panels(fold: Fold) -> list[PanelData]:
    """The panels after the first that trained any of a fold's members."""
    found = {panel.name: panel for member in fold.members for panel in (member.result.provenance.panels or [])[1:]}
    return list(found.values())


def _check_place(fold: Fold, name: str, combine: Combined) -> None:
    """Refuse a folder with another run in it; the same ensemble is made again in its place."""
    if fold.folder.recipe.exists():
        raise CallError(f"{fold.folder}: holds a training run; choose another folder")
    panels = fold.folder.panels
    if panels.is_dir() and {entry.name for entry in panels.iterdir()} - {panel.name for panel in other_panels(fold)}:
        raise CallError(f"{panels}: holds panels that this ensemble was not trained on; choose another folder")
    if fold.folder.finished:
        there = fold.folder.read_result()
        if there.provenance.members != [member_of(member) for member in fold.members]:
            raise CallError(f"{fold.folder}: holds the result of different networks; choose another folder")
        if there.recipe != name:
            raise CallError(f"{fold.folder}: holds the ensemble named {there.recipe}; choose another folder")
        if there.provenance.changes.get("combine") != combine:
            raise CallError(f"{fold.folder}: holds an ensemble combined in another way; choose another folder")
    if combine == "predictions" and fold.folder.model.exists():
        raise CallError(f"{fold.folder}: holds a model, whose scores differ from the mean; choose another folder")
