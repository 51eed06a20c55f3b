"""Models that ship, released once more as one: an ensemble that has no weights of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from uol.errors import CallError
from uol.ratings.rated_images import Indices, RatedImages
from uol.runs.result import Result, other_setting
from uol.runs.run import held_out_rows
from uol.scoring.ensemble import EnsembleScorer
from uol.scoring.ensemble_folder import write_ensemble_config
from uol.scoring.folder import CARD, PROVENANCE, check_target, load_scorer
from uol.scoring.released import find_model, names
from uol.storage import provenance
from uol.storage.files import replacing_folder, write_json, write_text
from uol.studies.release import card, results_of, whole_provenance
from uol.training.batches import PackedImages
from uol.training.recipe import check_recipe


def release_together(models: Sequence[str], out: Path, recipe: str, results: Path, rated: RatedImages) -> None:
    """Write a model folder that names its networks, calibrated on the images that all of them held out.

    The card's figures are those of `recipe`, the ensembles of networks that the same recipes made of the folds.
    """
    check_ship(models)
    started = provenance.now()
    folders = [find_model(name) for name in models]
    told = [whole_provenance(folder / PROVENANCE) for folder in folders]
    held_out = _held_out(models, told, rated)
    made = _together(models, told, recipe, started)
    found = results_of(made, results)
    _check_members(models, told, found[0])
    check_target(out)
    ensemble = EnsembleScorer([load_scorer(folder) for folder in folders])
    packed = PackedImages.pack(rated.subset(held_out), ensemble.config)
    ensemble.calibrate(packed.rated, ensemble.embed_pixels(packed.centre))
    with replacing_folder(out) as temporary:
        write_ensemble_config(ensemble, models, temporary)
        write_json(temporary / PROVENANCE, made)
        write_text(temporary / CARD, card(out.name, ensemble, made, found))


def check_ship(models: Sequence[str]) -> None:
    """Refuse what is no model that ships, or is named twice."""
    for place, name in enumerate(models):
        if name not in names():
            raise CallError(f"{name}: no model that ships; release it alone first, and add it to those")
        if name in models[:place]:
            raise CallError(f"{name}: named twice; it counts once")


def _check_members(models: Sequence[str], told: Sequence[dict[str, Any]], result: Result) -> None:
    """Refuse results of other networks: each model must be of one member's recipe and settings."""
    left = [(member.recipe, member.settings) for member in result.provenance.members or ()]
    for name, made in zip(models, told, strict=True):
        same = [one for one in left if one[0] == made["recipe"] and other_setting(one[1], made["settings"]) is None]
        if not same:
            raise CallError(f"{name}: no network of its recipe {made['recipe']} is in the results of {result.recipe}")
        left.remove(same[0])


def _held_out(models: Sequence[str], told: Sequence[dict[str, Any]], rated: RatedImages) -> Indices:
    """The images that every one of the networks held out, of a data set that trained all of them whole."""
    kept = []
    for name, made in zip(models, told, strict=True):
        if made["data"]["fingerprint"] != rated.fingerprint:
            raise CallError(f"{name}: was trained on other images or ratings than those of {rated.name} given here")
        kept.append(held_out_rows(len(rated), check_recipe(made["settings"], name))[1])
    if any(not np.array_equal(rows, kept[0]) for rows in kept):
        raise CallError("the models held out different images, so that none is left to calibrate all of them with")
    return kept[0]


def _together(models: Sequence[str], told: Sequence[dict[str, Any]], recipe: str, started: str) -> dict[str, Any]:
    """Provenance: the first network's settings and data, and what is known of each network."""
    keys = ("recipe", "command", "commit", "modified", "told", "started", "settings")
    return {
        "recipe": recipe,
        "together": list(models),
        **provenance.of_code(provenance.commit()),
        "started": started,
        "settings": told[0]["settings"],
        "changes": {"combine": "scores"},
        "data": told[0]["data"],
        "hardware": provenance.hardware(),
        "seconds": None,
        "seconds_per_epoch": None,
        "teachers": [teacher for made in told for teacher in made.get("teachers") or []] or None,
        "members": [{key: made[key] for key in keys} | {"seed": made["settings"]["seed"]} for made in told],
    }
