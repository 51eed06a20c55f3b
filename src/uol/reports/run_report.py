"""The HTML report on a run, from its folder alone: what was trained, how far off it is, and where."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from uol.errors import counted
from uol.ratings.scale import Scale
from uol.ratings.stats import groupings
from uol.reports import figures
from uol.reports import run_tables as tables
from uol.reports.html import Section, write_report
from uol.reports.run_facts import facts, seconds
from uol.reports.run_folder import Run, number, part, read_runs
from uol.runs.evaluation import figures_of
from uol.training.predictions import Predictions

FIGURES = {
    "images": "images", "pc": "PC", "mae": "MAE", "rmse": "RMSE", "spearman": "Spearman", "order_accuracy": "order",
    "coverage": "coverage", "interval_width": "width", "dispersion_pc": "dispersion PC",
}  # fmt: skip
ERROR_COLUMNS = {
    "bin": "panel score", "images": "images", "bias": "bias", "bias_half": "±", "mae": "MAE", "mae_half": "±",
}  # fmt: skip
COVERAGE_COLUMNS = {
    "bin": "predicted score", "images": "images", "coverage": "coverage", "low": "low", "high": "high",
    "width": "mean width",
}  # fmt: skip
GROUP_COLUMNS = {
    "group": "group", "images": "images", "pc": "PC", "pc_interval": "95 % of PC", "pc_others": "PC of others",
    "gap": "gap", "gap_interval": "95 % of gap", "mae": "MAE", "rmse": "RMSE", "bias": "bias", "low": "low",
    "high": "high", "coverage": "coverage",
}  # fmt: skip
WORST_COLUMNS = {
    "image": "image", "run": "run", "score": "panel", "value": "predicted", "low": "low", "high": "high",
    "error": "error",
}  # fmt: skip
_CURVE_LEVELS = np.linspace(0.01, 0.99, 99)


def write_run_report(run_folder: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Write the page on a run, or on the runs in its subfolders; what a run does not hold is left out."""
    runs = read_runs(run_folder)
    pooled = _pooled(runs)
    sections = [*_trained(runs), *_figures(runs, pooled), *_curves(runs)]
    if pooled is not None:
        sections += [*_scores(runs, pooled), *_errors(pooled), *_groups(pooled), *_calibration(runs, pooled)]
        sections += _dispersion(pooled)
    sections += _references(runs)
    if pooled is not None:
        sections += _worst(runs, pooled)
    write_report(path, _title(runs), _lead(runs, pooled), [*sections, *_trained_together(runs), *_other_data(runs)])


def _pooled(runs: Sequence[Run]) -> pd.DataFrame | None:
    """The predictions of all runs, with the name of the run."""
    known = [run.predictions.assign(run=run.name) for run in runs if run.predictions is not None]
    if not known:
        return None
    together = pd.concat(known, ignore_index=True)
    return together.fillna(dict.fromkeys(tables.grouping_columns(together), ""))


def _title(runs: Sequence[Run]) -> str:
    first = runs[0]
    where = first.result.get("split") if len(runs) == 1 else f"{len(runs)} runs"
    return f"{first.method}{f' on {first.data}' if first.data else ''}{f', {where}' if where else ''}"


def _lead(runs: Sequence[Run], pooled: pd.DataFrame | None) -> str:
    left_out = sum(run.left_out for run in runs)
    broken = f" Left out without a finite score or value: {counted(left_out, 'prediction')}." if left_out else ""
    if pooled is None:
        return _unfinished(runs) + broken
    row = tables.run_figures(runs[0]) if len(runs) == 1 else dict(figures_of(pooled, None))
    waiting = [run.name for run in runs if run.predictions is None]
    more = f" Without predictions so far: {', '.join(waiting)}." if waiting else ""
    return (
        f"{row['images']} test images: PC {row['pc']:.4f}, MAE {row['mae']:.4f}, RMSE {row['rmse']:.4f}.{more}{broken}"
    )


def _unfinished(runs: Sequence[Run]) -> str:
    """Why there is nothing to compare."""
    if any(part(run.result, "metrics") for run in runs):
        return "The run folder holds figures, but not the predictions they were made from."
    run = runs[0]
    done = max((int(run.losses["epoch"].max()) for run in runs if run.losses is not None), default=0)
    epochs = run.settings.get("epochs")
    event = f" Last line of the log: {run.last_event}" if run.last_event and len(runs) == 1 else ""
    return (
        f"No predictions: training has not finished ({done}{f' of {epochs}' if epochs else ''} epochs done), or there "
        f"were no test images.{event}"
    )


def _trained(runs: Sequence[Run]) -> list[Section]:
    known = [facts(run) for run in runs]
    rows = []
    for name in dict.fromkeys(name for one in known for name in one):
        values = list(dict.fromkeys(one[name] for one in known if name in one))
        rows.append({"what": name, "value": "; ".join(values)})
    return [Section("What was trained", columns={"what": "", "value": ""}, rows=rows)]


def _figures(runs: Sequence[Run], pooled: pd.DataFrame | None) -> list[Section]:
    rows = [{"run": run.name, **tables.run_figures(run), "seconds": _rounded(seconds(run))} for run in runs]
    if all(row.get("pc") is None for row in rows):
        return []
    text = (
        "Order is the share of pairs in the right ternary order, coverage the share of intervals that hold the panel's "
        "mean, and width the mean width of the intervals."
    )
    if pooled is not None and np.isfinite(known := tables.known_raters_pc(pooled)):
        text += (
            f" With the leniency of raters known from the training images, PC is {known:.4f}"
            f"{'' if len(runs) == 1 else ' of all predictions together'}."
        )
    if len(runs) == 1:
        return [Section("Figures", text, FIGURES, rows)]
    mean, sd = tables.mean_and_sd(rows, [name for name in FIGURES if name != "images"])
    rows += [{"run": "mean", **mean}, {"run": "standard deviation", **sd}]
    if pooled is not None:
        rows.append({"run": "pooled", **figures_of(pooled, None)})
    text += " Pooled figures use the predictions of all runs together; order is counted within runs only."
    return [Section("Figures", text, {"run": "run", **FIGURES, "seconds": "seconds"}, rows)]


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)


def _curves(runs: Sequence[Run]) -> list[Section]:
    known = {run.name: {str(name): run.losses[name] for name in run.losses} for run in runs if run.losses is not None}
    if not known:
        return []
    text = "Losses are means over the batches of an epoch."
    return [Section("Training", text, figures=[figures.training_curves(known)])]


def _scores(runs: Sequence[Run], pooled: pd.DataFrame) -> list[Section]:
    ends = pooled[["score", "value"]]
    scale = runs[0].scale or Scale(float(ends.min().min()), float(ends.max().max()))
    columns = (pooled[name].to_numpy(np.float64) for name in Predictions._fields)
    figure = figures.score_against_truth(
        pooled["score"].to_numpy(), {runs[0].method: Predictions(*columns)}, scale, "the panel"
    )
    return [Section("Scores", "Intervals that miss the panel's mean are drawn in colour.", figures=[figure])]


def _errors(pooled: pd.DataFrame) -> list[Section]:
    rows = tables.error_rows(pooled)
    text = "Bias is predicted minus panel: above zero means too high. ± is half the 95 % interval of the mean."
    return [Section("Error by score", text, ERROR_COLUMNS, rows, [figures.error_by_score(rows)])]


def _groups(pooled: pd.DataFrame) -> list[Section]:
    sections = []
    for names in groupings(pooled[tables.grouping_columns(pooled)]):
        rows = tables.group_rows(pooled, names)
        figure = figures.means_by_group(rows, "bias: predicted − panel", "bias", line=0.0)
        text = (
            "Low and high bound the bias, predicted minus panel, with 95 % confidence. The gap is PC minus PC of all "
            f"other images; the group furthest behind stands first. Small groups say little.{tables.largest_gap(rows)}"
        )
        sections.append(Section(f"Error by {' × '.join(names)}", text, GROUP_COLUMNS, rows, [figure]))
    return sections


def _calibration(runs: Sequence[Run], pooled: pd.DataFrame) -> list[Section]:
    if not len(tables.with_interval(pooled)):
        return []
    level = runs[0].level
    rows, levels = tables.coverage_rows(pooled), tables.nominal_rows(pooled, level)
    curve = tables.nominal_rows(pooled, level, [float(value) for value in _CURVE_LEVELS])
    text = (
        f"Intervals are made for {100 * level:g} %: the table says how many hold, by predicted score, with a 95 % "
        "interval of that share. For the other levels their half widths are rescaled by quantiles of the normal "
        "distribution, which the errors need not follow: "
    )
    pairs = ", ".join(f"{100 * row['nominal']:g} % → {100 * row['coverage']:.1f} %" for row in levels)
    figure = figures.calibration_of_intervals(rows, curve, level)
    return [Section("Calibration", f"{text}{pairs}.", COVERAGE_COLUMNS, rows, [figure])]


def _dispersion(pooled: pd.DataFrame) -> list[Section]:
    known = pooled[["dispersion", "rating_sd"]].dropna()
    if len(known) < 10:
        return []
    figure = figures.dispersion_against_spread(known["dispersion"].to_numpy(), known["rating_sd"].to_numpy())
    text = "How widely single raters were expected to differ about an image, and how widely they did."
    return [Section("Raters who disagree", text, figures=[figure])]


def _references(runs: Sequence[Run]) -> list[Section]:
    scores = {run.name: run.references for run in runs if run.references is not None}
    if not scores:
        return []
    rows = [
        {
            "run": run.name,
            "references": len(scores[run.name]),
            "lowest": float(scores[run.name].min()),
            "highest": float(scores[run.name].max()),
            **part(run.model, "bradley_terry"),
        }
        for run in runs
        if run.name in scores
    ]
    text = (
        "New images are compared with these rated training images. k says how sharply comparisons separate scores, δ "
        "how wide 'similar' is."
    )
    if len(scores) > 1:
        text += " Bars are means over the runs; lines go from the fewest references of a run to the most."
    columns = {
        "references": "references", "lowest": "lowest score", "highest": "highest", "k": "k", "delta": "δ",
    }  # fmt: skip
    columns = columns if len(runs) == 1 else {"run": "run", **columns}
    return [Section("The reference set", text, columns, rows, [figures.reference_scores(list(scores.values()))])]


def _worst(runs: Sequence[Run], pooled: pd.DataFrame) -> list[Section]:
    columns = {key: title for key, title in WORST_COLUMNS.items() if key != "run" or len(runs) > 1}
    columns |= {name: name for name in tables.grouping_columns(pooled)}
    rows = tables.worst_rows(pooled)
    return [Section("Worst cases", f"The {len(rows)} largest errors.", columns, rows)]


def _other_data(runs: Sequence[Run]) -> list[Section]:
    rows = [{"run": run.name, **row} for run in runs for row in run.evaluations]
    text = "Scores are compared on the scale of the data that trained the model; nothing was trained again."
    return _by_data(runs, "Other data sets", text, rows)


def _trained_together(runs: Sequence[Run]) -> list[Section]:
    """Panels that trained together, apart from data sets that a network never saw."""
    rows = []
    for run in runs:
        panels = part(run.result, "beside")
        rows += [{"run": run.name, "data": name, **part(panels, name)} for name in panels]
    text = "These panels trained the same network; their test images did not. Each has its own references and scale."
    for name in _names(rows):
        figures = [part(row, "known_raters").get("pc") for row in rows if row["data"] == name]
        known = [one for one in figures if number(one)]
        if len(known) == len(figures):
            text += (
                f" With the leniency of the raters of each image of {name} known, PC is {np.mean(known):.4f}"
                f"{' in the mean' * (len(known) > 1)}."
            )
    return _by_data(runs, "Panels trained together", text, rows)


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The data sets that rows are of, each once."""
    return list(dict.fromkeys(str(row["data"]) for row in rows))


def _by_data(runs: Sequence[Run], title: str, text: str, found: Sequence[Mapping[str, Any]]) -> list[Section]:
    rows = list(found)
    if not rows:
        return []
    if len(runs) > 1:
        for name in _names(rows):
            same = [row for row in rows if row["data"] == name]
            mean, _ = tables.mean_and_sd(same, list(FIGURES)[1:])
            rows += [{"data": name, "run": "mean", **mean}] if len(same) > 1 else []
    columns = {"data": "data", "split": "split", "run": "run", **FIGURES}
    shown = {key: title for key, title in columns.items() if any(row.get(key) is not None for row in rows)}
    if len(runs) == 1:
        shown.pop("run", None)
    return [Section(title, text, shown, sorted(rows, key=lambda row: str(row["data"])))]
