"""The README.md of a model folder (the model card)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import yaml

from uol.scoring.config import MEMBERS

if TYPE_CHECKING:
    from uol.scoring.base import BaseScorer
    from uol.scoring.network import NetworkScorer

FORMER_CARD = "The card of the model that this one was made from, whose terms hold for it too:"
LICENCE = "non-commercial-research"
"""The name of the terms of models that ship."""

ANCHORS = "anchors, each scored by comparison with the others"
_FORMER = re.compile(r"^The card of the model that .+, whose terms hold for .+ too:$", re.MULTILINE)
_TAGS = ["order-learning", "uncertainty", "image-aesthetics", "visual-perception"]


def metadata(
    panel: str,
    name: str = "",
    licence: str = "terms-of-the-training-data",
    figures: Mapping[str, float | None] | None = None,
    others: Mapping[str, Mapping[str, float | None]] = MappingProxyType({}),
) -> str:
    """The YAML that begins a card, as the Hugging Face Hub reads it; `figures` are of the panel's test images.

    `others` are the further panels of the model, with figures of theirs.
    """
    facts: dict[str, Any] = {
        "license": "other",
        "license_name": licence,
        "library_name": "uol",
        "tags": _TAGS,
        "datasets": [panel, *others],
        "metrics": ["pearsonr", "mae", "rmse"],
    }
    if figures:
        tested = {panel: figures, **others}
        facts["model-index"] = [{"name": name, "results": [_tested(one, tested[one]) for one in tested]}]
    else:
        del facts["datasets"]  # the panel of a table of one's own: no data set that others know
    return f"---\n{yaml.safe_dump(facts, sort_keys=False, width=120)}---\n\n"


def _tested(panel: str, figures: Mapping[str, float | None]) -> dict[str, Any]:
    metrics = [{"type": kind, "value": round(value, 4)} for kind, value in figures.items() if value is not None]
    task = {"type": "image-regression", "name": "what a panel of raters would say of an image"}
    return {"task": task, "dataset": {"type": panel, "name": panel}, "metrics": metrics}


def split_card(card: str) -> tuple[str, str]:
    """A card's two parts: on its own model, and on the models that this was made from ("" without any)."""
    found = _FORMER.search(card)
    return (card, "") if found is None else (card[: found.start()], card[found.end() :].strip())


def without_metadata(card: str) -> str:
    """A card without the YAML that begins it."""
    return re.sub(r"\A---\n.*?\n---\n+", "", card, flags=re.DOTALL)


def former_cards(scorer: BaseScorer) -> list[str]:
    """The cards of the folders that a model comes from, each once: its own, or those of an ensemble's members."""
    cards = [scorer.former_card] if scorer.former_card is not None else [one.former_card for one in scorer.members]
    return list(dict.fromkeys(card for card in cards if card is not None))


def model_card(scorer: BaseScorer) -> str:
    """The card of a model."""
    members, calibration, panel = scorer.members, scorer.calibration, scorer.panel
    former = former_cards(scorer)
    again = scorer.former_card is not None  # what its own card says of how it was calibrated holds
    anchored = scorer.anchored or (again and ANCHORS in split_card(former[0])[0])
    calibrated_on = ANCHORS if anchored else "held-out images"
    licences = re.findall(r"^license_name: (\S+)$", "\n".join(former), re.MULTILINE)
    strict = [name for name in licences if name == LICENCE] or licences
    about = metadata(panel.name, licence=strict[0]) if strict else metadata(panel.name)
    made = (
        f"calibrated on {calibration.images} {calibrated_on}"
        if calibration.images
        else "not calibrated, so far too narrow"
    )
    if len(members) == 1:
        title, it, rows = "A model of uncertainty-oriented order learning", "The model", _network_rows(members[0])
    else:
        title = f"{len(members)} models of uncertainty-oriented order learning that answer as one"
        it, rows = "The ensemble", "\n".join(["| score | mean of the members' scores |", *_member_rows(members)])
        rows += _other_panels(scorer)
    return f"""{about}# {title}

{it} predicts what the panel *{panel.name}* would say of an image: the panel's mean score on its scale of
{panel.low:g} to {panel.high:g}, an interval for that mean at the {calibration.level:.0%} level ({made}), and how widely
single raters would differ. It measures nothing about a person, must not be used to judge or identify anyone, and
repeats the tastes and gaps of the panel it learnt from.

| | |
|---|---|
{rows}

```python
from uol import Scorer
Scorer.from_pretrained("this folder").score(["photo.jpg"])
```
"""


def _network_rows(scorer: NetworkScorer[Any]) -> str:
    model, references, fitted = scorer.config, scorer.references.scores, scorer.bradley_terry
    return f"""| backbone | {model.backbone}, {model.crop} px |
| space | {model.dimensions} dimensions, {"Gaussians" if model.uncertain else "points"} |
| references | {len(references)}, scores {references.min():.2f} to {references.max():.2f} |
| Bradley-Terry | k = {fitted.k:.2f}, δ = {fitted.delta:.2f} |{_other_panels(scorer)}"""


def _other_panels(scorer: BaseScorer) -> str:
    others = [f"{panel.name}, {panel.low:g} to {panel.high:g}" for panel in scorer.panels[1:]]
    return f"\n| other panels | {'; '.join(others)} |" if others else ""


def _member_rows(members: Sequence[NetworkScorer[Any]]) -> list[str]:
    return [
        f"| {Path(MEMBERS) / str(number)} | {member.config.backbone}, {member.config.crop} px, "
        f"{len(member.references)} references |"
        for number, member in enumerate(members, 1)
    ]
