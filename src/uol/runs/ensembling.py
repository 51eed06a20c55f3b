"""Ensembles of finished runs: matched fold by fold, calibrated on images none was trained on, tested, kept as runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from uol.errors import CallError
from uol.ratings.rated_images import Indices, RatedImages
from uol.ratings.scale import Scale
from uol.runs.evaluation import Evaluation, evaluate, predictions_table
from uol.runs.folder import is_run, run_folders
from uol.runs.known_raters import known_leniency
from uol.runs.lineage import teachers_together
from uol.runs.multi_panel import PANELS, OwnSplit
from uol.runs.predictions import spread_of, tested_parts
from uol.runs.result import Member, Name, PanelData, Result, read_result, write_result
from uol.runs.run import RECIPE, held_out_rows
from uol.runs.train_and_test import MODEL, PREDICTIONS, RESULT, log
from uol.runs.transfer import remove_evaluations
from uol.scoring.ensemble import FEWEST_MEMBERS, EnsembleScorer, check_members
from uol.scoring.folder import PROVENANCE, load_scorer
from uol.scoring.scorer import Scorer
from uol.storage import provenance
from uol.storage.csv_text import frame_text
from uol.storage.files import plain, write_text
from uol.training.batches import PackedImages
from uol.training.predictions import Predictions
from uol.training.recipe import Recipe, stored_recipe

Combined: TypeAlias = Literal["scores", "predictions"]  # what of the members is averaged
SEVERAL = "ensemble"  # stands for the method of members of several


class MemberRun(NamedTuple):
    """A finished run that becomes a member: its folder, what it measured, and its settings."""

    folder: Path
    result: Result
    recipe: Recipe


class Fold(NamedTuple):
    """The members of one split, and the run folder of their ensemble."""

    split: str
    members: list[MemberRun]
    folder: Path


class EnsemblePredictor:
    """An ensemble as what can be tested on other data sets."""

    def __init__(self, scorer: EnsembleScorer) -> None:
        self.scale: Scale = scorer.panel.scale
        self._scorer = scorer

    def predict(self, pixels: Tensor, attributes: Tensor | None = None) -> Predictions:
        """Scores of images, uint8 (N, 3, size, size); attributes are passed over."""
        del attributes
        return Predictions.of(self._scorer.score_exactly(pixels))


def match_runs(
    folders: Sequence[Path], rated: RatedImages, out: Path, name: str, combine: Combined = "scores"
) -> list[Fold]:
    """The runs of folders by their split; everything that can be refused without a network is refused here."""
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError as error:
        raise CallError(f"--name {name!r}: cannot name a result") from error
    found: dict[str, list[MemberRun]] = {}
    seen: set[Path] = set()
    for folder in (run for given in folders for run in _tested_runs(given)):
        if folder.resolve() in seen:
            raise CallError(f"{folder}: given twice")
        seen.add(folder.resolve())
        run = _read_run(folder, rated, combine)
        found.setdefault(run.result.split, []).append(run)
    sizes = {len(members) for members in found.values()}
    if len(sizes) > 1:
        told = ", ".join(f"{split}: {len(members)}" for split, members in found.items())
        raise CallError(f"every fold needs the same number of runs ({told})")
    if sizes.pop() < FEWEST_MEMBERS:
        raise CallError(f"an ensemble needs at least {FEWEST_MEMBERS} runs of each fold; name another run folder")
    single = len(found) == 1 and all(is_run(folder) for folder in folders)
    folds = [Fold(split, members, out if single else out / split) for split, members in found.items()]
    for fold in folds:
        _check_different(fold)
        _check_panels(fold)
        if combine != "predictions":
            _check_alike(fold, len(rated.splits[fold.split].train))
        _check_place(fold, name, combine)
    return folds


def build(fold: Fold, members: Sequence[Scorer], packed: PackedImages) -> EnsembleScorer:
    """The ensemble of a fold's networks, calibrated on the images that all of them held out."""
    training = packed.subset(packed.rated.splits[fold.split].train)
    ensemble = EnsembleScorer(members)
    kept = training.subset(_held_out(fold, len(training)))
    ensemble.calibrate(kept.rated, ensemble.embed_pixels(kept.centre))
    return ensemble


def load_networks(fold: Fold) -> list[Scorer]:
    """The networks of a fold's runs, which must be of one panel and see images framed alike."""
    members = [load_scorer(member.folder / MODEL) for member in fold.members]
    check_members(members)
    return members


def keep(ensemble: EnsembleScorer, fold: Fold, packed: PackedImages, name: str, started: str) -> Result:
    """Test an ensemble on the fold's test images; model, predictions and result are kept in the fold's folder."""
    code, split = provenance.commit(), packed.rated.splits[fold.split]
    test = packed.subset(split.test)
    predictions = Predictions.of(ensemble.score_exactly(test.centre))
    table = predictions_table(test.rated, predictions, known_leniency(packed, split))
    figures = evaluate(test.rated, predictions, fold.members[0].recipe.threshold)
    held_out = len(_held_out(fold, len(split.train)))
    data = {"pixels": packed.checksum, "training": len(split.train) - held_out, "held_out": held_out}
    result = result_of(fold, packed.rated, name, (started, code), "scores", table, figures, data)
    if not (fold.folder / RESULT).is_file():  # else it is of the same ensemble, and so are the evaluations
        remove_evaluations(fold.folder)
    ensemble.save_pretrained(fold.folder / MODEL)
    write_text(fold.folder / PREDICTIONS, frame_text(table, digits=6))
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
    beside: dict[str, Any] | None = None,
) -> Result:
    """The result of a fold's ensemble, from its predictions and figures on the test images.

    `begun` is when its making began, and with which code; `data` says what only its maker knows of the images: their
    pixels, how many trained and how many were held out; `beside` has figures on other panels that all have learnt.
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
        "members": [described(member).model_dump() for member in fold.members],
        "panels": None if panels is None else [panel.model_dump() for panel in panels],
    }
    return Result.model_validate(
        plain(
            {
                "experiment": trained_on,
                "method": named.pop() if len(named) == 1 else SEVERAL,
                "recipe": name,
                "trained_on": trained_on,
                "split": fold.split,
                "seed": min(result.seed for result in results),
                "ensemble": len(results),
                "metrics": figures,
                "score_sd": float(np.std(rated.scores[split.test])),
                "transfer": {},
                "beside": beside or None,
                "spread": spread_of(table, rated.scale).model_dump(),
                **tested_parts(table, rated.fingerprint, fold.split),
                "provenance": made,
            }
        )
    )


def _panels(results: Sequence[Result]) -> list[PanelData] | None:
    """The panels that trained any of an ensemble's members, the same for all that several trained; else None."""
    found = [result.provenance.panels for result in results if result.provenance.panels]
    return found[0] if found else None


def keep_result(fold: Fold, result: Result) -> None:
    """Write an ensemble's result, the last of what its folder holds, and a line of its log."""
    write_result(fold.folder / RESULT, result)
    made, pc = result.provenance, result.metrics.pc
    told = "undefined" if pc is None else f"{pc:.4f}"
    log(fold.folder, f"{made.command} (commit {made.commit}, {fold.split}): PC {told}")


def described(member: MemberRun) -> Member:
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


def _tested_runs(folder: Path) -> list[Path]:
    """The run in a folder, or those in its subfolders but for one that every image trained, which has no fold."""
    runs = run_folders(folder)
    if runs == [folder]:
        return runs
    return [run for run in runs if (run / RESULT).is_file() or not (run / PROVENANCE).is_file()] or runs


def _read_run(folder: Path, rated: RatedImages, combine: Combined) -> MemberRun:
    if not (folder / RESULT).is_file():
        raise CallError(f"{folder}: no {RESULT}: the run has not finished, or has no images to test on")
    result = read_result(folder / RESULT)
    if result.ensemble > 1:
        raise CallError(f"{folder}: an ensemble already; name the runs it is made of")
    if combine == "predictions" and not (folder / PREDICTIONS).is_file():
        raise CallError(f"{folder}: no {PREDICTIONS}, which is what is averaged")
    if combine != "predictions" and not (folder / MODEL).is_dir():
        raise CallError(f"{folder}: a run without a model folder; method {result.method} makes none, or it is gone")
    if result.provenance.data.fingerprint != rated.fingerprint:
        raise CallError(f"{folder}: was trained on other images or ratings than those of {rated.name} given here")
    if result.split not in rated.splits:
        raise CallError(
            f"{folder}: was trained on {result.split}, which is no split of {rated.name} itself; an ensemble needs one"
        )
    OwnSplit(result.split, Path(), result.provenance.data.division).check(folder, rated)
    if combine != "predictions" and result.provenance.panels:
        raise CallError(f"{folder}: was trained on several panels; an ensemble is of networks of one")
    data = result.provenance.data
    whole = data.training + data.held_out == len(rated.splits[result.split].train)
    if combine != "predictions" and not whole:
        raise CallError(f"{folder}: was trained on a part of {result.split} only, so what it held out is not known")
    return MemberRun(folder, result, stored_recipe(result.provenance.settings, str(folder / RESULT)))


def _check_panels(fold: Fold) -> None:
    """Refuse networks that were trained beside different panels: what their mean has learnt from could not be named."""
    several = [member for member in fold.members if member.result.provenance.panels]
    told = [[(p.name, p.fingerprint, p.split) for p in one.result.provenance.panels or ()] for one in several]
    for member, panels in zip(several, told, strict=True):
        if panels != told[0]:
            raise CallError(f"{member.folder}: was trained with other panels beside than {several[0].folder}")


def _check_different(fold: Fold) -> None:
    """Refuse a network that is there twice, in folders of different names."""
    for place, member in enumerate(fold.members):
        for other in fold.members[:place]:
            if _trained_as(member) == _trained_as(other) or member.result.network == other.result.network:
                raise CallError(f"{member.folder}: the network of {other.folder}, copied or read again; it counts once")


def _check_alike(fold: Fold, images: int) -> None:
    """Refuse members of different methods, or any that was trained on images that others held out."""
    first = fold.members[0]
    kept = held_out_rows(images, first.recipe)[1]
    if len(kept) == 0:
        raise CallError(f"{first.folder}: held out no images, and an ensemble is calibrated on those")
    for member in fold.members[1:]:
        if member.result.method != first.result.method:
            told = f"{first.result.method} and {member.result.method}"
            raise CallError(f"{member.folder}: members of an ensemble must be of one method, not {told}")
        if not np.array_equal(held_out_rows(images, member.recipe)[1], kept):
            raise CallError(
                f"{member.folder}: held out other images than {first.folder}, so that none is left to calibrate on; "
                "train with the same held_out and held_out_seed"
            )


def _trained_as(member: MemberRun) -> tuple[Any, ...]:
    """What no two trainings share: settings too, for one second may see several begin."""
    result, made = member.result, member.result.provenance
    return result.recipe, result.seed, made.started, made.commit, made.settings


def panels_beside(fold: Fold) -> list[PanelData]:
    """The panels that any of a fold's members has learnt beside the first."""
    found = {panel.name: panel for member in fold.members for panel in (member.result.provenance.panels or [])[1:]}
    return list(found.values())


def _check_place(fold: Fold, name: str, combine: Combined) -> None:
    """Refuse a folder with another run in it; the same ensemble is made again in its place."""
    if (fold.folder / RECIPE).exists():
        raise CallError(f"{fold.folder}: holds a training run; choose another folder")
    panels = fold.folder / PANELS
    if panels.is_dir() and {entry.name for entry in panels.iterdir()} - {panel.name for panel in panels_beside(fold)}:
        raise CallError(f"{panels}: is of something else than this ensemble; choose another folder")
    if (fold.folder / RESULT).is_file():
        there = read_result(fold.folder / RESULT)
        if there.provenance.members != [described(member) for member in fold.members]:
            raise CallError(f"{fold.folder}: holds the result of other networks; choose another folder")
        if there.recipe != name:
            raise CallError(f"{fold.folder}: holds the ensemble named {there.recipe}; choose another folder")
        if there.provenance.changes.get("combine") != combine:
            raise CallError(f"{fold.folder}: holds an ensemble combined in another way; choose another folder")
    if combine == "predictions" and (fold.folder / MODEL).exists():
        raise CallError(f"{fold.folder}: holds a model, which says other things than a mean; choose another folder")


def _held_out(fold: Fold, images: int) -> Indices:
    """The rows of `images` training images that all of a fold's networks held out."""
    return held_out_rows(images, fold.members[0].recipe)[1]
