"""Compute figures again from kept predictions, and compare them with results, tables and documents.

Run folders write six significant digits of each score and prediction. The figures of a result were computed before that
rounding, so that a figure computed again may differ a little from it: `Rounding` says by how much at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.order.order import order_of
from uol.ratings import metrics
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale
from uol.runs.bootstrap import DIGITS
from uol.runs.groups import groups_of
from uol.runs.predictions import known_raters_of, replicates_elsewhere, replicates_of, spread_of
from uol.runs.result import Metrics, Result, read_result, result_files
from uol.studies.comparing import differences
from uol.studies.document import rendered
from uol.studies.kept_predictions import FOLDER, kept_path, read_kept
from uol.studies.leave_one_out import LEAVE_ONE_OUT, LeftOut, read_left_out
from uol.studies.leave_one_out_tables import difference, pairs_of, pc_interval
from uol.studies.rows import ARCHIVE, elsewhere_rows, make_rows
from uol.studies.verification import Rounding, Verification, correlation_tolerance, half_digit

M = TypeVar("M", bound=Metrics)

_STEP = 10.0**-DIGITS  # of replicates, which are rounded: one that lies at the middle may go either way
_RANKS = 1e-4  # of Spearman's correlation: six digits make some ranks equal that were not
_P = 0.01  # of a p value: two or three of 500 replicates that lie at zero
_OF_ROWS = {"spearman": _RANKS, "order_accuracy": 1e-4, "coverage": 2e-3, "p": _P}  # means over folds
_BLOCK = 512  # images whose pairs are compared at once


def verify(
    results: Path, documents: Mapping[Path, str] | None = None, data: Mapping[str, RatedImages] | None = None
) -> Verification:
    """Verify every result that has predictions, the rows made from them, and the documents.

    `documents` have the folder, within that of the results, that their tables are made from. `data` are data sets by
    name: with them scores, figures by group and the correlation of dispersions are verified too.
    """
    done = Verification(checked_with=sorted(data or {}))
    for folder in sorted({path.parent for path in results.glob("*/*.json")}):
        if folder.name == LEAVE_ONE_OUT:
            _verify_left_out(done, folder, data or {})
        elif folder.name != ARCHIVE:
            _verify_folder(done, folder, data or {})
    done.without += sorted(f"{ARCHIVE}/{path.stem}" for path in results.glob(f"{ARCHIVE}/*/*.json"))
    for document, part in (documents or {}).items():
        done.documents.append(str(document))
        if rendered(document, results / part) != document.read_text(encoding="utf-8"):
            done.problems.append(f"{document}: its tables are not those of the results; uol experiment docs makes them")
    return done


def _verify_folder(done: Verification, folder: Path, data: Mapping[str, RatedImages]) -> None:
    """The results of an experiment, then the rows of its tables."""
    known = {kept_path(path) for path in result_files(folder)}
    stored = {path: read_result(path) for path in result_files(folder)}
    again = {path: _verify_result(done, path, result, data) for path, result in stored.items()}
    owners = {path.stem for path in stored}
    for path in sorted(folder.glob(f"{FOLDER}/*.csv.gz")):
        name = path.name.removesuffix(".csv.gz")
        if path not in known and name.rpartition("-on-")[0] not in owners:
            done.problems.append(f"{path}: predictions without a result")
    if any(again[path] is not stored[path] for path in stored):
        _verify_rows(done, folder.name, list(stored.values()), list(again.values()))


def _verify_result(done: Verification, path: Path, result: Result, data: Mapping[str, RatedImages]) -> Result:
    """Compare a result with its predictions; the result as they make it, or the very same where there are none."""
    where, made = f"{path.parent.name}/{path.stem}", result.provenance
    own, tables = made.data, 0
    changes: dict[str, Any] = {}
    if (table := read_kept(path)) is not None:
        tables += 1
        part = _Part(done, where, table, Scale(*own.scale), _threshold(made.settings))
        changes["metrics"] = part.figures(result.metrics)
        changes["replicates"] = part.replicates(result.replicates, replicates_of(table, own.fingerprint, result.split))
        part.spread(result.spread)
        part.known_raters(result.known_raters, own.fingerprint, result.split)
        done.compare(where, "score_sd", result.score_sd, float(np.std(table["score"])), part.rounding.errors)
        part.data(own.name, own.fingerprint, data, result.metrics, result.groups)
    for kind, others in (("transfer", result.transfer), ("beside", result.beside or {})):
        fresh = dict(others)
        for name, figures in others.items():
            if (table := read_kept(path, name)) is None:
                continue
            tables += 1
            panel = next((panel for panel in made.panels or () if panel.name == name), None)
            scale = Scale(*(own.scale if panel is None else panel.scale))
            part = _Part(done, f"{where} on {name}", table, scale, _threshold(made.settings))
            drawn = replicates_elsewhere(table, name)
            if panel is not None:
                drawn = replicates_of(table, panel.fingerprint, panel.split)
                part.known_raters(getattr(figures, "known_raters", None), panel.fingerprint, panel.split)
            again = part.figures(figures).model_copy(update={"replicates": part.replicates(figures.replicates, drawn)})
            fingerprint = getattr(figures, "fingerprint", None) if panel is None else panel.fingerprint
            part.data(name, fingerprint, data, figures, getattr(figures, "groups", None))
            fresh[name] = again
        changes[kind] = fresh or (None if kind == "beside" else {})
    done.tables += tables
    wanted = 1 + len(result.transfer) + len(result.beside or {})
    (done.verified if tables == wanted else done.partly if tables else done.without).append(where)
    return result.model_copy(update=changes) if tables else result


def _verify_left_out(done: Verification, folder: Path, data: Mapping[str, RatedImages]) -> None:
    """Results of panels left out, and their paired differences."""
    stored = read_left_out(folder)
    again: list[LeftOut] = []
    for one in stored:
        path = folder / one.file_name
        where, fresh = f"{folder.name}/{path.stem}", dict(one.readings)
        for panel, figures in one.readings.items():
            if (table := read_kept(path, panel)) is None:
                continue
            done.tables += 1
            part = _Part(done, f"{where} on {panel}", table, one.scale(panel), _threshold(one.provenance.settings))
            drawn = part.replicates(figures.replicates, replicates_elsewhere(table, one.left_out))
            fresh[panel] = part.figures(figures).model_copy(update={"replicates": drawn})
            part.data(one.left_out, figures.fingerprint, data, figures, figures.groups)
            near = _STEP + 3 * part.rounding.correlation
            done.compare(f"{where} on {panel}", "interval", pc_interval(figures), pc_interval(fresh[panel]), near)
        kept = sum(fresh[panel] is not one.readings[panel] for panel in fresh)
        (done.verified if kept == len(fresh) else done.partly if kept else done.without).append(where)
        again.append(one.model_copy(update={"readings": fresh}))
    for (one, two, panel), (new, old, _) in zip(pairs_of(stored), pairs_of(again), strict=True):
        before, after = (difference(a.readings[panel], b.readings[panel]) for a, b in ((one, two), (new, old)))
        _compare_nested(done, f"{folder.name}: {one.file_name} − {two.file_name}, read on {panel}",
                        before and before._asdict(), after and after._asdict())  # fmt: skip


def _verify_rows(done: Verification, name: str, stored: Sequence[Result], again: Sequence[Result]) -> None:
    """Means, intervals and paired differences of the rows that have predictions."""
    unit = max(Scale(*result.provenance.data.scale).unit for result in stored)
    made: list[Callable[[Sequence[Result]], Sequence[Mapping[str, Any]]]] = [make_rows, elsewhere_rows, differences]
    for make in made:
        for before, after in zip(make(stored), make(again), strict=True):
            if before != after:
                words = ("method", "recipe", "tested_on", "against", "figure")
                row = " ".join(str(before[key]) for key in words if key in before)
                _compare_nested(done, f"{name}: row {row}", before, after, unit)


def _compare_nested(done: Verification, where: str, stored: Any, again: Any, unit: float = 1.0, what: str = "") -> None:
    if isinstance(stored, Mapping):
        for key, value in stored.items():
            _compare_nested(done, where, value, again[key], unit, f"{what}.{key}".strip("."))
    elif isinstance(stored, float | tuple):
        key = what.split(".")[-1]
        tolerance = (
            2 * _STEP * unit if isinstance(stored, tuple) or key in ("low", "high") else _OF_ROWS.get(key, 5e-6 * unit)
        )
        done.compare(where, f"{what} of the row", stored, again, tolerance)


class _Part:
    """One table of predictions, and the figures that it gives."""

    def __init__(self, done: Verification, where: str, table: pd.DataFrame, scale: Scale, threshold: float) -> None:
        self.done, self.where, self.table, self.scale = done, where, table, scale
        self.threshold = threshold * scale.unit
        numbers = ("score", "value", "low", "high", "dispersion")
        self.score, self.value, self.low, self.high, self.dispersion = (
            table[name].to_numpy(np.float64) if name in table else np.full(len(table), np.nan) for name in numbers
        )
        self.rounding = Rounding(self.score, self.value)

    def figures(self, stored: M) -> M:
        """Compare the figures; those that the predictions give, in a copy."""
        near, unknown = self.rounding, bool(np.isnan(self.low).all())
        ordered, unsure = self._order()
        found = {
            "images": (len(self.table), 0.0),
            "pc": (metrics.pearson(self.score, self.value), near.correlation),
            "mae": (metrics.mae(self.score, self.value), near.errors),
            "rmse": (metrics.rmse(self.score, self.value), near.errors),
            "spearman": (metrics.spearman(self.score, self.value), _RANKS),
            "order_accuracy": (ordered, unsure),
            "coverage": (np.nan if unknown else metrics.coverage(self.score, self.low, self.high), self._at_an_end()),
            "interval_width": (float((self.high - self.low).mean()), near.width(self.low, self.high)),
        }
        for name, (again, tolerance) in found.items():
            self.done.compare(self.where, name, getattr(stored, name), _known(again), tolerance)
        return stored.model_copy(
            update={name: None if np.isnan(again) else again for name, (again, _) in found.items()}
        )

    def replicates(self, stored: Any, again: Any) -> Any:
        """Compare bootstrap replicates; those that the predictions give."""
        if stored is None:
            return None
        for name in ("pc", "mae", "rmse"):
            if getattr(stored, name) is not None:
                tolerance = self.rounding.correlation if name == "pc" else self.rounding.errors
                self.done.compare(
                    self.where, f"replicates.{name}", getattr(stored, name), getattr(again, name), _STEP + 3 * tolerance
                )
        return again

    def known_raters(self, stored: Any, fingerprint: str, split: str) -> None:
        """Compare figures of predictions that use who rated each image."""
        if stored is None or (again := known_raters_of(self.table, fingerprint, split)) is None:
            return
        for name in ("pc", "mae", "rmse"):
            tolerance = 2 * (self.rounding.correlation if name == "pc" else self.rounding.errors)
            self.done.compare(
                self.where, f"known_raters.{name}", getattr(stored, name), getattr(again, name), tolerance
            )
        self.replicates(stored.replicates, again.replicates)

    def spread(self, stored: Any) -> None:
        """Compare the ends of scores, and how many are in each part of the scale but for those at an edge."""
        if stored is None:
            return
        again = spread_of(self.table, self.scale)
        for name in ("predicted_ends", "panel_ends"):
            ends = np.asarray(getattr(stored, name))
            self.done.compare(self.where, name, list(ends), getattr(again, name), float(half_digit(ends).max()) + 1e-12)
        for name, values in (("predicted", self.value), ("panel", self.score)):
            counts, computed = getattr(stored, name), getattr(again, name)
            edges = np.linspace(*self.scale, len(counts) + 1)
            at_edges = int((np.abs(values[:, None] - edges).min(axis=1) <= half_digit(values)).sum())
            moved = sum(abs(a - b) for a, b in zip(counts, computed, strict=True))
            self.done.compare(self.where, f"spread.{name}", 0, moved, 2.0 * at_edges)

    def data(
        self,
        name: str,
        fingerprint: str | None,
        data: Mapping[str, RatedImages],
        figures: Metrics,
        groups: Mapping[str, Any] | None,
    ) -> None:
        """Compare scores, figures by group and the correlation of dispersions with a data set, where it is given."""
        if name not in data:
            return
        rated = data[name]
        if fingerprint not in (None, rated.fingerprint):
            self.done.problems.append(f"{self.where}: the ratings of {name} are not those that were tested on")
            return
        place = {image: row for row, image in enumerate(rated.names)}
        if missing := [image for image in self.table["image"] if image not in place]:
            self.done.problems.append(f"{self.where}: {name} has no image {missing[0]}")
            return
        rows = np.array([place[image] for image in self.table["image"]])
        moved = rated.rescaled(self.scale)
        truth = moved.scores[rows]
        self.done.compare(self.where, "score", list(self.score), list(truth), float(half_digit(truth).max()) + 1e-12)
        spread = np.sqrt(moved.variances[rows])
        known = np.isfinite(spread) & np.isfinite(self.dispersion)
        if known.any():
            again = metrics.pearson(spread[known], self.dispersion[known])
            self.done.compare(self.where, "dispersion_pc", figures.dispersion_pc, _known(again),
                              correlation_tolerance(spread[known], self.dispersion[known]))  # fmt: skip
        if groups is not None:
            self._groups(groups, rated, rows)

    def _groups(self, stored: Mapping[str, Any], rated: RatedImages, rows: npt.NDArray[np.intp]) -> None:
        words = rated.groups.iloc[rows].reset_index(drop=True)
        found = groups_of(pd.concat([self.table[["image", "score", "value"]], words], axis=1))
        for name, group in stored.items():
            if name not in found:
                self.done.problems.append(f"{self.where}: the data set has no group {name}")
                continue
            few = math.sqrt(len(self.table) / group.images)  # fewer images: their rounding errors average out less
            for figure in ("images", "pc", "mae", "rmse", "bias"):
                tolerance = self.rounding.correlation if figure == "pc" else self.rounding.errors
                self.done.compare(
                    self.where, f"groups.{figure}", getattr(group, figure), getattr(found[name], figure),
                    _STEP + 3 * few * tolerance,
                )  # fmt: skip

    def _order(self) -> tuple[float, float]:
        """The share of pairs in the right order, and the share of those so near to θ that digits decide."""
        count, right, unsure = len(self.score), 0, 0
        slack = [2 * float(half_digit(x).max()) for x in (self.score, self.value)]
        for first, second in _blocks(count):
            orders = []
            for values, near, least in zip((self.score, self.value), slack, (1e-9, -1.0), strict=True):
                a, b = values[first], values[second]
                orders.append(order_of(a, b, self.threshold))
                gap = np.abs(np.abs(a - b) - self.threshold)
                unsure += int(((gap <= near) & (gap > least)).sum())  # means of ratings may differ by θ exactly
            right += int((orders[0] == orders[1]).sum())
        pairs = count * (count - 1) / 2
        return (right / pairs, unsure / pairs) if pairs else (float("nan"), 0.0)

    def _at_an_end(self) -> float:
        """The share of scores so near to an end of their interval that digits decide."""
        near = half_digit(self.score) + np.fmax(half_digit(self.low), half_digit(self.high))
        gap = np.fmin(np.abs(self.score - self.low), np.abs(self.score - self.high))
        return float((gap <= near).mean()) + 1e-12


def _blocks(count: int) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """All pairs of images, some rows of them at a time."""
    for start in range(0, count, _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, count))
        first, second = np.nonzero(rows[:, None] < np.arange(count))
        yield rows[first], second


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _threshold(settings: Mapping[str, Any]) -> float:
    return float(settings.get("threshold", 0.2))
