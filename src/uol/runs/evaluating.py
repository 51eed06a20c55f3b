"""Evaluate trained models on a data set, each on images that did not train it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from uol.errors import CallError
from uol.order.config import ModelConfig
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale
from uol.ratings.splits import WHOLE, choose_splits, find_split, tested_images
from uol.runs.evaluation import LENIENCY, Evaluation
from uol.runs.folder import run_folders
from uol.runs.known_raters import known_leniency
from uol.runs.multi_panel import PANELS, own_split
from uol.runs.predictions import known_raters_of
from uol.runs.result import KnownRaters, read_result
from uol.runs.train_and_test import MODEL, RESULT, evaluate_on, keep_evaluation
from uol.scoring import released
from uol.scoring.config import CONFIG
from uol.scoring.folder import PROVENANCE, load_model
from uol.training.batches import PackedImages


class Evaluated(NamedTuple):
    """Figures of a model on the test images of a split; None is the whole data set."""

    split: str | None
    figures: Evaluation
    known_raters: KnownRaters | None


class TestedPart(NamedTuple):
    """The split whose images test a model (None: all images), whether it trained the model, and the panel's folder."""

    split: str | None
    trained: bool
    panel: Path


def find_models(model: Path) -> list[Path]:
    """The model folder, or the runs of a run folder."""
    if not model.exists() and str(model) in released.names():
        return [released.find_model(model)]
    if (model / CONFIG).is_file():
        in_a_run = model.name == MODEL and (model.parent / RESULT).is_file()
        return [model.parent if in_a_run else model]
    runs = run_folders(model)
    for run in runs:
        if not (run / MODEL).is_dir():
            raise CallError(f"{run}: a run without a model folder: it has not finished, or its method makes none")
    return runs


def evaluate_model(
    run: Path,
    rated: RatedImages,
    split: str | None,
    framing: str | None,
    device: str,
    pack: Callable[[ModelConfig], PackedImages],
) -> Evaluated:
    """Evaluate a model, and keep the figures in its run folder if the data set did not train it."""
    name, trained, panel = find_tested_part(run, rated, split)
    scorer = load_model(run / panel / MODEL if (run / MODEL).is_dir() else run)
    scorer.to(device)
    config = scorer.config if framing is None else scorer.config.model_copy(update={"framing": framing})
    packed = pack(config)
    test = packed if name is None else packed.subset(tested_images(rated, name))
    figures, predictions = evaluate_on(scorer, test)
    keeper = _keeper(run)
    if keeper is not None and not trained:
        keep_evaluation(keeper, rated.name, name, config.framing, figures, predictions)
    return Evaluated(name, figures, _known_raters(packed, name, predictions, scorer.panel.scale))


def find_tested_part(run: Path, rated: RatedImages, split: str | None) -> TestedPart:
    """Which images test a model.

    On the data set that trained it, these are the test images of its split, with the model of that panel. Another data
    set is used whole if it has several splits and none is named.
    """
    home = _home(run)
    if (home / RESULT).is_file():
        trained = own_split(read_result(home / RESULT), rated.fingerprint)
        if trained is not None:
            name, panel, _ = trained
            trained.check(run, rated)
            if split not in (None, "all") and name not in choose_splits(rated, split):
                raise CallError(f"{run} was trained on images of that split; its split is {name}")
            if not len(tested_images(rated, name)):
                raise CallError(f"{run} was trained on every image of {rated.name}: none is left to test it on")
            return TestedPart(name, True, panel)
    if _trained_on_all(home, rated):
        raise CallError(f"{run} was trained on every image of {rated.name}: none is left to test it on")
    if split == "all":
        raise CallError(f"--split all: for networks that were trained on the folds of {rated.name}; name one split")
    if split == WHOLE or (split is None and len(rated.splits) != 1):
        return TestedPart(None, False, Path())
    return TestedPart(next(iter(choose_splits(rated, split))), False, Path())


def _home(model: Path) -> Path:
    """The run folder of a panel's model (panels/NAME/model in it); any other folder as it is."""
    place = model.resolve()
    return place.parents[2] if place.name == MODEL and place.parent.parent.name == PANELS else model


def _keeper(model: Path) -> Path | None:
    """The folder that keeps evaluations of a model: its run, or the panel's folder in the run; None outside a run."""
    if (model / MODEL).is_dir():
        return model
    return model.resolve().parent if _home(model) != model else None


def _trained_on_all(run: Path, rated: RatedImages) -> bool:
    made = json.loads((run / PROVENANCE).read_text(encoding="utf-8")) if (run / PROVENANCE).is_file() else {}
    learnt = [made["data"], *made.get("panels", [])] if made else []
    return rated.fingerprint in [data["fingerprint"] for data in learnt]


def _known_raters(
    packed: PackedImages, name: str | None, predictions: pd.DataFrame, scale: Scale
) -> KnownRaters | None:
    """Figures of predictions, on a model's scale, that use who rated each image; None if raters are not known."""
    rated = packed.rated
    leniency = known_leniency(packed, None if name is None else find_split(rated, name))
    if leniency is None:
        return None
    with_leniency = predictions.assign(**{LENIENCY: leniency * scale.unit / rated.scale.unit})
    return known_raters_of(with_leniency, rated.fingerprint, name or WHOLE)
