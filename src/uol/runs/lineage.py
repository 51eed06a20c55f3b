"""What a model was trained on: read from its folder, recorded for its pupils, and kept out of its tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from uol.errors import CallError
from uol.ratings.rated_images import Indices, RatedImages, Split
from uol.ratings.splits import WHOLE, choose_splits, find_split
from uol.runs.folder import RunFolder
from uol.runs.result import Data, Provenance, Result, Seen, Teacher, same_division
from uol.scoring.config import CONFIG
from uol.scoring.released import find_teacher, weights_digest
from uol.storage.validation import check_values, read_object
from uol.training.recipe import Recipe, held_out_rows, stored_recipe


class TrainedSplit(NamedTuple):
    """The split of a data set that trained a model, a digest of it, and the panel's name if it is not the first."""

    name: str
    division: str | None
    panel: str | None = None

    def folder(self, run: RunFolder) -> RunFolder:
        """Where a run keeps this panel's model and predictions."""
        return run if self.panel is None else run.panel(self.panel)

    def check(self, run: object, rated: RatedImages) -> None:
        """Refuse a data set whose split of that name differs from the one that trained."""
        split = find_split(rated, self.name)
        if split is not None and not same_division(self.division, rated.division(split)):
            raise CallError(f"{run}: {self.name} of {rated.name} has changed since it was trained; train it again")


class Lineage(NamedTuple):
    """What a model was trained on: its recipe's name, the split of its first data set, and its provenance."""

    recipe: str | None
    split: str
    made: Provenance

    @classmethod
    def of(cls, result: Result) -> Lineage:
        """What the network of a result was trained on."""
        return cls(result.recipe, result.split, result.provenance)

    @property
    def data(self) -> list[tuple[str, Data]]:
        """Every data set that trained it, with the split's name."""
        others = [(panel.split, panel) for panel in (self.made.panels or [])[1:]]
        return [(self.split, self.made.data), *others]

    @property
    def seen(self) -> list[Seen]:
        """Every data set that trained it or its teachers."""
        found = [
            Seen(name=data.name, fingerprint=data.fingerprint, split=split, division=data.division)
            for split, data in self.data
        ]
        for teacher in self.made.teachers or ():
            found += [one for one in teacher.data or () if one not in found]
        return found

    def split_of(self, fingerprint: str) -> TrainedSplit | None:
        """The split of a data set that trained it; None if that data set did not train it."""
        for place, (split, data) in enumerate(self.data):
            if data.fingerprint == fingerprint:
                return TrainedSplit(split, data.division, data.name if place else None)
        return None


def read_lineage(folder: Path) -> Lineage | None:
    """What the model in a run folder or model folder was trained on; None if no file says."""
    run = RunFolder.of_model(folder)
    if run.finished:
        return Lineage.of(run.read_result())
    for path in (run.provenance, RunFolder(folder).provenance):
        if path.is_file():
            values = read_object(path)
            split = str(values.get("split") or WHOLE)  # a model that ships may be of a fold
            return Lineage(values.get("recipe"), split, check_values(Provenance, values, path))
    return None


def teachers_used(names: Iterable[str]) -> list[dict[str, Any]]:
    """Provenance: each teacher, which network it is, and what it was trained on if that is known."""
    found = []
    for name in names:
        folder = find_teacher(name)
        lineage = read_lineage(folder)
        known: dict[str, Any] = {"recipe": None, "seed": None, "commit": None, "data": None}
        if lineage is not None:
            seed = lineage.made.settings.get("seed")
            known = {"recipe": lineage.recipe, "seed": seed, "commit": lineage.made.commit, "data": lineage.seen}
        found.append(Teacher(model=name, weights=weights_digest(folder), **known).model_dump())
    return found


def teachers_together(made: Iterable[Provenance]) -> list[dict[str, Any]] | None:
    """Provenance: all teachers of several networks, each once; None if they had none."""
    found: list[Teacher] = []
    for provenance in made:
        found += [teacher for teacher in provenance.teachers or () if teacher not in found]
    return [teacher.model_dump() for teacher in found] or None


def check_teachers(recipe: Recipe, rated: RatedImages, name: str, split: Split, rows: Indices | None) -> None:
    """Refuse teachers that know the images a split tests on, or were trained on those its pupil calibrates with.

    The recipe is that of the split; `rows` are the images that train and calibrate, None if that is not known yet.
    """
    for teacher in recipe.teachers:
        folder = find_teacher(teacher)
        lineage = read_lineage(folder)
        if len(split.test):
            _check_unseen(teacher, lineage, rated, name, split)
        if not (folder / CONFIG).is_file():
            raise CallError(f"{teacher}: contains no model: its run has not finished, or its method makes none")
        if lineage is not None and rows is not None:
            _check_held_out(teacher, lineage, recipe, rated, name, split, rows)


def _check_unseen(teacher: str, lineage: Lineage | None, rated: RatedImages, name: str, split: Split) -> None:
    """Refuse a teacher that may have seen test images: through it they would reach the pupil."""
    if lineage is None:
        raise CallError(
            f"{teacher}: a teacher of {name} must be a run folder with {RunFolder(teacher).result.name}, which records "
            "what it was trained on"
        )
    settings = [lineage.made.settings, *(member.settings for member in lineage.made.members or ())]
    if any(one.get("teachers") for one in settings) and lineage.made.teachers is None:
        raise CallError(f"{teacher}: had teachers, and what they were trained on is not recorded; train it again")
    for seen in lineage.seen:
        if seen.fingerprint != rated.fingerprint:
            if seen.name == rated.name:
                raise CallError(
                    f"{teacher}: was trained on different images or ratings of {rated.name}, perhaps on those that "
                    f"{name} tests on; train it on these"
                )
        elif seen.split != name:
            raise CallError(
                f"{teacher}: was trained on {seen.split}, with images that {name} tests on; "
                "write {split} in its path to give each split a teacher of the same split"
            )
        elif not same_division(seen.division, rated.division(split)):
            raise CallError(f"{teacher}: {name} of {rated.name} has changed since it was trained; train it again")


def _check_held_out(
    teacher: str, lineage: Lineage, recipe: Recipe, rated: RatedImages, name: str, split: Split, rows: Indices
) -> None:
    """Refuse a teacher of images that its pupil holds out: the pupil's intervals would be too narrow."""
    held_out = rows[held_out_rows(len(rows), recipe)[1]]
    for own, data in lineage.data if len(held_out) else ():
        if data.fingerprint != rated.fingerprint:
            continue
        divided = split if own == name else _find_split(rated, own)
        if divided is None or not same_division(data.division, rated.division(divided)):
            raise CallError(
                f"{teacher}: was trained on {own} of {rated.name}, which is missing or has changed; train it again"
            )
        images = data.training + data.held_out
        if images == len(divided.train):
            its = divided.train
        elif own == name and images == len(rows):  # the same copies of test images were left out
            its = rows
        else:
            raise CallError(f"{teacher}: was trained on a part of {own} only: which images it held out is not known")
        training = its[held_out_rows(images, stored_recipe(lineage.made.settings, teacher))[0]]
        if np.isin(held_out, training).any():
            raise CallError(
                f"{teacher}: was trained on images that its pupil holds out to calibrate; "
                "use the same held_out and held_out_seed for both"
            )


def _find_split(rated: RatedImages, name: str) -> Split | None:
    return choose_splits(rated, WHOLE)[WHOLE] if name == WHOLE else find_split(rated, name)
