"""Tables of experiments: `view` makes one from the results that `rows.find_source` finds under a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from uol.errors import CallError
from uol.experiments.ceiling_tables import ceilings_table
from uol.experiments.check_tables import duplicates_table, lines_table
from uol.experiments.comparing import differences
from uol.experiments.gain_tables import gains_table, settings_table
from uol.experiments.groups import gaps_table, groups_table
from uol.experiments.leave_one_out_tables import LEFT_OUT_KINDS
from uol.experiments.left_out_means import means_table
from uol.experiments.method_panel import Panel
from uol.experiments.new_panels import coverage_table
from uol.experiments.published import PANEL, TRANSFER, makeup_accuracy
from uol.experiments.rows import (
    FIGURES,
    FOLDS,
    WHO,
    Cells,
    Row,
    Source,
    View,
    elsewhere_rows,
    in_order,
    interval_of,
    make_rows,
    mean,
    seed_spread,
    used_results,
    who,
)  # fmt: skip
from uol.experiments.summary_tables import FIVE, brief_table, earlier_table, headline_table, standing_rows
from uol.ratings.metrics import share_interval
from uol.reports.formats import format_interval
from uol.runs.bootstrap import mean_of
from uol.runs.result import PanelFigures, Result, is_fold


def view(kind: str, source: Source) -> View:
    """One of the tables of an experiment, by the names in `KINDS`; a plan's rows stand in its order."""
    chosen = OLD_NAMES.get(kind, kind)
    if chosen not in KINDS:
        raise CallError(f"no table called {kind!r}: there are {', '.join(KINDS)}")
    if chosen == "main" and source.plan is not None:
        chosen = source.plan.table
    if source.left_out:
        of_predictions = {"coverage": coverage_table, "means": means_table}.get(chosen)
        if of_predictions is not None and source.folder is not None:
            return of_predictions(source.left_out, source.folder)
        if chosen == "ceilings":
            return ceilings_table(source)
        found = LEFT_OUT_KINDS.get(chosen)
        return View([], {}) if found is None else found(source.left_out)
    if source.panels and not source.results:
        return _method_panels(source.panels)
    if chosen in ("main", "published") and source.tested_on is not None:
        return _elsewhere(source)
    if chosen == "main" and source.anchorings and not source.results:
        return _anchoring(source)
    if source.tested_on is not None and chosen not in ("transfer", "groups", "gaps", "ceilings", "anchoring"):
        source = Source()  # the other tables are of what trained these networks
    return KINDS[chosen](source)


def _main(source: Source) -> View:
    return _compared(make_rows(source.results, source.plan))


def _alone(source: Source) -> View:
    return _compared(standing_rows(source))


def _compared(found: Sequence[Row]) -> View:
    """Figures with intervals, and the paper's."""
    rows = []
    for row in found:
        values, paper = dict[str, Any](row), row["paper"] or {}
        rows.append(
            _who(row)
            | {key: values[key] for key in ("split", "folds", *FIGURES, "spearman")}
            | {f"interval_{key}": format_interval(row["intervals"][key]) for key in FIGURES}
            | {f"paper_{key}": paper.get(key) for key in FIGURES}
            | {f"difference_{key}": _beyond(values[key], paper.get(key), row["folds"]) for key in FIGURES}
        )
    columns = {
        "folds": "folds", "pc": "PC", "interval_pc": "95 % of PC", "mae": "MAE", "interval_mae": "95 % of MAE",
        "rmse": "RMSE", "interval_rmse": "95 % of RMSE", "spearman": "Spearman",
        "paper_pc": "paper's PC", "paper_mae": "paper's MAE", "paper_rmse": "paper's RMSE",
        "difference_pc": "PC − paper's", "difference_mae": "MAE − paper's", "difference_rmse": "RMSE − paper's",
    }  # fmt: skip
    return View(rows, WHO | _other_splits(rows) | columns)


def _published(source: Source) -> View:
    """Means over folds and the paper's, without intervals."""
    rows, _ = _main(source)
    columns = {"method": "method", "recipe": "recipe", "folds": "folds", "pc": "PC", "mae": "MAE", "rmse": "RMSE",
               "paper_pc": "paper's PC", "paper_mae": "paper's MAE", "paper_rmse": "paper's RMSE",
               "difference_pc": "PC − paper's"}  # fmt: skip
    return View(rows, columns)


def _figures(source: Source) -> View:
    rows = [dict[str, Any](row) for row in make_rows(source.results, source.plan)]
    columns = {
        "folds": "folds", "seed": "seed", "pc": "PC", "pc_sd": "sd over folds", "spearman": "Spearman",
        "order_accuracy": "order", "coverage": "coverage", "dispersion_pc": "dispersion PC",
    }  # fmt: skip
    return View(rows, WHO | _other_splits(rows) | columns)


def _folds(source: Source) -> View:
    rows: list[Cells] = [
        {
            **_who(who(result)),
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
    return View(rows, WHO | columns)


def _seeds(source: Source) -> View:
    rows: list[Cells] = [
        {**_who(spread), "split": spread["split"], "seeds": spread["seeds"], "figure": figure, **values}
        for spread in seed_spread(source.results)
        for figure, values in (("PC", spread["pc"]), ("MAE", spread["mae"]), ("RMSE", spread["rmse"]))
    ]
    columns = {"split": "split", "seeds": "seeds", "figure": "figure", "mean": "mean", "sd": "sd", "min": "least",
               "max": "most"}  # fmt: skip
    return View(rows, WHO | columns)


def _elsewhere(source: Source) -> View:
    """Figures on data sets that the networks never saw."""
    rows: list[Cells] = []
    for row in elsewhere_rows(source.results, source.plan):
        if source.tested_on not in (None, row["tested_on"]):
            continue
        values, paper = dict[str, Any](row), {} if row["paper"] is None else row["paper"]._asdict()
        rows.append(
            _who(row)
            | {key: values[key] for key in ("split", "tested_on", "models", *FIGURES)}
            | {"interval_pc": format_interval(row["interval"])}
            | {f"paper_{key}": paper.get(key) for key in FIGURES}
            | {f"difference_{key}": _beyond(values[key], paper.get(key), row["models"]) for key in FIGURES}
        )
    if not rows and source.tested_on is not None:
        return _never_tested(source.tested_on)
    columns = {"models": "models", "pc": "mean PC", "interval_pc": "95 %", "mae": "MAE", "rmse": "RMSE",
               "paper_pc": "paper's PC", "paper_mae": "paper's MAE", "paper_rmse": "paper's RMSE",
               "difference_pc": "PC − paper's"}  # fmt: skip
    tested = {"tested_on": "tested on"} if source.tested_on is None else {}
    return View(rows, WHO | _other_splits(rows) | tested | columns)


def _never_tested(tested_on: str) -> View:
    """The paper's figures on a data set that none of our networks was tested on."""
    rows: list[Cells] = [
        {"method": method} | {f"paper_{key}": value for key, value in paper._asdict().items()}
        for tested in TRANSFER.values()
        for method, paper in tested.get(tested_on, {}).items()
    ]
    columns = {"method": "method", "paper_pc": "paper's PC", "paper_mae": "paper's MAE", "paper_rmse": "paper's RMSE"}
    return View(rows, columns)


def _panels(source: Source) -> View:
    """On the test images of other panels that trained the same networks, each with separate references: no transfer."""
    rows: list[Cells] = []
    for used in used_results(source.results):
        for name in sorted({name for r in used for name in r.beside or {}}):
            there = [r.beside[name] for r in used if r.beside and name in r.beside]
            replicates = mean_of([None if one.replicates is None else one.replicates.pc for one in there])
            rows.append(
                _who(who(used[0]))
                | {"panel": name, "models": len(there), "images": there[0].images}
                | {key: mean(getattr(one, key) for one in there) for key in FIGURES}
                | {"interval_pc": format_interval(interval_of(replicates))}
                | _known_raters(there)
            )
    columns = {"trained_on": "trained on", "panel": "panel tested", "models": "models", "images": "images",
               "pc": "mean PC", "interval_pc": "95 % of PC", "mae": "MAE", "rmse": "RMSE",
               "known_pc": "PC, raters known", "known_interval": "95 %, raters known",
               "known_mae": "MAE, raters known", "known_rmse": "RMSE, raters known"}  # fmt: skip
    return View(rows, WHO | columns)


def _known_raters(there: Sequence[PanelFigures]) -> Cells:
    """Means of figures of predictions that use who rated each image, where all networks have them."""
    known = [one.known_raters for one in there if one.known_raters is not None]
    if len(known) < len(there):
        return dict.fromkeys(("known_pc", "known_interval", "known_mae", "known_rmse"))
    found: Cells = {f"known_{key}": mean(getattr(one, key) for one in known) for key in FIGURES}
    return found | {"known_interval": format_interval(interval_of(mean_of([one.replicates.pc for one in known])))}


def _differences(source: Source) -> View:
    """Each row minus the plan's reference, or minus the row before, on the same images."""
    rows: list[Cells] = [
        {**dict[str, Any](row), "interval": format_interval(row["interval"], signed=True)}
        for row in differences(source.results, source.plan)
    ]
    columns = {"method": "method", "recipe": "recipe", "against": "against", "folds": "folds", "tested_on": "tested on",
               "figure": "figure", "difference": "difference", "interval": "95 %", "p": "p"}  # fmt: skip
    return View(rows, columns)


def _makeup(source: Source) -> View:
    """The share of pairs of MIFS in the right order: means over networks, and Wilson intervals for that many pairs."""
    rows: list[Cells] = []
    for used in used_results(source.results, source.plan):
        found = [result.makeup for result in used if result.makeup is not None]
        if not found:
            continue
        accuracy, pairs = fmean(one.accuracy for one in found), min(one.pairs for one in found)
        paper = makeup_accuracy(used[0].method, used[0].recipe)
        rows.append(
            _who(who(used[0]))
            | {"models": len(found), "pairs": pairs, "answer": ", ".join(sorted({one.answer for one in found}))}
            | {"accuracy": accuracy, "interval": format_interval(share_interval(accuracy, pairs))}
            | {"paper_accuracy": paper, "difference_accuracy": _beyond(accuracy, paper, len(found))}
        )
    columns = {"models": "models", "pairs": "pairs", "answer": "right is", "accuracy": "accuracy", "interval": "95 %",
               "paper_accuracy": "paper's", "difference_accuracy": "ours − paper's"}  # fmt: skip
    return View(rows, WHO | columns)


def _range(source: Source) -> View:
    """How far scores reach on the test images of all folds, and how far the panel's means do."""
    rows: list[Cells] = []
    for used in used_results(source.results, source.plan):
        found = [result.spread for result in used if result.spread is not None]
        if found:
            least, most = min(s.predicted_ends[0] for s in found), max(s.predicted_ends[1] for s in found)
            panel = min(s.panel_ends[0] for s in found), max(s.panel_ends[1] for s in found)
            covered = fmean(_covered(one.predicted_ends, one.panel_ends) for one in found)
            rows.append(
                _who(who(used[0]))
                | {"split": FOLDS if is_fold(used[0].split) else used[0].split, "folds": len(found)}
                | {"least": least, "most": most, "panel_least": panel[0], "panel_most": panel[1], "covered": covered}
            )
    columns = {"folds": "folds", "least": "least", "most": "most", "panel_least": "panel's least",
               "panel_most": "panel's most", "covered": "share of the panel's range, mean of folds"}  # fmt: skip
    return View(rows, WHO | _other_splits(rows) | columns)


def _method_panels(panels: Sequence[Panel]) -> View:
    """How far the methods of each panel agree with its trimmed mean."""
    rows: list[Cells] = [
        {
            "panel": panel.name,
            "method": method,
            "folds": panel.folds,
            "images": panel.images,
            "pc": member.pc,
            "pc_others": member.pc_others,
            "paper_pc": PANEL.get(method),
            "kind": "demonstration" if panel.demonstration else "as published",
        }
        for panel in panels
        for method, member in panel.members.items()
    ]
    columns = {"panel": "panel", "method": "method", "folds": "folds", "images": "images", "pc": "PC",
               "pc_others": "PC with the others", "paper_pc": "paper's PC", "kind": "data"}  # fmt: skip
    return View(rows, columns)


def _anchoring(source: Source) -> View:
    """Errors by the number of anchors, after those of the model without any."""
    rows: list[Cells] = []
    for curve in source.anchorings:
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


KINDS: dict[str, Callable[[Source], View]] = {
    "main": _main,
    "alone": _alone,
    "published": _published,
    "headline": headline_table,
    "brief": brief_table,
    "figures": _figures,
    "earlier": earlier_table,
    "folds": _folds,
    "seeds": _seeds,
    "transfer": _elsewhere,
    "panels": _panels,
    "differences": _differences,
    "makeup": _makeup,
    "range": _range,
    "groups": groups_table,
    "gaps": gaps_table,
    "ceilings": ceilings_table,
    "anchoring": _anchoring,
    "gains": gains_table,
    "settings": settings_table,
    "lines": lines_table,
    "duplicates": duplicates_table,
    "coverage": lambda source: View([], {}),  # of panels left out alone, like the next
    "means": lambda source: View([], {}),
}
OLD_NAMES = {"beside": "panels", "pairs": "differences"}  # still understood


def _changes(result: Result) -> str | None:
    """Settings changed on the command line; seeds have a column, and weights and networks read off must be named."""
    hidden = ("seed", "init", "network")
    changes = {key: value for key, value in result.provenance.changes.items() if key not in hidden}
    return ", ".join(f"{key}={value}" for key, value in changes.items()) or None


def _who(row: Mapping[str, Any]) -> Cells:
    return {key: row[key] for key in ("method", "recipe", "trained_on", "ensemble")}


def _other_splits(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The column `split`, where rows are of something else than folds."""
    return {"split": "split"} if any(row["split"] != FOLDS for row in rows) else {}


def _covered(ends: Sequence[float], of: Sequence[float]) -> float:
    """The share of one range that another covers."""
    return max(0.0, min(ends[1], of[1]) - max(ends[0], of[0])) / (of[1] - of[0]) if of[1] > of[0] else 1.0


def _beyond(ours: float | None, theirs: float | None, folds: int) -> float | None:
    """Ours minus the published figure; fewer than five folds are not comparable with it."""
    return None if ours is None or theirs is None or folds != FIVE else ours - theirs
