"""A model on disk: config.json, model.safetensors, references.safetensors and README.md (the model card)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

import uol
from uol.errors import CallError, UolError
from uol.order.gaussians import Gaussians
from uol.order.model import OrderModel
from uol.order.references import ReferenceSet
from uol.scoring.config import (
    COMPARE_GRAPH,
    CONFIG,
    FORMAT,
    MEMBERS,
    SCORE_GRAPH,
    FolderConfig,
    is_ensemble,
    read_config,
    read_ensemble_config,
)
from uol.scoring.released import find_model, member_folders
from uol.scoring.scorer import Scorer
from uol.storage.files import replacing_folder, write_json, write_text
from uol.storage.tensors import write_tensors

if TYPE_CHECKING:
    from uol.scoring.ensemble import EnsembleScorer

MODEL, REFERENCES, CARD = "model.safetensors", "references.safetensors", "README.md"
PROVENANCE = "provenance.json"  # of a network that every image of a data set has trained


def check_target(folder: str | os.PathLike[str], replace: bool = True) -> None:
    """Refuse to put a model where other files would be lost: only an older model is replaced, if `replace` says so."""
    target = Path(folder)
    if not target.is_dir() or not any(target.iterdir()):
        return
    refusal = CallError(f"{target}: a folder with other files in it; choose another for the model")
    several = is_ensemble(target)
    one = {CONFIG, MODEL, REFERENCES, CARD, SCORE_GRAPH, COMPARE_GRAPH, PROVENANCE}
    ours = {CONFIG, CARD, MEMBERS, PROVENANCE} if several else one
    if {entry.name for entry in target.iterdir()} - ours:
        raise refusal
    try:  # other projects' models have files of the same names
        if several:
            read_ensemble_config(target)
        else:
            read_config(target)
    except UolError as error:
        raise refusal from error
    if not replace:
        raise CallError(f"{target}: holds a model already; choose another folder, or replace it with --replace")


def keep_anchored(scorer: Scorer | EnsembleScorer, folder: str | os.PathLike[str], base: Path) -> None:
    """Write an anchored model: weights stored as its base's are, and in its card the base's, whose terms it has."""
    if isinstance(scorer, Scorer):
        scorer.save_pretrained(folder, half=_in_half(base / MODEL))
        card = model_card(scorer, "the anchors themselves, each scored with itself left out")
    else:
        from uol.scoring.ensemble_folder import ensemble_card

        scorer.save_pretrained(folder, half=all(_in_half(member / MODEL) for member in member_folders(base)))
        card = ensemble_card(scorer, "the anchors themselves, each scored with itself left out")
    told = (base / CARD).read_text(encoding="utf-8") if (base / CARD).is_file() else "It has none.\n"
    terms = "The card of the model that was anchored, whose terms hold for this one too:"
    write_text(Path(folder) / CARD, f"{card}\n---\n\n{terms}\n\n{told}")


def save_scorer(scorer: Scorer, folder: str | os.PathLike[str], half: bool = False) -> None:
    """Write a model folder in one step: it is there whole, or not at all."""
    check_target(folder)
    config = FolderConfig(
        format=FORMAT,
        uol=uol.__version__,
        model=scorer.model.config,
        panel=scorer.panel,
        bradley_terry=scorer.bradley_terry,
        scoring=scorer.scoring,
        calibration=scorer.calibration,
    )
    references = {
        "mean": scorer.references.gaussians.mean,
        "log_variance": scorer.references.gaussians.log_variance,
        "score": torch.from_numpy(scorer.references.scores),
    }
    with replacing_folder(folder) as temporary:
        write_json(temporary / CONFIG, config.model_dump() | {"bradley_terry": scorer.bradley_terry._asdict()})
        write_tensors(temporary / MODEL, _stored(scorer.model.state_dict(), half))
        write_tensors(temporary / REFERENCES, _stored(references, half, but=("score",)))
        write_text(temporary / CARD, model_card(scorer))


def load_scorer(name: str | os.PathLike[str]) -> Scorer:
    """Read the model folder of one network; what is missing or damaged in it is named."""
    folder = find_model(name)
    config = read_config(folder)
    for file in (MODEL, REFERENCES):
        if not (folder / file).is_file():
            raise UolError(f"{folder}: not a whole model folder: {file} is missing")
    try:
        model = OrderModel(config.model)
    except CallError as error:
        raise UolError(f"{folder / CONFIG}: {error}") from error
    try:
        model.load_state_dict(_read_tensors(folder / MODEL))
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise UolError(f"{folder / MODEL}: does not fit the model in {CONFIG} ({reason})") from error
    return Scorer(
        model,
        _read_references(folder / REFERENCES, config.model.dimensions),
        config.panel,
        config.bradley_terry,
        config.calibration,
        config.scoring,
    )


def model_card(scorer: Scorer, calibrated_on: str = "held-out images") -> str:
    """The README.md of a model folder."""
    calibration, panel, model = scorer.calibration, scorer.panel, scorer.model.config
    references = scorer.references.scores
    made = f"calibrated on {calibration.images}: {calibrated_on}" if calibration.images else "not calibrated"
    return f"""# A model of uncertainty-oriented order learning

It says what the panel *{panel.name}* would say of an image: the panel's mean score on its scale of {panel.low:g} to
{panel.high:g}, an interval for that mean at the {calibration.level:.0%} level ({made}), and how widely single raters
would differ. It measures nothing about a person, must not be used to judge or identify anyone, and repeats the tastes
and gaps of the panel it learnt from.

| | |
|---|---|
| backbone | {model.backbone}, {model.crop} px |
| space | {model.dimensions} dimensions, {"Gaussians" if model.uncertain else "points"} |
| references | {len(references)}, scores {references.min():.2f} to {references.max():.2f} |
| Bradley-Terry | k = {scorer.bradley_terry.k:.2f}, δ = {scorer.bradley_terry.delta:.2f} |

```python
from uol import Scorer
Scorer.from_pretrained("this folder").score(["photo.jpg"])
```
"""


def _stored(tensors: Mapping[str, torch.Tensor], half: bool, but: tuple[str, ...] = ()) -> dict[str, torch.Tensor]:
    """Tensors as they are written: in 16 bits where that is wanted and all values stay finite in them."""
    return {
        key: tensor.half() if half and key not in but and _fits_half(tensor) else tensor
        for key, tensor in tensors.items()
    }


def _in_half(path: Path) -> bool:
    with safe_open(path, "pt") as file:
        return any(file.get_slice(key).get_dtype() == "F16" for key in file.keys())  # noqa: SIM118


def _fits_half(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and bool(torch.isfinite(tensor.half()).all() or not torch.isfinite(tensor).all())


def _read_tensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise UolError(f"{path}: damaged; copy the model folder again ({error})") from error


def _read_references(path: Path, dimensions: int) -> ReferenceSet:
    tensors = _read_tensors(path)
    missing = {"mean", "log_variance", "score"} - set(tensors)
    if missing:
        raise UolError(f"{path}: damaged: {', '.join(sorted(missing))} missing")
    mean, log_variance, scores = (tensors[key].float() for key in ("mean", "log_variance", "score"))
    shape = (len(scores), dimensions)
    fits = tuple(mean.shape) == shape and tuple(log_variance.shape) == shape
    if not (fits and torch.isfinite(mean).all() and torch.isfinite(scores).all()):
        raise UolError(f"{path}: damaged: references do not fit a space of {dimensions} dimensions")
    return ReferenceSet(Gaussians(mean, log_variance), tensors["score"].numpy().astype(np.float64))
