"""Tables for a first look: the published rows and ours, with the data that settings were chosen on."""

from __future__ import annotations

from uol.experiments.kept_predictions import kept_words
from uol.experiments.plans import BEST, DISTILLED, FAST, PAPER, PLANS, STRONG
from uol.experiments.published import elsewhere
from uol.experiments.rows import Cells, Row, Source, View, make_rows, used_results

FIVE = 5  # folds, as the published figures have
_SHOWN = {PAPER, STRONG, BEST, DISTILLED, FAST}
_PLANNED = {row.key for plan in PLANS.values() for row in plan.rows if row.recipe not in _SHOWN}
_SUPERSEDED = {"strong-beta-0.1", "distilled-pair"}  # recipes as they were
_AGAIN = ("-again", "-third")  # behind a recipe's name: trained once more with the same settings

# The rows of the headline and of the table after it, and the images looked at when their settings were chosen.
CHOSEN_ON: dict[str, str] = {
    PAPER: "none",
    "paper-calibrated": "none",
    FAST: "fold 1 and MEBeauty, through its teacher `strong`",
    STRONG: "fold 1 and MEBeauty",
    BEST: "fold 1 and MEBeauty; six views after test figures of all folds were seen",
    DISTILLED: "fold 1 and MEBeauty; six views after test figures of all folds were seen",
    "xception": "as `strong`; learning rate within fold 1's training images",
    "transformer": "as `strong`; learning rate within fold 1's training images",
    "kinds": "as its members; these on images held out of training",
    "teachers": "the kinds of `kinds`; no further choice",
    "pair": "as `strong`; unaligned photographs after test figures at half size",
    "two": "test images of all folds",
    "three": "test images of all folds",
    "four": "test images of all folds",
    "panels-large": "fold 1 and MEBeauty, as `best`; passes when test figures of both, with other passes, were known",
    "panels-best": "as `best`; passes as `panels-large`",
    "panels-transformer": "as `transformer`; passes as `panels-large`",
    "panels-hiera": "as `strong`; passes as `panels-large`",
    "panels-fast": "fold 1 and MEBeauty, as `panels-large`; epochs by the time that they take",
    "panels-fast-taught": "as `panels-fast`; teachers when test figures of both, and of their mean, were known",
}
_KNOWN_AS = {
    PAPER: ": the paper to the letter, our code",
    "paper-calibrated": ": its settings, with intervals",
    FAST: ": recipe of `uol-fast-scut5500`",
    DISTILLED: ": recipe of `uol-vgg16-scut5500`",
}


def standing_rows(source: Source) -> list[Row]:
    """The rows that stand by themselves: not those that a plan has a table of, nor of fewer folds than others.

    Of a plan, all.
    """
    rows = make_rows(source.results, source.plan)
    if source.plan is not None:
        return rows
    found = [row for row in rows if row["recipe"] not in _SUPERSEDED]
    found = [row for row in found if (row["method"], row["recipe"]) not in _PLANNED]
    most = max((row["folds"] for row in found), default=0)
    return [row for row in found if not 0 < row["folds"] < most]


def brief_table(source: Source) -> View:
    """What a reader wants first: the published row of each method, then ours, with PC on other data sets.

    Of a recipe that was trained several times, this table shows the first training.
    """
    columns = {"what": "", "pc": "PC", "mae": "MAE", "rmse": "RMSE"}
    rows: list[Cells] = []
    published: set[str] = set()
    standing = list(standing_rows(source))
    later = {(row["method"], row["recipe"] + again) for row in standing for again in _AGAIN}
    for row in standing:
        if (row["method"], row["recipe"]) in later:
            continue
        method = row["method"]
        columns |= {f"transfer_{name}": f"PC on {name}" for name in row["transfer"]}
        if row["paper"] is not None and method not in published:
            published.add(method)
            rows.append({"what": f"{method}, as published", **_paper(row)})
        ours = f"{method}, recipe `{row['recipe']}`"
        if row["ensemble"] > 1:
            ours = f"ensemble `{row['recipe']}`, {row['ensemble']} networks"
        if row["folds"] != FIVE:
            ours += f", {row['folds']} of {FIVE} folds" if row["folds"] else f", {row['split']}"
        rows.append({"what": ours, **_ours(row)})
    return View([dict.fromkeys(columns) | row for row in rows], columns)


def headline_table(source: Source) -> View:
    """The published row, then ours whose every figure `verify` computes again, in the order of `CHOSEN_ON`.

    Each has the data that its settings were chosen on.
    """
    return _by_predictions(source, kept=True)


def earlier_table(source: Source) -> View:
    """The other rows of `CHOSEN_ON`: some of their predictions are not kept."""
    return _by_predictions(source, kept=False)


def _by_predictions(source: Source, kept: bool) -> View:
    columns = {"what": "", "pc": "PC", "mae": "MAE", "rmse": "RMSE"}
    both = zip(make_rows(source.results), used_results(source.results), strict=True)
    found = {row["recipe"]: row for row, used in both if (kept_words(used, source.folder) == "yes") is kept}
    rows: list[Cells] = []
    for recipe, chosen_on in CHOSEN_ON.items():
        if (row := found.get(recipe)) is None:
            continue
        columns |= {f"transfer_{name}": f"PC on {name}" for name in row["transfer"]}
        if kept and not rows and row["paper"] is not None:
            rows.append({"what": "published", **_paper(row), "chosen_on": "unknown"})
        networks = f", {row['ensemble']} networks" if row["ensemble"] > 1 else ""
        what = f"`{recipe}`{networks}{_KNOWN_AS.get(recipe, '')}"
        rows.append({"what": what, **_ours(row), "chosen_on": chosen_on})
    columns |= {"chosen_on": "chosen on"}
    return View([dict.fromkeys(columns) | row for row in rows], columns)


def _ours(row: Row) -> Cells:
    elsewhere = {f"transfer_{name}": pc for name, pc in row["transfer"].items()}
    return {"pc": row["pc"], "mae": row["mae"], "rmse": row["rmse"], **elsewhere}


def _paper(row: Row) -> Cells:
    """The paper's figures of a row's method, on the same data sets."""
    found: Cells = dict(row["paper"] or {})
    for name in row["transfer"]:
        there = elsewhere(row["trained_on"], name, row["method"])
        found[f"transfer_{name}"] = None if there is None else there.pc
    return found
