"""What the service says about its model: its panel, the scores of its references, and where it is weak."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from uol.scoring.config import is_ensemble, read_config, read_ensemble_config
from uol.scoring.folder import read_references
from uol.scoring.released import find_model, member_folders
from uol.serve.schemas import Group, Histogram, Model, Panel, Weakness

_BINS = 20
_MOST_GROUPS = 3  # of each data set
_WHO = re.compile(r"This one was (.+?)\.")
_CARD = "README.md"


def model_facts(name: str) -> Model:
    """The facts in a model's folder; `loaded` is False. Errors name what is missing or damaged."""
    folder = find_model(name)
    several = is_ensemble(folder)
    members = member_folders(folder) if several else [folder]
    settings: Any = read_ensemble_config(folder) if several else read_config(folder)
    network = read_config(members[0])
    card = _text(folder / _CARD)
    panel = Panel(
        name=settings.panel.name,
        raters=_raters(card, settings.panel.name),
        low=settings.panel.low,
        high=settings.panel.high,
        level=settings.calibration.level,
        references=_histogram(members[0], network.model.dimensions, settings.panel.low, settings.panel.high),
    )
    return Model(
        name=Path(name).name if name == str(folder) else str(name),
        framing=network.model.framing,
        loaded=False,
        explains=not several,
        panels=[panel],
        weak=weak_groups(card),
        limits=_bullets(card, "Limits"),
    )


def weak_groups(card: str) -> list[Weakness]:
    """For each table of groups in a model card, the groups whose scores follow the panel's least."""
    found = []
    for section in re.split(r"^## ", card, flags=re.MULTILINE)[1:]:
        rows = re.findall(r"^\| ([^|]+) \| (\d+) \| (-?[\d.]+) \| [^|]* \| [\d.]+ \| ([-+][\d.]+) \|$", section, re.M)
        groups = [Group(group=group, images=images, pc=pc, bias=bias) for group, images, pc, bias in rows]
        if groups:
            weakest = sorted(groups, key=lambda group: group.pc)[:_MOST_GROUPS]
            found.append(Weakness(heading=section.splitlines()[0].strip(), groups=weakest))
    return found


def _raters(card: str, panel: str) -> str:
    found = _WHO.search(" ".join(card.split()))
    return found[1] if found else f"the raters of {panel}"


def _bullets(card: str, heading: str) -> list[str]:
    """The items of a section, each on one line."""
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", card, re.MULTILINE | re.DOTALL)
    items = re.split(r"^- ", found[1], flags=re.MULTILINE)[1:] if found else []
    return [" ".join(item.split()) for item in items]


def _histogram(folder: Path, dimensions: int, low: float, high: float) -> Histogram:
    scores = read_references(folder, dimensions).score
    counts, edges = np.histogram(scores, _BINS, (min(low, scores.min()), max(high, scores.max())))
    return Histogram(edges=edges.round(6).tolist(), counts=counts.tolist())


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
