"""Model folders on disk, read and written.

One network is config.json, model.safetensors, references.safetensors and README.md (the model card). An ensemble is
config.json, README.md and a model folder for each member in `members`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

import uol
from uol.errors import CallError, UolError
from uol.order.gaussians import Gaussians
from uol.order.model import OrderModel
from uol.order.references import ReferenceSet
from uol.scoring.base import BaseScorer
from uol.scoring.cards import ANCHORED, model_card
from uol.scoring.config import (
    COMPARE_GRAPH,
    CONFIG,
    FORMAT,
    MEMBERS,
    SCORE_GRAPH,
    EnsembleConfig,
    FolderConfig,
    MemberConfig,
    is_ensemble,
    read_config,
    read_ensemble_config,
)
from uol.scoring.ensemble import EnsembleScorer, Standard
from uol.scoring.released import find_model, member_folder, member_folders
from uol.scoring.scorer import Scorer
from uol.storage.files import replacing_folder, write_json, write_text
from uol.storage.tensors import write_tensors

MODEL, REFERENCES, CARD = "model.safetensors", "references.safetensors", "README.md"
PROVENANCE = "provenance.json"  # of a network that every image of a data set has trained


def check_target(folder: str | os.PathLike[str], replace: bool = True) -> None:
    """Refuse to write a model where other files would be lost; an older model is replaced if `replace` is set."""
    target = Path(folder)
    if not target.is_dir() or not any(target.iterdir()):
        return
    refusal = CallError(f"{target}: a folder with other files in it; choose another folder for the model")
    several = is_ensemble(target)
    one = {CONFIG, MODEL, REFERENCES, CARD, SCORE_GRAPH, COMPARE_GRAPH, PROVENANCE}
    ours = {CONFIG, CARD, MEMBERS, PROVENANCE} if several else one
    if {entry.name for entry in target.iterdir()} - ours:
        raise refusal
    try:  # other projects' models have files of the same names
        read_ensemble_config(target) if several else read_config(target)
    except UolError as error:
        raise refusal from error
    if not replace:
        raise CallError(f"{target}: holds a model already; choose another folder, or replace it with --replace")


def save_scorer(scorer: Scorer, folder: str | os.PathLike[str], half: bool = False) -> None:
    """Write the folder of one network in one step: whole, or not at all."""
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


def save_ensemble(ensemble: EnsembleScorer, folder: str | os.PathLike[str], half: bool = False) -> None:
    """Write the folder of an ensemble in one step: whole, or not at all."""
    check_target(folder)
    config = EnsembleConfig(
        format=FORMAT,
        uol=uol.__version__,
        members=tuple(
            MemberConfig(name=str(number), degree_offset=standard.offset, degree_factor=standard.factor)
            for number, standard in enumerate(ensemble.standards, 1)
        ),
        panel=ensemble.panel,
        calibration=ensemble.calibration,
    )
    with replacing_folder(folder) as temporary:
        write_json(temporary / CONFIG, config.model_dump())
        for number, member in enumerate(ensemble.members, 1):
            save_scorer(member, temporary / MEMBERS / str(number), half)
        write_text(temporary / CARD, model_card(ensemble))


def save_anchored(scorer: BaseScorer, folder: str | os.PathLike[str], base: Path) -> None:
    """Write an anchored model: weights in the precision of its base, and the base's card, whose terms hold."""
    stored = [member / MODEL for member in member_folders(base) or [base]]
    scorer.save_pretrained(folder, half=all(map(_in_half, stored)))
    former = (base / CARD).read_text(encoding="utf-8") if (base / CARD).is_file() else "It has none.\n"
    terms = "The card of the model that was anchored, whose terms hold for this one too:"
    write_text(Path(folder) / CARD, f"{model_card(scorer, ANCHORED)}\n---\n\n{terms}\n\n{former}")


def load_model(name: str | os.PathLike[str]) -> BaseScorer:
    """Read a model folder, of one network or of an ensemble."""
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
        ensemble = EnsembleScorer(members, config.calibration, standards)
    except CallError as error:
        raise UolError(f"{folder / CONFIG}: {error}") from error
    if ensemble.panel != config.panel:
        raise UolError(f"{folder / CONFIG}: the members are of another panel")
    return ensemble


def load_scorer(name: str | os.PathLike[str]) -> Scorer:
    """Read the folder of one network; an error names what is missing or damaged."""
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


def _stored(tensors: Mapping[str, torch.Tensor], half: bool, but: tuple[str, ...] = ()) -> dict[str, torch.Tensor]:
    """Tensors as written: in 16 bits if `half` is set and all values stay finite."""
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
