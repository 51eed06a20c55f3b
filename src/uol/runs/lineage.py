"""What teachers have learnt from: kept with their pupil's result, and refused where it would reach what tests it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from uol.errors import CallError, UolError
from uol.ratings.rated_images import Indices, RatedImages, Split
from uol.ratings.splits import find_split
from uol.runs.multi_panel import PANELS
from uol.runs.result import Data, Provenance, Seen, Teacher, read_result, same_division
from uol.runs.run import held_out_rows
from uol.scoring.config import CONFIG
from uol.scoring.folder import PROVENANCE
from uol.storage.validation import first_problem
from uol.training.recipe import Recipe, stored_recipe
from uol.training.teachers import find_teacher, weights_digest

_RESULT, _MODEL, _WHOLE = "result.json", "model", "whole"


class Told(NamedTuple):
    """What a teacher's folder tells of it: its recipe's name, the split that it was trained on, and its provenance."""

    recipe: str | None
    split: str
    made: Provenance

    @property
    def data(self) -> list[tuple[str, Data]]:
        """Every data set that trained it, with the split's name."""
        beside = [(panel.split, panel) for panel in (self.made.panels or [])[1:]]
        return [(self.split, self.made.data), *beside]

    @property
    def seen(self) -> list[Seen]:
        """All that it learnt from, its own teachers' data sets too."""
        found = [
            Seen(name=data.name, fingerprint=data.fingerprint, split=split, division=data.division)
            for split, data in self.data
        ]
        for teacher in self.made.teachers or ():
            found += [one for one in teacher.data or () if one not in found]
        return found


def told_by(folder: Path) -> Told | None:
    """What is kept beside a model folder: the result of its run, or the provenance of one that every image trained."""
    home = folder.parent if folder.name == _MODEL else folder
    home = home.parent.parent if home.parent.name == PANELS else home
    if (home / _RESULT).is_file():
        result = read_result(home / _RESULT)
        return Told(result.recipe, result.split, result.provenance)
    for path in (home / PROVENANCE, folder / PROVENANCE):
        if path.is_file():
            return _told_by_provenance(path)
    return None


def teachers_used(names: Iterable[str]) -> list[dict[str, Any]]:
    """Provenance: each teacher, which network it is, and what it learnt from where that is known."""
    found = []
    for name in names:
        folder = find_teacher(name)
        told = told_by(folder)
        known: dict[str, Any] = {"recipe": None, "seed": None, "commit": None, "data": None}
        if told is not None:
            seed = told.made.settings.get("seed")
            known = {"recipe": told.recipe, "seed": seed, "commit": told.made.commit, "data": told.seen}
        found.append(Teacher(model=name, weights=weights_digest(folder), **known).model_dump())
    return found


def teachers_together(made: Iterable[Provenance]) -> list[dict[str, Any]] | None:
    """Provenance: all teachers of several networks, each once; None where nobody taught them."""
    found: list[Teacher] = []
    for provenance in made:
        found += [teacher for teacher in provenance.teachers or () if teacher not in found]
    return [teacher.model_dump() for teacher in found] or None


def check_teachers(recipe: Recipe, rated: RatedImages, name: str, split: Split, rows: Indices | None) -> None:
    """Refuse teachers that know the images a split tests on, or that were trained on those its pupil calibrates with.

    The recipe is that of the split; `rows` are the images that train and calibrate, None where that is not known yet.
    """
    for teacher in recipe.teachers:
        folder = find_teacher(teacher)
        told = told_by(folder)
        if len(split.test):
            _check_unseen(teacher, told, rated, name, split)
        if not (folder / CONFIG).is_file():
            raise CallError(f"{teacher}: no model is in it: its run has not finished, or its method makes none")
        if told is not None and rows is not None:
            _check_held_out(teacher, told, recipe, rated, name, split, rows)


def _check_unseen(teacher: str, told: Told | None, rated: RatedImages, name: str, split: Split) -> None:
    """Refuse a teacher that may have seen test images: through it they would reach the pupil."""
    if told is None:
        raise CallError(
            f"{teacher}: a teacher of {name} must be a run folder with its {_RESULT}, which tells what it has seen"
        )
    settings = [told.made.settings, *(member.settings for member in told.made.members or ())]
    if any(one.get("teachers") for one in settings) and told.made.teachers is None:
        raise CallError(f"{teacher}: was taught itself, and does not tell what its teachers have seen; train it again")
    for seen in told.seen:
        if seen.fingerprint != rated.fingerprint:
            if seen.name == rated.name:
                raise CallError(
                    f"{teacher}: learnt from other images or ratings of {rated.name}, among them perhaps those that "
                    f"{name} tests on; train it on these"
                )
        elif seen.split != name:
            raise CallError(
                f"{teacher}: was trained on {seen.split}, with images that {name} tests on; "
                "write {split} in its path to give each split its own teacher"
            )
        elif not same_division(seen.division, rated.division(split)):
            raise CallError(f"{teacher}: was trained when {name} divided {rated.name} otherwise; train it again")


def _check_held_out(
    teacher: str, told: Told, recipe: Recipe, rated: RatedImages, name: str, split: Split, rows: Indices
) -> None:
    """Refuse a teacher of images that its pupil holds out: the pupil's intervals would come out too narrow."""
    held_out = rows[held_out_rows(len(rows), recipe)[1]]
    for own, data in told.data if len(held_out) else ():
        if data.fingerprint != rated.fingerprint:
            continue
        divided = split if own == name else _division(rated, own)
        if divided is None or not same_division(data.division, rated.division(divided)):
            raise CallError(
                f"{teacher}: was trained on {own}, which {rated.name} has not, or no longer so; train it again"
            )
        images = data.training + data.held_out
        if images == len(divided.train):
            its = divided.train
        elif own == name and images == len(rows):  # the same copies of test images were left out
            its = rows
        else:
            raise CallError(f"{teacher}: was trained on a part of {own} only, so what it held out is not known")
        training = its[held_out_rows(images, stored_recipe(told.made.settings, teacher))[0]]
        if np.isin(held_out, training).any():
            raise CallError(
                f"{teacher}: was trained on images that its pupil holds out to calibrate; "
                "use the same held_out and held_out_seed for both"
            )


def _division(rated: RatedImages, name: str) -> Split | None:
    return Split(np.arange(len(rated)), np.arange(0)) if name == _WHOLE else find_split(rated, name)


def _told_by_provenance(path: Path) -> Told:
    try:
        values = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise UolError(f"{path}: not readable as JSON") from error
    try:
        made = Provenance.model_validate({key: values[key] for key in Provenance.model_fields if key in values})
    except ValidationError as error:
        raise UolError(f"{path}: {first_problem(error)}") from error
    return Told(values.get("recipe"), _WHOLE, made)
