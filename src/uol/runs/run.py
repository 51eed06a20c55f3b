"""A run: hold images out, train, make the model ready; with a folder, everything is kept there and can be resumed."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import timm
import torch
import yaml

from uol import methods
from uol.errors import CallError, UolError
from uol.order.backbones import EFFICIENTNET_LITE, Backbone
from uol.ratings.rated_images import RatedImages
from uol.runs.folder import RunFolder
from uol.scoring.released import find_teacher, weights_digest
from uol.storage.csv_text import csv_text
from uol.storage.files import write_text
from uol.training import ranks
from uol.training.checkpoint import read_progress
from uol.training.loop import EpochReport, train
from uol.training.method import Method
from uol.training.packed import PackedImages
from uol.training.panels import check_panels, join, rating_levels
from uol.training.recipe import Recipe, check_recipe, dump_recipe, held_out_rows, load_recipe

_FEWEST_IMAGES = 10


def run(
    packed: PackedImages,
    recipe: Recipe,
    folder: str | os.PathLike[str] | None = None,
    report: Callable[[EpochReport], None] | None = None,
    accelerator: str = "auto",
) -> Method:
    """Train the recipe's method on packed images and return it ready to predict.

    `folder` keeps the recipe, the losses per epoch and a checkpoint; the same call on it resumes a run that stopped.
    Of several ranks that train together, the first alone writes, and returns a method that can predict.
    """
    for panel in packed.panels:
        _check_ratings(panel.rated)
    check_method(recipe, len(packed.panels))
    training, held_out = hold_out(packed, recipe)
    check_panels(training, recipe)
    torch.manual_seed(recipe.seed)
    several = {"panels": len(packed.parts)} if packed.parts else {}
    kind = methods.find(recipe.method)
    method = kind(recipe, packed.rated.scale, rating_levels(packed), **several)  # before the folder is claimed
    method.prepare_for(training)
    images = training.fingerprint
    learnt = images + taught(recipe.teachers)
    kept = None if folder is None else RunFolder(folder)
    reports: list[EpochReport] = []

    def note(epoch: EpochReport) -> None:
        reports.append(epoch)
        if kept is not None:
            write_text(kept.metrics, _as_csv(reports))
        if report is not None:
            report(epoch)

    first = ranks.is_first()
    with contextlib.nullcontext() if kept is None or not first else kept.locked():
        if kept is not None and first:
            _claim(kept, recipe, images, learnt)
            reports += epochs_so_far(kept, recipe)
        checkpoint = None if kept is None else kept.checkpoint
        train(method, training, recipe, checkpoint, note if first else None, accelerator, held_out, learnt)
    if first:
        method.finish(training, held_out)
    return method


def taught(teachers: Sequence[str]) -> str:
    """What a checkpoint says of its run's teachers, behind the fingerprint of the images: nothing where none teach."""
    if not teachers:
        return ""
    digests = " ".join(weights_digest(find_teacher(name)) for name in teachers)
    return f" taught by {hashlib.sha256(digests.encode()).hexdigest()}"


def hold_out(packed: PackedImages, recipe: Recipe) -> tuple[PackedImages, PackedImages | None]:
    """Divide images at random into those that train and those that calibrate; of several panels, each of them."""
    if packed.parts:
        divided = [hold_out(panel, recipe) for panel in packed.parts]
        kept = [one for _, one in divided if one is not None]
        return join([one for one, _ in divided]), join(kept) if kept else None
    training, held_out = held_out_rows(len(packed), recipe)
    if len(held_out) == 0:
        return packed, None
    return packed.subset(training), packed.subset(held_out)


def check_method(recipe: Recipe, panels: int) -> None:
    """Refuse several panels for a method that is trained on one."""
    if panels > 1 and not methods.find(recipe.method).takes_panels:
        able = ", ".join(name for name in methods.names() if methods.find(name).takes_panels)
        raise CallError(f"method {recipe.method} is trained on one panel; several can train {able}")


def check_before_reading(recipe: Recipe, panels: int = 1, devices: int = 1) -> None:
    """Find what cannot be trained before images are read and faces are found, which may take minutes."""
    check_method(recipe, panels)
    if devices > 1 and not methods.find(recipe.method).shares_batches:
        raise CallError(f"method {recipe.method} is trained on one device")
    methods.find(recipe.method).check(recipe)
    for backbone in filter(None, (recipe.model.backbone, recipe.second_backbone)):
        if not timm.is_model(backbone):
            Backbone(backbone)  # which says so
    if recipe.init not in (None, "timm", *EFFICIENTNET_LITE) and not Path(str(recipe.init)).is_file():
        raise CallError(f"{recipe.init}: no such file of weights")


def starts_at_random(recipe: Recipe) -> bool:
    """Whether a backbone with published weights starts without any; timm's `test_` networks are meant to."""
    name = recipe.model.backbone
    published = timm.models.is_model_pretrained(name) and not name.startswith("test_")
    return bool(published) and recipe.init is None and recipe.start == "backbone"


def _check_ratings(rated: RatedImages) -> None:
    if not rated.rated:
        raise UolError(f"{rated.name}: nobody rated these images; training needs ratings")
    if len(rated) < _FEWEST_IMAGES:
        raise UolError(f"{rated.name}: {len(rated)} rated images are too few to train on (at least {_FEWEST_IMAGES})")
    if np.ptp(rated.scores) == 0:
        raise UolError(f"{rated.name}: all images have the same score; there is no order to learn")


def _claim(folder: RunFolder, recipe: Recipe, images: str, learnt: str) -> None:
    """Note the recipe in the run folder, or make sure that the run there has the same one, on the same images.

    `learnt` is the images' fingerprint with the teachers' digest; a checkpoint from before it was kept has the first.
    """
    if folder.checkpoint.exists():
        there = read_progress(folder.checkpoint)
        _check_same(folder, check_recipe(yaml.safe_load(there.recipe), str(folder.checkpoint)), recipe)
        if there.data.startswith(images) and there.data not in (images, learnt):
            raise CallError(f"{folder} holds a run with other teachers: their weights have changed since it began")
        if there.data not in (images, learnt):
            raise CallError(
                f"{folder} holds a run on other images (another set, split or ratings); choose another folder"
            )
        return
    left = [path for path in (folder.result, folder.model, folder.evaluations) if path.exists()]
    if left:
        raise CallError(f"{folder} holds the {left[0].name} of a run whose checkpoint is gone; choose another folder")
    if folder.recipe.exists():
        _check_same(folder, load_recipe(folder.recipe), recipe)
    else:
        write_text(folder.recipe, dump_recipe(recipe))


def _check_same(folder: RunFolder, there: Recipe, recipe: Recipe) -> None:
    before, now = there.model_dump(), recipe.model_dump()
    changed = [name for name in now if now[name] != before[name]]
    if changed:
        name = changed[0]
        raise CallError(
            f"{folder} holds a run with other settings ({name}: {before[name]}, now {now[name]}); choose another folder"
        )


def epochs_so_far(folder: RunFolder, recipe: Recipe) -> list[EpochReport]:
    """Reports of the epochs that a run's checkpoint has behind it; what cannot be read of them is left out."""
    if not folder.checkpoint.exists() or not folder.metrics.exists():
        return []
    done = read_progress(folder.checkpoint).epoch
    fixed = ("epoch", "held_out", "learning_rate", "seconds")
    found: list[EpochReport] = []
    try:
        for row in csv.DictReader(io.StringIO(folder.metrics.read_text(encoding="utf-8"))):
            if int(row["epoch"]) <= done:
                losses = {name: float(value) for name, value in row.items() if name not in fixed}
                watched = float(row["held_out"] or "nan")
                rate, seconds = float(row["learning_rate"]), float(row["seconds"])
                found.append(EpochReport(int(row["epoch"]), recipe.epochs, losses, watched, rate, seconds))
    except (ValueError, KeyError, TypeError, csv.Error):
        pass
    return found


def _as_csv(reports: list[EpochReport]) -> str:
    rows = []
    for report in reports:
        losses = [f"{value:.6g}" for value in report.losses.values()]
        held_out = "" if math.isnan(report.held_out) else f"{report.held_out:.6g}"
        rows.append([report.epoch, *losses, held_out, f"{report.learning_rate:.6g}", f"{report.seconds:.3f}"])
    return csv_text(["epoch", *reports[0].losses, "held_out", "learning_rate", "seconds"], rows)
