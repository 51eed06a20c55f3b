"""An ensemble on disk: config.json, README.md, and a model folder for each member in `members`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import uol
from uol.errors import CallError, UolError
from uol.scoring.config import CONFIG, FORMAT, MEMBERS, EnsembleConfig, MemberConfig, is_ensemble, read_ensemble_config
from uol.scoring.ensemble import EnsembleScorer, Standard
from uol.scoring.folder import CARD, check_target, load_scorer, save_scorer
from uol.scoring.released import find_model, member_folder
from uol.scoring.scorer import Scorer
from uol.storage.files import replacing_folder, write_json, write_text


def save_ensemble(ensemble: EnsembleScorer, folder: str | os.PathLike[str], half: bool = False) -> None:
    """Write a model folder in one step: it is there whole, or not at all."""
    check_target(folder)
    names = [str(number) for number in range(1, len(ensemble.members) + 1)]
    with replacing_folder(folder) as temporary:
        write_ensemble_config(ensemble, names, temporary)
        for name, member in zip(names, ensemble.members, strict=True):
            save_scorer(member, temporary / MEMBERS / name, half)
        write_text(temporary / CARD, ensemble_card(ensemble))


def write_ensemble_config(ensemble: EnsembleScorer, names: Sequence[str], folder: Path) -> None:
    """Write an ensemble's config.json; the names are of its members' folders in `members`, or of models that ship."""
    config = EnsembleConfig(
        format=FORMAT,
        uol=uol.__version__,
        members=tuple(
            MemberConfig(name=name, degree_offset=standard.offset, degree_factor=standard.factor)
            for name, standard in zip(names, ensemble.standards, strict=True)
        ),
        combine=ensemble.combine,
        panel=ensemble.panel,
        bradley_terry=ensemble.bradley_terry,
        calibration=ensemble.calibration,
    )
    fitted = None if ensemble.bradley_terry is None else ensemble.bradley_terry._asdict()
    write_json(folder / CONFIG, config.model_dump() | {"bradley_terry": fitted})


def load_model(name: str | os.PathLike[str]) -> Scorer | EnsembleScorer:
    """Read a model folder, of one network or of several."""
    folder = find_model(name)
    if not is_ensemble(folder):
        return load_scorer(folder)
    config = read_ensemble_config(folder)
    for member in config.members:
        if not member_folder(folder, member.name).is_dir():
            raise UolError(
                f"{folder / CONFIG}: names {member.name}, which is neither in {MEMBERS} nor a model that ships"
            )
    members = [load_scorer(member_folder(folder, member.name)) for member in config.members]
    standards = [Standard(member.degree_offset, member.degree_factor) for member in config.members]
    try:
        ensemble = EnsembleScorer(members, config.combine, config.bradley_terry, config.calibration, standards)
    except CallError as error:
        raise UolError(f"{folder / CONFIG}: {error}") from error
    if ensemble.panel != config.panel:
        raise UolError(f"{folder / CONFIG}: does not fit the members, which are of another panel")
    return ensemble


def load_members(name: str | os.PathLike[str]) -> list[Scorer]:
    """The networks of a model folder: one, or all members of an ensemble."""
    model = load_model(name)
    return model.members if isinstance(model, EnsembleScorer) else [model]


def ensemble_card(ensemble: EnsembleScorer, calibrated_on: str = "held-out images") -> str:
    """The README.md of an ensemble's folder."""
    calibration, panel = ensemble.calibration, ensemble.panel
    made = f"calibrated on {calibration.images}: {calibrated_on}" if calibration.images else "not calibrated"
    how = {"scores": "mean of the members' scores", "outcomes": "mean of the members' outcome probabilities"}
    rows = "\n".join(
        f"| {Path(MEMBERS) / str(number)} | {member.config.backbone}, {member.config.crop} px, "
        f"{len(member.references)} references |"
        for number, member in enumerate(ensemble.members, 1)
    )
    return f"""# {len(ensemble.members)} models of uncertainty-oriented order learning, asked as one

Together they say what the panel *{panel.name}* would say of an image: the panel's mean score on its scale of
{panel.low:g} to {panel.high:g}, an interval for that mean at the {calibration.level:.0%} level ({made}), and how widely
single raters would differ. They measure nothing about a person, must not be used to judge or identify anyone, and
repeat the tastes and gaps of the panel they learnt from.

| | |
|---|---|
| combined by | {how[ensemble.combine]} |
{rows}

```python
from uol import Scorer
Scorer.from_pretrained("this folder").score(["photo.jpg"])
```
"""
