"""Parts that the cards of released models share."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from uol.experiments.summary_tables import FIVE
from uol.reports.formats import format_interval, markdown
from uol.runs.groups import group_means
from uol.scoring.scorer import Scorer


def network_rows(scorer: Scorer) -> str:
    """The rows of the card's table that say what a model is made of."""
    config = scorer.config
    framed = "faces found and aligned first" if config.framing == "face" else "images as they are"
    histogram = _histogram(scorer)
    views = len(scorer.scoring.zooms) * (2 if scorer.scoring.mirror else 1)
    return f"""| network | {config.backbone}, {config.crop} px, {framed} |
| psychological space | {config.dimensions} dimensions, {"Gaussians" if config.uncertain else "points"} |
| references | {len(scorer.references.scores)} Gaussians with their scores; no face can be seen in them |
| views of each image | {views} |{histogram}"""


def _histogram(scorer: Scorer) -> str:
    if not scorer.uses_histogram:
        return ""
    share = scorer.scoring.histogram_share
    return f"\n| score | {1 - share:.0%} by comparisons, {share:.0%} the mean of the histogram that it predicts |"


def groups_text(parts: Sequence[dict[str, Any]], same_images: bool) -> str:
    """A table of figures by group, from each network's."""
    rows = [
        {**mean._asdict(), "interval": format_interval(mean.interval), "difference": mean.bias}
        for mean in group_means(parts, same_images)
    ]
    columns = {"group": "group", "images": "images", "pc": "PC", "interval": "95 % interval", "mae": "MAE",
               "difference": "bias"}  # fmt: skip
    return "\n" + markdown(rows, columns) if rows else "\nNot measured.\n"


def taught_by(teachers: Sequence[str]) -> str:
    """How many teachers a network had, in words."""
    return (
        f", taught by {len(teachers)} other network{'s' if len(teachers) > 1 else ''} of the same images"
        if teachers
        else ""
    )


def tested_text(made: Mapping[str, Any], folds: int, kept: bool) -> str:
    """Which images the figures of a card are of: those that its network was tested on, or the folds of its recipe.

    `kept` says whether the predictions behind the figures are kept.
    """
    again = "" if kept else "The predictions were not kept: `uol experiment verify` cannot compute them again."
    panels = [panel["name"] for panel in made.get("panels") or [made["data"]]]
    several = len(panels) > 1
    if "split" in made:
        text = f"""This very network was tested, after its last epoch, on images that it never saw: those of the split
            {made["split"]} of {panels[0]}{" and the test images of the other panels" if several else ""}. {again}"""
        return filled(text)
    on = "the five official folds" if folds == FIVE else f"{folds} of the five official folds"
    images, where = "the data set", on
    if several:
        images, where = "its data sets", f"{on} of {panels[0]}, and over the test images of the other panels"
    text = f"""This network learnt from every image of {images}, so none is left to test it on. The figures are means
        over {where}: on each, a network made by the same recipe from the other images alone was tested, after its last
        epoch. {again}"""
    return filled(text)


def filled(text: str) -> str:
    """A paragraph in lines of 120 characters."""
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)
