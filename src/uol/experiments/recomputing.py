"""Compute the figures of results again from tables of predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from uol.errors import UolError
from uol.experiments.kept_predictions import Tables
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale
from uol.runs.evaluation import figures_of, stored_numbers
from uol.runs.groups import groups_of
from uol.runs.predictions import known_raters_of, replicates_elsewhere, replicates_of, spread_of
from uol.runs.result import Group, KnownRaters, Metrics, Result, Transfer
from uol.storage.files import plain

M = TypeVar("M", bound=Metrics)

_SPREAD = "rating_sd"  # a column that tables kept with results have not, nor have they groups


def recomputed(result: Result, tables: Tables) -> Result:
    """The result with the figures of its predictions; what it has not, or what a table does not give, stays."""
    made = result.provenance
    own, settings = made.data, made.settings
    changes: dict[str, Any] = {}
    if (table := tables.get("")) is not None:
        changes = {
            "metrics": _figures(result.metrics, table, Scale(*own.scale), settings),
            "score_sd": float(np.std(table["score"].to_numpy())),
            "replicates": result.replicates and replicates_of(table, own.fingerprint, result.split),
            "spread": result.spread and spread_of(table, own.scale),
            "known_raters": _known_raters(result.known_raters, table, own.fingerprint, result.split),
            "groups": _groups(result.groups, table),
        }
    transfer = {
        name: recomputed_elsewhere(figures, tables.get(name), name, Scale(*own.scale), settings)
        for name, figures in result.transfer.items()
    }
    panels = {panel.name: panel for panel in made.panels or ()}
    beside = dict(result.beside or {})
    for name, figures in beside.items():
        if (table := tables.get(name)) is not None:
            panel = panels[name]
            beside[name] = _figures(figures, table, Scale(*panel.scale), settings).model_copy(
                update={
                    "score_sd": float(np.std(table["score"].to_numpy())),
                    "replicates": figures.replicates and replicates_of(table, panel.fingerprint, panel.split),
                    "known_raters": _known_raters(figures.known_raters, table, panel.fingerprint, panel.split),
                    "groups": _groups(figures.groups, table),
                }
            )
    return result.model_copy(update={**changes, "transfer": transfer, "beside": beside or result.beside})


def with_data(table: pd.DataFrame, rated: RatedImages, scale: Scale) -> pd.DataFrame:
    """A table with scores, their spread and groups from the data set, on the scale of the predictions."""
    place = {image: row for row, image in enumerate(rated.names)}
    if missing := [image for image in table["image"] if image not in place]:
        raise UolError(f"{rated.name} has no image {missing[0]}")
    moved = rated.rescaled(scale).subset([place[image] for image in table["image"]])
    known = {"score": stored_numbers(moved.scores), _SPREAD: stored_numbers(np.sqrt(moved.variances))}
    return pd.concat([table.assign(**known), moved.groups.reset_index(drop=True)], axis=1)


def recomputed_elsewhere(
    figures: Transfer, table: pd.DataFrame | None, name: str, scale: Scale, settings: Mapping[str, Any]
) -> Transfer:
    """Figures on another data set, taken whole, by their predictions on a scale; as they are without predictions."""
    if table is None:
        return figures
    return _figures(figures, table, scale, settings).model_copy(
        update={
            "replicates": figures.replicates and replicates_elsewhere(table, name),
            "groups": _groups(figures.groups, table),
        }
    )


def _figures(stored: M, table: pd.DataFrame, scale: Scale, settings: Mapping[str, Any]) -> M:
    found = plain(figures_of(table, float(settings.get("threshold", 0.2)) * scale.unit))
    if _SPREAD not in table:
        del found["dispersion_pc"]
    return stored.model_copy(update=found)


def _known_raters(stored: KnownRaters | None, table: pd.DataFrame, fingerprint: str, split: str) -> KnownRaters | None:
    return stored and (known_raters_of(table, fingerprint, split) or stored)


def _groups(stored: Mapping[str, Group] | None, table: pd.DataFrame) -> Mapping[str, Group] | None:
    """Figures by group; without the correlation on all others where the result has none."""
    if stored is None or _SPREAD not in table:
        return stored
    found = groups_of(table)
    return {
        name: found[name] if group.others or name not in found else found[name].model_copy(update={"others": None})
        for name, group in stored.items()
        if name in found
    }
