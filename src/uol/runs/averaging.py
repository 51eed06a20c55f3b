"""Means of the predictions that finished runs have, each kept as a run; no network is asked."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from uol.errors import CallError
from uol.ratings.rated_images import Floats, RatedImages
from uol.ratings.scale import Scale
from uol.runs.ensembling import Fold, MemberRun, keep_result, other_panels, result_of
from uol.runs.evaluation import LENIENCY, figures_of, predictions_table
from uol.runs.folder import RunFolder
from uol.runs.groups import PREDICTION_COLUMNS
from uol.runs.multi_panel import keep_tested
from uol.runs.predictions import check_predictions, read_predictions
from uol.runs.read_run import read_run
from uol.runs.result import PanelData, Result, Transfer
from uol.runs.transfer import keep_rated
from uol.storage import provenance
from uol.training.predictions import Predictions

_DIFFERENT = "members were tested on different images or ratings"
_RATERS = "{}, with known raters: the members' tables differ in the raters' leniency"
_WRITTEN = 2e-5  # tables have six digits: the same number, written twice, differs by less than this share of it


class DatasetMean(NamedTuple):
    """A mean on another data set, with scores on the members' scale; `fingerprint` is None if no member records it."""

    moved: RatedImages
    predictions: Predictions
    framing: str
    fingerprint: str | None


class PanelMean(NamedTuple):
    """A mean on the test images of another panel that trained all members; `leniency` is of the images' raters."""

    panel: PanelData
    test: RatedImages
    predictions: Predictions
    leniency: Floats | None


class Means(NamedTuple):
    """The means of a fold's members; `left_out` says which data sets have none, and why.

    `leniency` is of the raters of the test images, if all members agree on it.
    """

    predictions: Predictions
    leniency: Floats | None
    transfer: list[DatasetMean]
    panels: list[PanelMean]
    left_out: list[str]


def average(fold: Fold, rated: RatedImages) -> Means:
    """The mean of a fold's members on the test images, and on other rated sets that all were tested on.

    If another panel trained all members, there is a mean on its test images too, on that panel's scale.
    """
    test = rated.subset(rated.splits[fold.split].test)
    tables = [_tested(member, test, fold.split) for member in fold.members]
    found: list[DatasetMean] = []
    panels: list[PanelMean] = []
    left_out: list[str] = []
    transfers = [read_run(member.folder).transfer for member in fold.members]
    for name in sorted({name for transfer in transfers for name in transfer}):
        if any(name not in transfer for transfer in transfers):
            left_out.append(f"{name}: not every member was tested on it, or it trained one")
            continue
        paths = [member.folder.evaluation_table(name) for member in fold.members]
        there = _mean_on_dataset(name, paths, [transfer[name] for transfer in transfers], rated.scale)
        if isinstance(there, str):
            left_out.append(f"{name}: {there}")
        else:
            found.append(there)
    for panel in other_panels(fold):
        figures = [(member.result.beside or {}).get(panel.name) for member in fold.members]
        if None in figures:
            if not any(panel.name in transfer for transfer in transfers):  # else it was said above
                left_out.append(f"{panel.name}: not every member was trained and tested on it")
            continue
        paths = [member.folder.panel(panel.name).predictions for member in fold.members]
        mean = _mean_of_files(panel.name, paths, [one.mae for one in figures if one is not None], Scale(*panel.scale))
        if isinstance(mean, str):
            left_out.append(f"{panel.name}: {mean}")
        else:
            panels.append(PanelMean(panel, *mean))
            if mean[2] is None and all(one is not None and one.known_raters for one in figures):
                left_out.append(_RATERS.format(panel.name))
    leniency = _leniency(tables)
    if leniency is None and all(member.result.known_raters for member in fold.members):
        left_out.append(_RATERS.format(rated.name))
    return Means(mean_of_tables(tables), leniency, found, panels, left_out)


def mean_of_tables(tables: Sequence[pd.DataFrame]) -> Predictions:
    """The mean of the values of tables with the same images; no intervals, because none was calibrated for the mean.

    The dispersion is the mean too, NaN where a table has none.
    """
    value, dispersion = (np.mean([_column(table, name) for table in tables], 0) for name in ("value", "dispersion"))
    unknown = np.full(len(value), np.nan)
    return Predictions(value, unknown, unknown, dispersion)


def keep_average(
    means: Means, fold: Fold, rated: RatedImages, name: str, begun: tuple[str, provenance.Commit]
) -> Result:
    """Write predictions, evaluations and the result into the fold's folder, replacing those there."""
    first = fold.members[0]
    test = rated.subset(rated.splits[fold.split].test)
    table = predictions_table(test, means.predictions, means.leniency)
    threshold = first.recipe.threshold
    figures = figures_of(table, threshold * rated.scale.unit)
    used = [member.result.provenance.data for member in fold.members]
    pixels = used[0].pixels if len({data.pixels for data in used}) == 1 else None  # framings may differ
    counts = {"training": used[0].training, "held_out": used[0].held_out}  # of the first, as the settings are
    data = {"pixels": pixels, **counts}
    run = fold.folder
    with run.locked():
        run.result.unlink(missing_ok=True)  # a call that is stopped leaves none
        for panel in other_panels(fold):
            shutil.rmtree(run.panel(panel.name).path, ignore_errors=True)
        on_panels = {mean.panel.name: _keep_panel_mean(mean, run, threshold) for mean in means.panels}
        result = result_of(fold, rated, name, begun, "predictions", table, figures, data, on_panels)
        run.remove_evaluations()
        run.write_predictions(table)
        for there in means.transfer:
            keep_rated(there.moved, there.predictions, there.framing, run, threshold, there.fingerprint)
        keep_result(fold, result)
    return result


def _keep_panel_mean(mean: PanelMean, run: RunFolder, threshold: float) -> dict[str, Any]:
    panel, test, predictions, leniency = mean
    table = predictions_table(test, predictions, leniency)
    return {
        **figures_of(table, threshold * test.scale.unit),
        **keep_tested(table, run.panel(panel.name), panel.fingerprint, panel.split),
    }


def _tested(member: MemberRun, test: RatedImages, split: str) -> pd.DataFrame:
    """A member's predictions of the test images, in their order."""
    path = member.folder.predictions
    table = read_predictions(path)
    check_predictions(path, table, member.result.metrics.mae)
    ordered = _in_order(table, test.names)
    if ordered is None:
        raise CallError(f"{path}: not of the {len(test)} images that {split} of {test.name} tests on")
    score = _column(ordered, "score")
    other = np.flatnonzero(~_same(score, test.scores))
    if other.size:
        row = other[0]
        example = f"{test.names[row]} has {score[row]:g}, not {test.scores[row]:g}"
        raise CallError(f"{path}: the panel's scores differ from those of {test.name} given here ({example})")
    return ordered


def _mean_on_dataset(name: str, paths: Sequence[Path], figures: Sequence[Transfer], scale: Scale) -> DatasetMean | str:
    """The mean on another data set, or why there is none."""
    known = {there.fingerprint for there in figures} - {None}
    if len(known) > 1:
        return _DIFFERENT
    mean = _mean_of_files(name, paths, [there.mae for there in figures], scale)
    if isinstance(mean, str):
        return mean
    framing = ", ".join(sorted({there.framing for there in figures}))
    return DatasetMean(*mean[:2], framing, known.pop() if known else None)


def _mean_of_files(
    name: str, paths: Sequence[Path], errors: Sequence[float | None], scale: Scale
) -> tuple[RatedImages, Predictions, Floats | None] | str:
    """The mean of tables of the same rated images, or why there is none; `errors` are their MAE, as kept.

    With it, how lenient the images' raters are, if all tables agree on that.
    """
    if missing := [path for path in paths if not path.is_file()]:
        return f"the predictions are gone ({missing[0]})"
    tables = [read_predictions(path) for path in paths]
    for path, table, error in zip(paths, tables, errors, strict=True):
        check_predictions(path, table, error)
    first = tables[0]
    names = first["image"].tolist()
    ordered = [found for table in tables if (found := _in_order(table, names)) is not None]
    columns = ("score", "rating_sd")
    same = all(_same(_column(t, c), _column(first, c)).all() for t in ordered for c in columns)
    if len(ordered) < len(tables) or not same:
        return _DIFFERENT
    rated = RatedImages(
        name=name,
        images=names,
        names=names,
        scores=_column(first, "score"),
        scale=scale,
        variances=_column(first, "rating_sd") ** 2,
        groups=first.drop(columns=list(PREDICTION_COLUMNS), errors="ignore"),
    )
    return rated, mean_of_tables(ordered), _leniency(ordered)


def _leniency(tables: Sequence[pd.DataFrame]) -> Floats | None:
    """How lenient each image's raters are, if all tables agree."""
    found = [_column(table, LENIENCY) for table in tables]
    return found[0] if np.isfinite(found[0]).all() and all(_same(one, found[0]).all() for one in found) else None


def _in_order(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame | None:
    """The rows of a table in the order of the names; None if its images differ."""
    there = table["image"].tolist() if "image" in table else []
    if there == list(names):
        return table
    if len(set(there)) < len(there) or sorted(there) != sorted(names):
        return None
    return table.set_index("image").loc[list(names)].reset_index()


def _column(table: pd.DataFrame, name: str) -> Floats:
    """A column of numbers; NaN where a table has none."""
    return table[name].to_numpy(np.float64) if name in table else np.full(len(table), np.nan)


def _same(one: Floats, other: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.isclose(one, other, rtol=_WRITTEN, atol=1e-9, equal_nan=True)
