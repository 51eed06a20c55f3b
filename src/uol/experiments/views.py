"""The tables that a person reads: flat rows and the headings of their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from uol.errors import CallError
from uol.experiments.published import transfer_pc
from uol.experiments.result import Result
from uol.experiments.table import in_order, seed_spread, table

_COMPARED = ("pc", "mae", "rmse")
FIVE = 5  # folds, as the published figures have
_WHO = {"method": "method", "recipe": "recipe", "ensemble": "networks"}


class View(NamedTuple):
    """Rows, and the columns to show of them: key → heading."""

    rows: list[dict[str, Any]]
    columns: dict[str, str]


def view(kind: str, results: Sequence[Result]) -> View:
    """One of the tables of an experiment, by the names in `KINDS`."""
    if kind not in KINDS:
        raise CallError(f"no table called {kind!r}: there are {', '.join(KINDS)}")
    return KINDS[kind](results)


def _main(results: Sequence[Result]) -> View:
    rows = []
    for row in map(dict[str, Any], table(results)):
        paper = row["paper"] or {}
        rows.append(
            _who(row)
            | {key: row[key] for key in ("split", "folds", *_COMPARED, "spearman")}
            | {f"paper_{key}": paper.get(key) for key in _COMPARED}
            | {f"difference_{key}": _minus(row[key], paper.get(key)) for key in _COMPARED}
        )
    columns = {
        "folds": "folds", "pc": "PC", "mae": "MAE", "rmse": "RMSE", "spearman": "Spearman",
        "paper_pc": "paper's PC", "paper_mae": "paper's MAE", "paper_rmse": "paper's RMSE",
        "difference_pc": "PC − paper's", "difference_mae": "MAE − paper's", "difference_rmse": "RMSE − paper's",
    }  # fmt: skip
    return View(rows, _WHO | _other_splits(rows) | columns)


def _brief(results: Sequence[Result]) -> View:
    """What a reader wants first: the published row of each method, then ours, with other data sets beside."""
    columns = {"what": "", "pc": "PC", "mae": "MAE", "rmse": "RMSE"}
    rows: list[dict[str, Any]] = []
    told: set[str] = set()
    for row in table(results):
        method, trained_on = row["method"], row["trained_on"]
        elsewhere = {f"transfer_{name}": pc for name, pc in row["transfer"].items()}
        columns |= {f"transfer_{name}": f"PC on {name}" for name in row["transfer"]}
        if row["paper"] is not None and method not in told:
            told.add(method)
            published = {f"transfer_{name}": transfer_pc(trained_on, name, method) for name in row["transfer"]}
            rows.append({"what": f"{method}, as published", **row["paper"], **published})
        ours = f"{method}, recipe `{row['recipe']}`" + (f", {row['ensemble']} networks" if row["ensemble"] > 1 else "")
        if row["folds"] != FIVE:
            ours += f", {row['folds']} of {FIVE} folds" if row["folds"] else f", {row['split']}"
        rows.append({"what": ours, "pc": row["pc"], "mae": row["mae"], "rmse": row["rmse"], **elsewhere})
    return View([dict.fromkeys(columns) | row for row in rows], columns)


def _figures(results: Sequence[Result]) -> View:
    rows = [dict(row) for row in table(results)]
    columns = {
        "folds": "folds", "seed": "seed", "pc": "PC", "pc_sd": "sd over folds", "spearman": "Spearman",
        "order_accuracy": "order", "coverage": "coverage", "dispersion_pc": "dispersion PC",
    }  # fmt: skip
    return View(rows, _WHO | _other_splits(rows) | columns)


def _folds(results: Sequence[Result]) -> View:
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
        for result in in_order(results)
    ]
    columns = {
        "split": "split", "seed": "seed", "images": "images", "pc": "PC", "mae": "MAE", "rmse": "RMSE",
        "spearman": "Spearman", "coverage": "coverage", "changes": "changed settings", "gpu": "GPU",
        "seconds": "seconds", "commit": "commit",
    }  # fmt: skip
    return View(rows, _WHO | columns)


def _seeds(results: Sequence[Result]) -> View:
    rows = []
    for spread in seed_spread(results):
        for figure, values in (("PC", spread["pc"]), ("MAE", spread["mae"]), ("RMSE", spread["rmse"])):
            rows.append(
                {**_who(spread), "split": spread["split"], "seeds": spread["seeds"], "figure": figure, **values}
            )
    columns = {"split": "split", "seeds": "seeds", "figure": "figure", "mean": "mean", "sd": "sd", "min": "least",
               "max": "most"}  # fmt: skip
    return View(rows, _WHO | columns)


def _transfer(results: Sequence[Result]) -> View:
    rows = []
    for row in table(results):
        for tested_on, pc in row["transfer"].items():
            paper = transfer_pc(row["trained_on"], tested_on, row["method"])
            rows.append(
                _who(row)
                | {"split": row["split"], "tested_on": tested_on, "models": row["transfer_folds"][tested_on], "pc": pc}
                | {"paper_pc": paper, "difference_pc": _minus(pc, paper)}
            )
    columns = {"tested_on": "tested on", "models": "models", "pc": "mean PC", "paper_pc": "paper's PC",
               "difference_pc": "PC − paper's"}  # fmt: skip
    return View(rows, _WHO | _other_splits(rows) | columns)


KINDS = {"main": _main, "brief": _brief, "figures": _figures, "folds": _folds, "seeds": _seeds, "transfer": _transfer}


def _changes(result: Result) -> str | None:
    """Settings changed on the command line; seeds have a column, and weights must be named."""
    changes = {key: value for key, value in result.provenance.changes.items() if key not in ("seed", "init")}
    return ", ".join(f"{key}={value}" for key, value in changes.items()) or None


def _who(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in ("method", "recipe", "trained_on", "ensemble")}


def _other_splits(rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The column that tells rows of folds from others, where there are others."""
    return {"split": "split"} if any(row["split"] != "folds" for row in rows) else {}


def _minus(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or theirs is None else ours - theirs
