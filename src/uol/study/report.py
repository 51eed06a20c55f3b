"""The HTML report on a study: the scale with intervals, agreement, participants and pairs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from uol.errors import counted
from uol.reports.data_report import RELIABILITY_NAMES
from uol.reports.figures import BLUE, GREY, tidy
from uol.reports.html import Section, write_report
from uol.study.results import Results

MEANING = (
    "The scale says what these participants said of these images in this study. It measures nothing about the people "
    "in them and must not be used to judge or identify anyone."
)
_MOST_ROWS = 200
_NAMES = RELIABILITY_NAMES | {"krippendorff_alpha": "Krippendorff's alpha"}
_MODELS = {
    "bradley_terry": "Bradley-Terry, logits", "thurstone_5": "Thurstone, Case V", "thurstone_3": "Thurstone, Case III",
    "with_ratings": "Thurstone, Case V, with ratings",
}  # fmt: skip


def write_study_report(
    path: str | os.PathLike[str], results: Results, figures: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]
) -> None:
    """Write the page from the tables and figures of an export."""
    settings = results.study.settings
    title = settings.text(settings.title, settings.languages[0])
    question = settings.text(settings.question, settings.languages[0])
    lead = (
        f"{counted(figures['participants'], 'participant')}, {counted(figures['answers'], 'answer')} on "
        f"{counted(figures['images'], 'image')}. Question: {question}"
    )
    pairs = tables.get("pairs.csv")
    sections = [
        _scale(results, tables["scale.csv"]), _agreement(figures, pairs), _participants(tables["participants.csv"])
    ]  # fmt: skip
    if pairs is not None:
        sections.append(_pairs(pairs))
    write_report(path, f"Study: {title}", lead, sections, meaning=MEANING)


def _scale(results: Results, table: pd.DataFrame) -> Section:
    name = "mean" if results.scale is None else "bradley_terry"
    if name not in table:
        return Section("Scale", "Nobody has answered yet.")
    columns = {"image": "image", "judged": "judged"}
    if results.scale is None:
        ends = ("low_95", "high_95")
        columns |= {"mean": "mean rating", "sd": "sd", "standard_error": "standard error"}
        columns |= {"low_95": "low, 95 %", "high_95": "high, 95 %"}
        text = "Mean ratings with 95 % intervals: where the mean of many participants of the same kind would be."
    else:
        ends = (f"{name}_low_95", f"{name}_high_95")
        columns |= {name: _MODELS[name], ends[0]: "low, 95 %", ends[1]: "high, 95 %"}
        columns |= {other: _MODELS[other] for other in results.scales if other != name}
        columns |= {"agreement": "votes that follow the scale"}
        text = "Scale values with 95 % intervals, centred on zero. One logit more: chosen e times as often as not."
        if results.scale.islands > 1:
            text += f" {results.scale.islands} sets of images share no vote: their relative order is a guess."
    known = table.dropna(subset=[name]).sort_values(name, ascending=False)
    shown = known.head(_MOST_ROWS)
    if len(shown) < len(known):
        text += f" The {_MOST_ROWS} highest; scale.csv has all."
    figure = _intervals(known[name].to_numpy(), known[ends[0]].to_numpy(), known[ends[1]].to_numpy())
    return Section("Scale", text, columns, _rows(shown), [figure])


def _agreement(figures: Mapping[str, Any], pairs: pd.DataFrame | None) -> Section:
    names = dict(_NAMES)
    if pairs is not None:  # alpha says nothing of pairs with one vote, which adaptive and random pairs mostly have
        twice = counted(int((pairs["votes"] >= 2).sum()), "pair")
        names["krippendorff_alpha"] += f" (of {twice} with two votes or more)"
    rows = [{"what": names.get(name, name), "value": value} for name, value in figures["reliability"].items()]
    if figures["repeats"]["number"]:
        number = figures["repeats"]["number"]
        rows.append({"what": f"the same answer to a repeated trial (of {number})", "value": figures["repeats"]["same"]})
    if "intransitivity" in figures:
        found = figures["intransitivity"]
        what = f"circular triads among majorities (of {found['triads']}; 0.25 by chance)"
        rows.append({"what": what, "value": found["share"]})
    if "left_side" in figures and figures["left_side"]["of"]:
        left = figures["left_side"]
        rows.append(
            {"what": f"left image chosen (of {left['of']} decided votes)", "value": left["chosen"] / left["of"]}
        )
    rows.append({"what": "mean width of the 95 % intervals", "value": figures["width"]})
    text = "How far participants agree with each other and with themselves."
    return Section("Agreement", text, {"what": "", "value": "value"}, rows)


def _participants(table: pd.DataFrame) -> Section:
    flagged = int(table["flagged"].sum()) if len(table) else 0
    out = int(table["left_out"].sum()) if len(table) else 0
    text = (
        f"{flagged} of {counted(len(table), 'participant')} flagged. A flag is a reason to look: everybody counts"
        + (f", except {out} left out by request." if out else ".")
    )
    heads = {
        "participant": "participant", "answers": "answers", "checks_failed": "checks failed", "checks": "of",
        "repeats_same": "repeats the same", "median_ms": "median, ms", "agreement": "follows the scale",
        "circular_share": "circular triads", "reason": "flagged because",
    }  # fmt: skip
    columns = {name: head for name, head in heads.items() if name in table}
    return Section("Participants", text, columns or None, _rows(table.head(_MOST_ROWS)))


def _pairs(table: pd.DataFrame) -> Section:
    often = table[table["votes"] >= 3].sort_values("agreement").head(20)
    agreed = table["agreed"].dropna()
    text = "The pairs of three votes or more on which people disagreed most."
    if len(agreed):
        text += (
            f" More than 5 of 7 voters agreed on {int(agreed.sum())} of {len(agreed)} pairs with seven votes or more."
        )
    columns = {
        "first": "first", "second": "second", "votes": "votes", "prefer_first": "prefer first", "similar": "similar",
        "prefer_second": "prefer second", "agreement": "agreement",
    }  # fmt: skip
    return Section("Pairs", text, columns, _rows(often))


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def _intervals(value: np.ndarray[Any, Any], low: np.ndarray[Any, Any], high: np.ndarray[Any, Any]) -> Figure:
    """Values from the lowest to the highest with their intervals."""
    figure = Figure(figsize=(8.0, 3.8), layout="constrained")
    ax = figure.subplots()
    x = np.arange(len(value))[::-1]
    ax.vlines(x, low, high, color=GREY, lw=1.2)
    ax.plot(x, value, ".", color=BLUE, ms=4)
    ax.set(xlabel="images, from lowest to highest", ylabel="value with 95 % interval")
    tidy(ax)
    return figure
