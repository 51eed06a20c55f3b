"""Evaluate trained models on a data set, each on images that did not train it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from uol.errors import CallError
from uol.order.config import ModelConfig
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale
from uol.ratings.splits import WHOLE, choose_splits, find_split, tested_images
from uol.runs.evaluation import LENIENCY, Evaluation, figures_of, predictions_table
from uol.runs.folder import RunFolder, run_folders
from uol.runs.known_raters import known_leniency
from uol.runs.lineage import read_lineage
from uol.runs.predictions import keep_evaluation, known_raters_of
from uol.runs.result import KnownRaters
from uol.scoring import released
from uol.scoring.base import BaseScorer, Progress
from uol.scoring.config import CONFIG, read_panel
from uol.scoring.panels import panel_names
from uol.training.packed import PackedImages
from uol.training.predictions import Predictions

Scoring = Callable[[int], contextlib.AbstractContextManager[Callable[..., None]]]
"""Opened with the number of images to be scored, it gives what is called with the number scored."""


class Evaluated(NamedTuple):
    """Figures of a model on the test images of a split; None is the whole data set."""

    split: str | None
    figures: Evaluation
    known_raters: KnownRaters | None


class TestedPart(NamedTuple):
    """The split whose images test a model (None: all images), the model and panel, and where figures are kept.

    Figures on a data set that trained the model are not kept, nor those of a model outside a run.
    """

    split: str | None
    model: Path
    panel: str | None
    keep_in: RunFolder | None


def is_shipped(model: Path) -> bool:
    """Whether a model is named that ships, and not a folder of the same name."""
    return not model.exists() and released.ships(model)


def find_models(model: Path) -> list[Path]:
    """The model folder, or the runs of a run folder."""
    if is_shipped(model):
        return [released.find_model(model)]
    if (model / CONFIG).is_file():
        run = RunFolder(model.parent)
        return [run.path if run.model == model and run.finished else model]
    runs = run_folders(model)
    for run in runs:
        if not run.model.is_dir():
            raise released.no_model(run.path)
    return [run.path for run in runs]


def evaluate_model(
    run: Path,
    rated: RatedImages,
    split: str | None,
    framing: str | None,
    device: released.Device,
    pack: Callable[[ModelConfig], PackedImages],
    panel: str | None = None,
    scoring: Scoring = lambda images: contextlib.nullcontext(lambda done: None),
) -> Evaluated:
    """Evaluate a model on a panel's scale, and keep the figures in its run folder if the data set did not train it.

    By default the panel is the data set's if it trained the model, or else the model's first.
    """
    part = find_tested_part(run, rated, split, panel)
    with contextlib.nullcontext() if part.keep_in is None else RunFolder.of_model(part.model).locked():
        return _evaluate(part, rated, framing, device, pack, scoring)


def _evaluate(
    part: TestedPart,
    rated: RatedImages,
    framing: str | None,
    device: released.Device,
    pack: Callable[[ModelConfig], PackedImages],
    scoring: Scoring,
) -> Evaluated:
    name, model, panel, keep_in = part
    scorer = released.open_model(model, device=device, panel=panel)
    config = scorer.config if framing is None else scorer.config.model_copy(update={"framing": framing})
    packed = pack(config)
    test = packed if name is None else packed.subset(tested_images(rated, name))
    with scoring(len(test)) as update:
        figures, predictions = evaluate_on(scorer, test, progress=lambda done, _: update(done))
    if keep_in is not None:
        keep_evaluation(keep_in, rated.name, name, config.framing, figures, predictions)
    return Evaluated(name, figures, _known_raters(packed, name, predictions, scorer.panel.scale))


def find_tested_part(folder: Path, rated: RatedImages, split: str | None, panel: str | None = None) -> TestedPart:
    """Which images test the model in a run folder or model folder.

    On a data set that trained it, these are the test images of its split, on the scale of that panel. Another data set
    is used whole if it has several splits and none is named.
    """
    run, lineage = RunFolder(folder), read_lineage(folder)
    of_run = run.model.is_dir()
    trained = None if lineage is None else lineage.split_of(rated.fingerprint)
    if trained is not None:
        trained.check(folder, rated)
        if trained.name != WHOLE and find_split(rated, trained.name) is None:
            raise CallError(
                f"{folder} was trained on {trained.name}, which {rated.name} does not have here; "
                "give the table of folds with --folds"
            )
        if not len(tested_images(rated, trained.name)):
            raise CallError(f"{folder} was trained on every image of {rated.name}: none is left to test it on")
        if split not in (None, "all") and trained.name not in choose_splits(rated, split):
            raise CallError(f"{folder} was trained on images of that split; its split is {trained.name}")
        own = panel or trained.panel
        if own is None and rated.name in panel_names(run.model if of_run else folder):
            own = rated.name  # it trained first, and the model answers for another panel by default
        return TestedPart(trained.name, *_model_of(folder, own), None)
    if split == "all":
        raise CallError(f"--split all: for networks that were trained on the folds of {rated.name}; name one split")
    whole = split == WHOLE or (split is None and len(rated.splits) != 1)
    name = None if whole else next(iter(choose_splits(rated, split)))
    if of_run:
        model, inside = _model_of(folder, panel)
        first = model == run.model and inside is None
        return TestedPart(name, model, inside, run if first or panel is None else run.panel(panel))
    of_panel = RunFolder(folder.resolve().parent)
    earlier = of_panel.path.parent == RunFolder.of_model(folder).panels.resolve()
    return TestedPart(name, folder, panel, of_panel if earlier else None)


def _model_of(folder: Path, panel: str | None) -> tuple[Path, str | None]:
    """The model folder that scores on a panel's scale, and the panel's name in it; None is the model's first."""
    run = RunFolder(folder)
    if not run.model.is_dir():
        return folder, panel
    if panel is None or panel == read_panel(run.model).name:
        return run.model, None
    return run.find_model(panel) or (run.model, panel)


def evaluate_on(
    scorer: BaseScorer, packed: PackedImages, threshold: float = 0.2, progress: Progress | None = None
) -> tuple[Evaluation, pd.DataFrame]:
    """Figures and predictions of a model on rated images, whose scores are mapped linearly to the model's scale."""
    moved = packed.rated.rescaled(scorer.panel.scale)
    table = predictions_table(moved, Predictions.of(scorer.score_exactly(packed.centre, progress)))
    return figures_of(table, threshold * moved.scale.unit), table


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
