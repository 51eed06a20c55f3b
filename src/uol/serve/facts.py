"""What the service says about its model: its panel, the scores of its references, and where it is weak."""

from __future__ import annotations

import re

import numpy as np

from uol.order.calibration import Calibration
from uol.scoring.cards import ANCHORS, split_card
from uol.scoring.config import EnsembleConfig, PanelConfig, is_ensemble, read_config, read_ensemble_config
from uol.scoring.digests import check_digests
from uol.scoring.panels import StoredReferences, read_panels, read_references
from uol.scoring.released import find_model, member_folders, names, read_card
from uol.serve.schemas import Group, Histogram, Model, Panel, Weakness

_BINS = 20
_MOST_GROUPS = 3  # of each data set
_WHO = re.compile(r"This one was (.+?)\.")
_RATERS = {  # of panels that a card does not describe
    "scut-fbp5500": "sixty raters, of frontal photographs of Asian and Caucasian faces",
    "mebeauty": "360 raters, 4 to 52 for each photograph, of faces of six ethnic groups",
    "omi": "some 31 people for each face, of synthetic faces",
}


def model_facts(name: str) -> Model:
    """The facts in a model's folder; `loaded` is False. Errors name what is missing or damaged."""
    folder = find_model(name)
    several = is_ensemble(folder)
    members = member_folders(folder) if several else [folder]
    settings = read_ensemble_config(folder) if several else read_config(folder)
    network = read_config(members[0]).model
    for one in {folder, *members}:
        check_digests(one)  # a damaged model is reported before anybody asks it
    card = read_card(folder)
    own_card = split_card(card)[0]
    if ANCHORS not in own_card:
        own_card = card  # it is the same panels': those of an anchored model are others
    others = {} if several else read_panels(folder, network.dimensions)
    panels = [
        _panel(settings.panel, settings.calibration, read_references(members[0], network.dimensions), own_card),
        *(_panel(parts.panel, parts.calibration, parts.references) for parts in others.values()),
    ]
    if isinstance(settings, EnsembleConfig):
        known = read_panels(members[0], network.dimensions)
        panels += [_panel(one.panel, one.calibration, known[one.panel.name].references) for one in settings.panels]
    return Model(
        name=name if name in names() else folder.resolve().name,
        framing=network.framing,
        loaded=False,
        explains=not several,
        panels=panels,
        weak=weak_groups(own_card),
        limits=_bullets(card, "Limits"),
    )


def weak_groups(card: str) -> list[Weakness]:
    """For each table of groups in a model card, the groups whose scores follow the panel's least."""
    found = []
    for section in re.split(r"^## ", card, flags=re.MULTILINE)[1:]:
        rows = re.findall(r"^\| ([^|]+) \| (\d+) \| (-?[\d.]+) \| [^|]* \| [\d.]+ \| ([-+][\d.]+) \|$", section, re.M)
        groups = [Group(group=group, images=images, pc=pc, bias=bias) for group, images, pc, bias in rows]
        if groups and "not this one" not in section.splitlines()[0]:  # panels left out are read by other networks
            weakest = sorted(groups, key=lambda group: group.pc)[:_MOST_GROUPS]
            found.append(Weakness(heading=section.splitlines()[0].strip(), groups=weakest))
    return found


def _panel(panel: PanelConfig, calibration: Calibration, references: StoredReferences, card: str = "") -> Panel:
    """The facts of a panel; `card` is given for the one that the model card is about."""
    found = _WHO.search(" ".join(card.split()))
    scores = references.score
    ends = min(panel.low, float(scores.min())), max(panel.high, float(scores.max()))
    counts, edges = np.histogram(scores, _BINS, ends)
    return Panel(
        name=panel.name,
        raters=found[1] if found else _RATERS.get(panel.name, f"the raters of {panel.name}"),
        low=panel.low,
        high=panel.high,
        level=calibration.level,
        references=Histogram(edges=edges.round(6).tolist(), counts=counts.tolist()),
    )


def _bullets(card: str, heading: str) -> list[str]:
    """The items of a section, each on one line."""
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", card, re.MULTILINE | re.DOTALL)
    items = re.split(r"^- ", found[1], flags=re.MULTILINE)[1:] if found else []
    return [" ".join(item.split()) for item in items]
