"""Test a trained network on data sets it never saw, rated or not; predictions and figures go into its run folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

import pandas as pd
from torch import Tensor

from uol import datasets
from uol.datasets.choosing import named_folders
from uol.errors import CallError, ImageError, UolError
from uol.images.cache import Progress
from uol.images.face_cache import FaceCache
from uol.images.framing import Framing
from uol.order.config import ModelConfig
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale
from uol.runs.evaluation import figures_of, predictions_table, stored_numbers
from uol.runs.folder import RunFolder
from uol.runs.makeup import BY_MAKEUP, BY_VOTES, GREY_FERET, Takes, Votes, makeup_order, makeup_pairs
from uol.runs.predictions import keep_evaluation
from uol.runs.result import Makeup
from uol.training.packed import PackedImages
from uol.training.predictions import Predictions

MIFS = "mifs"  # whose pairs have an order to be found
OTHERS = ("mebeauty", "hot-or-not", MIFS, "color-feret", GREY_FERET)


class Predictor(Protocol):
    """What can be tested: a trained method, or another way of computing scores from one."""

    @property
    def scale(self) -> Scale:
        """The panel's scale, on which it answers."""

    def predict(self, pixels: Tensor, attributes: Tensor | None = None) -> Predictions:
        """Scores of images, uint8 (N, 3, size, size)."""


class OtherDataset(NamedTuple):
    """A data set to test on; `framing`, if not None, overrides the model's."""

    rated: RatedImages
    framing: Framing | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.rated.name


class MakeupRule(NamedTuple):
    """How pairs with and without make-up are judged."""

    votes: Mapping[str, Votes] | None = None
    takes: Takes = "first"

    @property
    def terms(self) -> dict[str, str | None]:
        """The rule as it is kept with its figures: of the votes, a digest."""
        if self.votes is None:
            return {"takes": self.takes, "answer": BY_MAKEUP, "votes": None}
        votes = sorted((person, *counts) for person, counts in self.votes.items())
        return {"takes": self.takes, "answer": BY_VOTES, "votes": hashlib.sha256(repr(votes).encode()).hexdigest()}


BY_DEFAULT = MakeupRule()


def load_other(name: str, root: str | os.PathLike[str]) -> OtherDataset:
    """A data set by the name of its loader, or the grey derivative of FERET."""
    if name not in OTHERS:
        raise CallError(f"--also {name}: there are {', '.join(OTHERS)}")
    if name == GREY_FERET:
        return OtherDataset(replace(datasets.load("color-feret", root), name=GREY_FERET), "whole")
    return OtherDataset(datasets.load(name, root))


def load_others(words: Iterable[str]) -> list[OtherDataset]:
    """Data sets, as --also NAME=FOLDER writes them."""
    return [load_other(name, folder) for name, folder in named_folders("--also", words).items()]


def pack_other(other: OtherDataset, model: ModelConfig, progress: Progress | None = None) -> PackedImages:
    """Its images, framed; of a set that nobody rated, those in which no face is found are left out."""
    config = model if other.framing is None else model.model_copy(update={"framing": other.framing})
    try:
        return PackedImages.pack(other.rated, config, progress)
    except UolError:
        if other.rated.rated or config.framing != "face":
            raise
        return PackedImages.pack(_with_faces(other.rated), config, progress)


def judge_elsewhere(
    predictor: Predictor,
    packed: PackedImages,
    framing: Framing,
    run: RunFolder,
    threshold: float = 0.2,
    rule: MakeupRule = BY_DEFAULT,
    fingerprint: str | None = None,
) -> None:
    """Keep predictions on another data set in a run folder, and the figures that the data set allows.

    `fingerprint` is that of the whole data set, where images without a face were left out of what is packed.
    """
    name = packed.rated.name
    predictions = predictor.predict(packed.centre, packed.attributes)
    fingerprint = fingerprint or packed.rated.fingerprint
    if packed.rated.rated:
        moved = packed.rated.rescaled(predictor.scale)
        keep_rated(moved, predictions, framing, run, threshold, fingerprint)
        return
    table = pd.DataFrame({"image": list(packed.rated.names), "value": stored_numbers(predictions.value)})
    for column in packed.rated.groups.columns:
        table[str(column)] = packed.rated.groups[column].to_numpy()
    kept: dict[str, object] = {"images": len(table), "unrated": True}
    if name == MIFS:
        kept |= makeup_of(table, framing, rule).model_dump() | rule.terms
    run.write_evaluation(name, table, {"data": name, "fingerprint": fingerprint, "framing": framing} | kept)


def keep_rated(
    moved: RatedImages,
    predictions: Predictions,
    framing: str,
    run: RunFolder,
    threshold: float,
    fingerprint: str | None,
) -> None:
    """Keep predictions on another rated set, mapped to the scale of the predictions, and their figures.

    `fingerprint` is that of its ratings on their original scale; None if it is not known.
    """
    table = predictions_table(moved, predictions)
    figures = figures_of(table, threshold * moved.scale.unit)
    keep_evaluation(run, moved.name, None, framing, figures, table, fingerprint)


def judged(run: RunFolder, other: OtherDataset, rule: MakeupRule) -> bool | None:
    """Whether a run has an evaluation of these ratings by this rule; None for an older one that does not record it."""
    try:
        kept = json.loads(run.evaluation(other.name).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    terms: dict[str, str | None] = {"fingerprint": other.rated.fingerprint}
    terms |= {"split": None} if other.rated.rated else rule.terms if other.name == MIFS else {}
    if not isinstance(kept, dict) or any(kept[key] != value for key, value in terms.items() if key in kept):
        return False
    return True if terms.keys() <= kept.keys() else None


def makeup_of(table: pd.DataFrame, framing: str, rule: MakeupRule) -> Makeup:
    """How often a table of predictions on MIFS has pairs in the right order."""
    found = makeup_order(makeup_pairs(table["value"], table, rule.takes), rule.votes)
    return Makeup(accuracy=found.accuracy, takes=rule.takes, framing=framing, **found._asdict())


def _with_faces(rated: RatedImages) -> RatedImages:
    faces, shown = FaceCache(), []
    for row, image in enumerate(rated.images):
        try:
            faces.get(image)
            shown.append(row)
        except ImageError:
            continue
    if not shown:
        raise UolError(f"{rated.name}: no face was found in any of {len(rated)} images")
    return rated.subset(shown)
