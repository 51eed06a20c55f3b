"""The tables that a person reads: flat rows and the headings of their columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from uol.errors import CallError
from uol.reports.formats import told_interval
from uol.runs.bootstrap import interval, mean_of
from uol.runs.groups import GroupMean, group_means, with_complements
from uol.runs.protocols import wilson
from uol.runs.result import Beside, Result, is_fold
from uol.studies.anchoring import Anchoring
from uol.studies.comparing import differences, in_plan_order
from uol.studies.method_panel import Panel
from uol.studies.plans import BEST, DISTILLED, FAST, PLANS, STRONG
from uol.studies.published import PANEL, makeup_accuracy, transfer_pc
from uol.studies.sources import Source
from uol.studies.table import FOLDS, Row, in_order, mean, of_one_seed, row_groups, seed_spread, table

_SHOWN = {STRONG, BEST, DISTILLED, FAST}
_PLANNED = {row.key for plan in PLANS.values() for row in plan.rows if row.recipe not in _SHOWN}
_SUPERSEDED = {"strong-beta-0.1", "distilled-pair", "distilled-pair-six-views"}  # recipes as they were, and readings
_AGAIN = ("-again", "-third")  # behind a recipe's name: trained once more with the same settings
_COMPARED = ("pc", "mae", "rmse")
FIVE = 5  # folds, as the published figures have
_WHO = {"method": "method", "recipe": "recipe", "ensemble": "networks"}


class View(NamedTuple):
    """Rows, and the columns to show of them: key → heading."""

    rows: list[dict[str, Any]]
    columns: dict[str, str]


def view(kind: str, source: Source) -> View:
    """One of the tables of an experiment, by the names in `KINDS`; a plan's rows stand in its order."""
    if kind not in KINDS:
        raise CallError(f"no table called {kind!r}: there are {', '.join(KINDS)}")
    if source.panels and not source.results:
        return _panels(source.panels)
    if source.anchorings and not source.results:
        return _anchorings(source.anchorings)
    return KINDS[kind](source)


def rows_of(source: Source) -> list[Row]:
    """Means over folds, in the order of the plan where there is one."""
    rows, plan = table(source.results), source.plan
    return rows if plan is None else sorted(rows, key=lambda row: plan.order(row["method"], row["recipe"]))


def _standing(source: Source) -> list[Row]:
    """The rows that stand by themselves: not those that a plan has a table of, nor of fewer folds than others.

    Of a plan, all.
    """
    if source.plan is not None:
        return rows_of(source)
    found = [row for row in rows_of(source) if row["recipe"] not in _SUPERSEDED]
    found = [row for row in found if (row["method"], row["recipe"]) not in _PLANNED]
    most = max((row["folds"] for row in found), default=0)
    return [row for row in found if not 0 < row["folds"] < most]


def _main(source: Source) -> View:
    return _compared(rows_of(source))


def _alone(source: Source) -> View:
    return _compared(_standing(source))


def _compared(found: Sequence[Row]) -> View:
    """Figures with intervals, beside the paper's."""
    rows = []
    for row in map(dict[str, Any], found):
        paper = row["paper"] or {}
        rows.append(
            _who(row)
            | {key: row[key] for key in ("split", "folds", *_COMPARED, "spearman")}
            | {f"interval_{key}": told_interval(row["intervals"][key]) for key in _COMPARED}
            | {f"paper_{key}": paper.get(key) for key in _COMPARED}
            | {f"difference_{key}": _beyond(row[key], paper.get(key), row["folds"]) for key in _COMPARED}
        )
    columns = {
        "folds": "folds", "pc": "PC", "interval_pc": "95 % of PC", "mae": "MAE", "interval_mae": "95 % of MAE",
        "rmse": "RMSE", "interval_rmse": "95 % of RMSE", "spearman": "Spearman",
        "paper_pc": "paper's PC", "paper_mae": "paper's MAE", "paper_rmse": "paper's RMSE",
        "difference_pc": "PC − paper's", "difference_mae": "MAE − paper's", "difference_rmse": "RMSE − paper's",
    }  # fmt: skip
    return View(rows, _WHO | _other_splits(rows) | columns)


def _brief(source: Source) -> View:
    """What a reader wants first: the published row of each method, then ours, with other data sets beside.

    A recipe that was trained again has its first training here, and the others in the other tables.
    """
    columns = {"what": "", "pc": "PC", "mae": "MAE", "rmse": "RMSE"}
    rows: list[dict[str, Any]] = []
    told: set[str] = set()
    standing = list(_standing(source))
    later = {(row["method"], row["recipe"] + again) for row in standing for again in _AGAIN}
    for row in standing:
        if (row["method"], row["recipe"]) in later:
            continue
        method, trained_on = row["method"], row["trained_on"]
        elsewhere = {f"transfer_{name}": pc for name, pc in row["transfer"].items()}
        columns |= {f"transfer_{name}": f"PC on {name}" for name in row["transfer"]}
        if row["paper"] is not None and method not in told:
            told.add(method)
            published = {f"transfer_{name}": transfer_pc(trained_on, name, method) for name in row["transfer"]}
            rows.append({"what": f"{method}, as published", **row["paper"], **published})
        ours = f"{method}, recipe `{row['recipe']}`"
        if row["ensemble"] > 1:
            ours = f"ensemble `{row['recipe']}`, {row['ensemble']} networks"
        if row["folds"] != FIVE:
            ours += f", {row['folds']} of {FIVE} folds" if row["folds"] else f", {row['split']}"
        rows.append({"what": ours, "pc": row["pc"], "mae": row["mae"], "rmse": row["rmse"], **elsewhere})
    return View([dict.fromkeys(columns) | row for row in rows], columns)


def _figures(source: Source) -> View:
    rows = [dict(row) for row in rows_of(source)]
    columns = {
        "folds": "folds", "seed": "seed", "pc": "PC", "pc_sd": "sd over folds", "spearman": "Spearman",
        "order_accuracy": "order", "coverage": "coverage", "dispersion_pc": "dispersion PC",
    }  # fmt: skip
    return View(rows, _WHO | _other_splits(rows) | columns)


def _folds(source: Source) -> View:
    rows = [
        {
            **_who(dict(result)),
            "split": result.split,
            "seed": result.seed,
            **result.metrics.model_dump(),
            "changes": _changes(result),
            "gpu": result.provenance.hardware.gpu or "none",
            "seconds": None if result.provenance.seconds is None else round(result.provenance.seconds),
            "commit": (result.provenance.commit or "")[:12],
        }
        for result in in_order(source.results)
    ]
    columns = {
        "split": "split", "seed": "seed", "images": "images", "pc": "PC", "mae": "MAE", "rmse": "RMSE",
        "spearman": "Spearman", "coverage": "coverage", "changes": "changed settings", "gpu": "GPU",
        "seconds": "seconds", "commit": "commit",
    }  # fmt: skip
    return View(rows, _WHO | columns)


def _seeds(source: Source) -> View:
    rows = []
    for spread in seed_spread(source.results):
        for figure, values in (("PC", spread["pc"]), ("MAE", spread["mae"]), ("RMSE", spread["rmse"])):
            rows.append(
                {**_who(spread), "split": spread["split"], "seeds": spread["seeds"], "figure": figure, **values}
            )
    columns = {"split": "split", "seeds": "seeds", "figure": "figure", "mean": "mean", "sd": "sd", "min": "least",
               "max": "most"}  # fmt: skip
    return View(rows, _WHO | columns)


def _transfer(source: Source) -> View:
    rows = []
    for row in rows_of(source):
        for tested_on, pc in row["transfer"].items():
            paper = transfer_pc(row["trained_on"], tested_on, row["method"], row["recipe"])
            models = row["transfer_folds"][tested_on]
            rows.append(
                _who(row)
                | {"split": row["split"], "tested_on": tested_on, "models": models, "pc": pc}
                | {"interval_pc": told_interval(row["transfer_intervals"][tested_on])}
                | {"paper_pc": paper, "difference_pc": _beyond(pc, paper, models)}
            )
    columns = {"tested_on": "tested on", "models": "models", "pc": "mean PC", "interval_pc": "95 %",
               "paper_pc": "paper's PC", "difference_pc": "PC − paper's"}  # fmt: skip
    return View(rows, _WHO | _other_splits(rows) | columns)


def _beside(source: Source) -> View:
    """On the test images of other panels that trained the same networks, each with its own references: no transfer."""
    rows = []
    for group in row_groups(source.results):
        used = of_one_seed(group)
        for name in sorted({name for r in used for name in r.beside or {}}):
            there = [r.beside[name] for r in used if r.beside and name in r.beside]
            replicates = mean_of([None if one.replicates is None else one.replicates.pc for one in there])
            rows.append(
                _who(dict(used[0]))
                | {"panel": name, "models": len(there), "images": there[0].images}
                | {key: mean(getattr(one, key) for one in there) for key in _COMPARED}
                | {"interval_pc": told_interval(None if replicates is None else interval(replicates))}
                | _known_raters(there)
            )
    columns = {"trained_on": "trained on", "panel": "panel tested", "models": "models", "images": "images",
               "pc": "mean PC", "interval_pc": "95 % of PC", "mae": "MAE", "rmse": "RMSE",
               "known_pc": "PC, raters known", "known_interval": "95 %, raters known",
               "known_mae": "MAE, raters known", "known_rmse": "RMSE, raters known"}  # fmt: skip
    return View(rows, _WHO | columns)


def _known_raters(there: Sequence[Beside]) -> dict[str, Any]:
    """Means of figures of predictions that are told who rated each image, where all networks have them."""
    known = [one.known_raters for one in there if one.known_raters is not None]
    if len(known) < len(there):
        return dict.fromkeys(("known_pc", "known_interval", "known_mae", "known_rmse"))
    replicates = mean_of([one.replicates.pc for one in known])
    return {
        **{f"known_{key}": mean(getattr(one, key) for one in known) for key in _COMPARED},
        "known_interval": told_interval(None if replicates is None else interval(replicates)),
    }


def _pairs(source: Source) -> View:
    """Each row against the plan's reference, or against the row before, on the same images."""
    rows = [
        {key: value for key, value in row.items() if key not in ("low", "high")}
        | {"interval": told_interval(None if row["low"] is None else (row["low"], row["high"]), signed=True)}
        for row in differences(source.results, source.plan)
    ]
    columns = {"method": "method", "recipe": "recipe", "against": "against", "folds": "folds", "tested_on": "tested on",
               "figure": "figure", "difference": "difference", "interval": "95 %", "p": "p"}  # fmt: skip
    return View(rows, columns)


def _makeup(source: Source) -> View:
    """The share of pairs of MIFS in the right order: means over networks, and Wilson intervals for that many pairs."""
    rows = []
    for group in in_plan_order([of_one_seed(group) for group in row_groups(source.results)], source.plan):
        told = [result.makeup for result in group if result.makeup is not None]
        if not told:
            continue
        first, accuracy, pairs = group[0], fmean(one.accuracy for one in told), min(one.pairs for one in told)
        paper = makeup_accuracy(first.method, first.recipe)
        rows.append(
            _who(dict(first))
            | {"models": len(told), "pairs": pairs, "answer": ", ".join(sorted({one.answer for one in told}))}
            | {"accuracy": accuracy, "interval": told_interval(wilson(accuracy, pairs))}
            | {"paper_accuracy": paper, "difference_accuracy": _beyond(accuracy, paper, len(told))}
        )
    columns = {"models": "models", "pairs": "pairs", "answer": "right is", "accuracy": "accuracy", "interval": "95 %",
               "paper_accuracy": "paper's", "difference_accuracy": "ours − paper's"}  # fmt: skip
    return View(rows, _WHO | columns)


def _range(source: Source) -> View:
    """How far scores reach on the test images of all folds, beside the panel's own means."""
    rows = []
    for group in in_plan_order([of_one_seed(group) for group in row_groups(source.results)], source.plan):
        told = [result.spread for result in group if result.spread is not None]
        if told:
            least, most = min(s.predicted_ends[0] for s in told), max(s.predicted_ends[1] for s in told)
            panel = min(s.panel_ends[0] for s in told), max(s.panel_ends[1] for s in told)
            covered = fmean(_covered(one.predicted_ends, one.panel_ends) for one in told)
            rows.append(
                _who(dict(group[0]))
                | {"split": FOLDS if is_fold(group[0].split) else group[0].split, "folds": len(told)}
                | {"least": least, "most": most, "panel_least": panel[0], "panel_most": panel[1], "covered": covered}
            )
    columns = {"folds": "folds", "least": "least", "most": "most", "panel_least": "panel's least",
               "panel_most": "panel's most", "covered": "share of the panel's range"}  # fmt: skip
    return View(rows, _WHO | _other_splits(rows) | columns)


def _panels(panels: Sequence[Panel]) -> View:
    """How far the methods of each panel agree with its trimmed mean."""
    rows = [
        {"panel": panel.name, "method": method, "folds": panel.folds, "images": panel.images, "pc": member.pc}
        | {"pc_others": member.pc_others, "paper_pc": PANEL.get(method)}
        | {"kind": "demonstration" if panel.demonstration else "as published"}
        for panel in panels
        for method, member in panel.members.items()
    ]
    columns = {"panel": "panel", "method": "method", "folds": "folds", "images": "images", "pc": "PC",
               "pc_others": "PC with the others", "paper_pc": "paper's PC", "kind": "data"}  # fmt: skip
    return View(rows, columns)


def _anchorings(curves: Sequence[Anchoring]) -> View:
    """Errors by the number of anchors, beside those of the model as it is."""
    rows: list[dict[str, Any]] = []
    for curve in curves:
        plain = curve.points[0].mean.rmse
        for point in curve.points:
            saved = None if plain is None or point.mean.rmse is None else point.mean.rmse / plain - 1
            rows.append(
                {"model": curve.name, "anchors": point.anchors, "draws": point.draws, **point.mean.model_dump()}
                | {"sd": point.sd.rmse, "change": None if saved is None or not point.anchors else f"{saved:+.1%}"}
            )
    columns = {"model": "model", "anchors": "anchors", "draws": "draws", "pc": "PC", "mae": "MAE", "rmse": "RMSE",
               "sd": "sd of RMSE", "change": "change of RMSE", "coverage": "coverage"}  # fmt: skip
    return View(rows, columns)


def _grouped(source: Source) -> Iterator[tuple[dict[str, Any], list[GroupMean]]]:
    """Who was tested on what, on the test folds and then on other data sets, with the figures of every group."""
    for group in row_groups(source.results):
        used = of_one_seed(group)
        tested = [(used[0].trained_on, [with_complements(r.groups or {}, r.metrics) for r in used], False)]
        for name in sorted({name for r in used for name in r.transfer}):
            there = [r.transfer[name] for r in used if name in r.transfer]
            tested.append((name, [with_complements(one.groups or {}, one) for one in there], True))
        for tested_on, parts, same in tested:
            yield {**_who(dict(used[0])), "tested_on": tested_on}, group_means(parts, same)


def _groups(source: Source) -> View:
    """Every group of every row."""
    rows: list[dict[str, Any]] = [
        {**who, **mean._asdict(), "interval_pc": told_interval(mean.interval)}
        for who, means in _grouped(source)
        for mean in means
    ]
    columns = {"tested_on": "tested on", "group": "group", "images": "images", "pc": "PC",
               "interval_pc": "95 % of PC", "mae": "MAE", "bias": "bias"}  # fmt: skip
    return View(rows, _WHO | columns)


def _gaps(source: Source) -> View:
    """How far each group is behind all other images: of every row and data set the worst group first."""
    rows: list[dict[str, Any]] = []
    for who, means in _grouped(source):
        ordered = sorted(means, key=lambda mean: math.inf if mean.gap is None else mean.gap)
        rows += [
            {**who, "group": mean.group, "images": mean.images, "pc": mean.pc, "pc_others": mean.pc_others}
            | {"difference": mean.gap, "interval": told_interval(mean.gap_interval, signed=True)}
            | {"bias": mean.bias, "interval_bias": told_interval(mean.bias_interval, signed=True)}
            | {"told": _told(mean, worst=place == 0 and all(one.kept for one in ordered))}
            for place, mean in enumerate(ordered)
        ]
    columns = {"tested_on": "tested on", "group": "group", "images": "images", "pc": "PC", "pc_others": "PC of others",
               "difference": "gap", "interval": "95 % of gap", "bias": "bias",
               "interval_bias": "95 % of bias", "told": "in words"}  # fmt: skip
    return View(rows, _WHO | columns)


def _told(mean: GroupMean, worst: bool) -> str:
    """What the figures of a group say; no group is called the worst while a gap is unknown."""
    if mean.gap is None or mean.gap_interval is None:
        return "too few images to tell" if mean.kept else "gap unknown: add the run again"
    side = f"PC {abs(mean.gap):.4f} {'below' if mean.gap < 0 else 'above'} all others"
    sure = mean.gap_interval[0] > 0 or mean.gap_interval[1] < 0
    if worst and mean.gap < 0:
        return f"largest gap: {side}" + ("" if sure else ", which may be chance")
    return side if sure else "no gap shown"


KINDS: dict[str, Callable[[Source], View]] = {
    "main": _main,
    "alone": _alone,
    "brief": _brief,
    "figures": _figures,
    "folds": _folds,
    "seeds": _seeds,
    "transfer": _transfer,
    "beside": _beside,
    "pairs": _pairs,
    "makeup": _makeup,
    "range": _range,
    "groups": _groups,
    "gaps": _gaps,
}


def _changes(result: Result) -> str | None:
    """Settings changed on the command line; seeds have a column, and weights and networks read off must be named."""
    hidden = ("seed", "init", "network")
    changes = {key: value for key, value in result.provenance.changes.items() if key not in hidden}
    return ", ".join(f"{key}={value}" for key, value in changes.items()) or None


def _who(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in ("method", "recipe", "trained_on", "ensemble")}


def _other_splits(rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The column that tells rows of folds from others, where there are others."""
    return {"split": "split"} if any(row["split"] != "folds" for row in rows) else {}


def _covered(ends: Sequence[float], of: Sequence[float]) -> float:
    """The share of one range that another covers."""
    return max(0.0, min(ends[1], of[1]) - max(ends[0], of[0])) / (of[1] - of[0]) if of[1] > of[0] else 1.0


def _beyond(ours: float | None, theirs: float | None, folds: int) -> float | None:
    """Ours minus the published figure; fewer than five folds are not comparable with it."""
    return None if ours is None or theirs is None or folds != FIVE else ours - theirs
