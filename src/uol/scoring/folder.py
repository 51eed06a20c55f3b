"""Model folders on disk, read and written.

One network is config.json, model.safetensors, references.safetensors and README.md (the model card); the panels after
its first are in `panels` (uol.scoring.panels). An ensemble is config.json, README.md and a model folder for each member
in `members`. In both, manifest.json has the digests of the files that answers depend on (uol.scoring.digests).
"""

from __future__ import annotations

import os
import shutil
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

import uol
from uol.errors import CallError, UolError
from uol.scoring.base import BaseScorer
from uol.scoring.cards import FORMER_CARD, former_cards, model_card, split_card, without_metadata
from uol.scoring.config import (
    COMPARE_GRAPH,
    CONFIG,
    FORMAT,
    MEMBERS,
    MODEL,
    SCORE_GRAPH,
    EnsembleConfig,
    EnsemblePanelConfig,
    MemberConfig,
    is_ensemble,
    read_config,
    read_ensemble_config,
)
from uol.scoring.digests import check_digests, write_digests
from uol.scoring.panels import PANELS, REFERENCES, read_panels, read_references, write_panel
from uol.scoring.released import CARD, find_model, member_folder, member_folders, network_fingerprint
from uol.storage.files import replacing_folder, write_json, write_text
from uol.storage.manifest import MANIFEST
from uol.storage.tensors import overwrite_arrays, stored_shapes, write_tensors

if TYPE_CHECKING:
    import torch

    from uol.order.config import ModelConfig
    from uol.scoring.ensemble import EnsembleScorer
    from uol.scoring.network import NetworkScorer
    from uol.scoring.onnx import OnnxScorer
    from uol.scoring.scorer import Scorer

PROVENANCE = "provenance.json"  # of a network that every image of a data set has trained


def check_target(folder: str | os.PathLike[str], replace: bool = True) -> None:
    """Refuse to write a model where other files would be lost; an older model is replaced if `replace` is set."""
    target = Path(folder)
    if not target.is_dir() or not any(target.iterdir()):
        return
    refusal = CallError(f"{target}: a folder with other files in it; choose another folder for the model")
    several = is_ensemble(target)
    one = {CONFIG, MODEL, REFERENCES, CARD, SCORE_GRAPH, COMPARE_GRAPH, PROVENANCE, PANELS, MANIFEST}
    ours = {CONFIG, CARD, MEMBERS, PROVENANCE, MANIFEST} if several else one
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
    check_intervals(scorer)
    check_target(folder)
    with replacing_folder(folder) as temporary:
        own = {name for parts in scorer.other_panels.values() for name in parts.tensors}  # few: they stay in 32 bits
        stored = {
            name: tensor.half() if half and name not in own and _fits_half(tensor) else tensor
            for name, tensor in scorer.model.state_dict().items()
        }
        write_tensors(temporary / MODEL, stored)
        _describe(scorer, temporary, half)
        write_digests(temporary)


def save_exported(scorer: OnnxScorer, folder: str | os.PathLike[str], half: bool = False) -> None:
    """Write the folder of an exported network in one step, with the weights as stored and the graph of its Gaussians.

    The graph in it gives no scores: those of the original are by comparison with the original's references.
    """
    from uol.scoring.onnx import FINGERPRINT, GAUSSIAN
    from uol.scoring.onnx_graph import cut_graph

    check_intervals(scorer)
    check_target(folder)
    source = scorer.folder
    if not (source / MODEL).is_file():
        raise UolError(f"{source}: not a whole model folder: {MODEL} is missing")
    if half and not _in_half(source / MODEL):
        raise CallError(
            "half: the graph reads weights as they are stored; open the model with torch to store it in half precision"
        )
    with replacing_folder(folder) as temporary:
        shutil.copyfile(source / MODEL, temporary / MODEL)
        overwrite_arrays(temporary / MODEL, scorer.tensors)
        _describe(scorer, temporary, half)
        graph = (source / SCORE_GRAPH).read_bytes()
        (temporary / SCORE_GRAPH).write_bytes(cut_graph(graph, GAUSSIAN, (FINGERPRINT, network_fingerprint(temporary))))
        write_digests(temporary)


def _describe(scorer: NetworkScorer[Any], folder: Path, half: bool) -> None:
    """Write all of a network's folder but its weights: settings, references, other panels and card."""
    write_panel(folder, scorer.parts, half, scorer.config)
    for name, parts in scorer.other_panels.items():
        write_panel(folder / PANELS / name, parts, half)
    write_text(folder / CARD, _card(scorer))


def _card(scorer: BaseScorer) -> str:
    """The card of a model, with those of the folders it comes from: their terms and limits hold on."""
    card = model_card(scorer)
    for former in former_cards(scorer):
        own, before = split_card(former)
        terms = without_metadata(before or own).strip() or "It has none."
        card += f"\n---\n\n{FORMER_CARD}\n\n{terms}\n"
    return card


def check_intervals(scorer: BaseScorer) -> None:
    """Refuse to store a model whose intervals are for a panel that nobody has seen: its own would be lost."""
    if scorer.interval == "new-panel":
        raise CallError('its intervals are for a new panel; save the model as opened without interval="new-panel"')


def save_ensemble(ensemble: EnsembleScorer, folder: str | os.PathLike[str], half: bool = False) -> None:
    """Write the folder of an ensemble in one step: whole, or not at all."""
    check_intervals(ensemble)
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
        panels=tuple(
            EnsemblePanelConfig(panel=known.panel, calibration=known.calibration, degrees=tuple(known.standards))
            for known in ensemble.other_panels.values()
        ),
    )
    with replacing_folder(folder) as temporary:
        write_json(temporary / CONFIG, config.model_dump(exclude=None if config.panels else {"panels"}))
        for number, member in enumerate(ensemble.members, 1):
            save_scorer(member, temporary / MEMBERS / str(number), half)
        write_text(temporary / CARD, _card(ensemble))
        write_digests(temporary)


def save_anchored(scorer: BaseScorer, folder: str | os.PathLike[str], base: Path) -> None:
    """Write an anchored model with weights in the precision of its base."""
    stored = [member / MODEL for member in member_folders(base) or [base]]
    scorer.save_pretrained(folder, half=all(map(_in_half, stored)))


def load_model(name: str | os.PathLike[str]) -> BaseScorer:
    """Read a model folder, of one network or of an ensemble, with torch."""
    from uol.scoring.ensemble import CalibratedPanel, EnsembleScorer, Standard

    folder = find_model(name)
    if not is_ensemble(folder):
        return load_scorer(folder)
    config = read_ensemble_config(folder)
    for member in config.members:
        check_member(folder, member.name)
    check_digests(folder)
    members = [load_scorer(member_folder(folder, member.name)) for member in config.members]
    standards = [Standard(member.degree_offset, member.degree_factor) for member in config.members]
    try:
        ensemble = EnsembleScorer(members, config.calibration, standards)
    except CallError as error:
        raise UolError(f"{folder / CONFIG}: {error}") from error
    if ensemble.panel.identity != config.panel.identity:
        raise UolError(f"{folder / CONFIG}: the members are of another panel")
    ensemble.other_panels = {
        other.panel.name: CalibratedPanel(other.panel, other.calibration, [Standard(*pair) for pair in other.degrees])
        for other in config.panels
    }
    for other in config.panels:
        known = all(other.panel.identity in {panel.identity for panel in member.panels} for member in members)
        if not known or len(other.degrees) != len(members):
            raise UolError(f"{folder / CONFIG}: not every member knows the panel {other.panel.name}")
    return ensemble


def check_member(folder: Path, name: str) -> None:
    """Refuse a member of an ensemble that is missing, or that a link takes out of the ensemble's folder."""
    member = member_folder(folder, name)
    if not member.is_dir():
        raise UolError(f"{folder / CONFIG}: names {name}, which is neither in {MEMBERS} nor a model that ships")
    if member.parent.name == MEMBERS and member.resolve() != (folder.resolve() / MEMBERS / name):
        raise UolError(f"{member}: a link that leaves the ensemble's folder; copy the model into it")


def load_scorer(name: str | os.PathLike[str]) -> Scorer:
    """Read the folder of one network with torch; an error names what is missing or damaged."""
    from uol.order.model import OrderModel
    from uol.scoring.scorer import Scorer

    folder = find_model(name)
    config = read_config(folder)
    if not (folder / MODEL).is_file():
        raise UolError(f"{folder}: not a whole model folder: {MODEL} is missing")
    check_digests(folder)
    _check_sizes(folder / MODEL, config.model)
    try:
        model = OrderModel(config.model)
    except CallError as error:
        raise UolError(f"{folder / CONFIG}: {error}") from error
    try:
        model.load_state_dict(_read_tensors(folder / MODEL))
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise UolError(f"{folder / MODEL}: does not fit the model in {CONFIG} ({reason})") from error
    references = Scorer.read_references(read_references(folder, config.model.dimensions))
    scorer = Scorer(model, references, config.panel, config.bradley_terry, config.calibration, config.scoring)
    scorer.other_panels = read_panels(folder, config.model.dimensions)
    return scorer


def _check_sizes(path: Path, config: ModelConfig) -> None:
    """Refuse weights that do not fit the settings before memory is taken for a network of these settings."""
    try:
        expected = _shapes(config.model_dump_json())
    except CallError as error:
        raise UolError(f"{path.parent / CONFIG}: {error}") from error
    stored = stored_shapes(path)
    for name in sorted(expected.keys() | stored.keys()):
        if stored.get(name) != expected.get(name):
            sizes = f"{name} is {stored.get(name, 'missing')}, not {expected.get(name, 'expected')}"
            raise UolError(f"{path}: does not fit the model in {CONFIG} ({sizes})")


@lru_cache(maxsize=16)
def _shapes(config: str) -> dict[str, list[int]]:
    """The shapes of a network's tensors, by its settings as JSON: an ensemble's members are often of one kind."""
    import torch

    from uol.order.config import ModelConfig
    from uol.order.model import OrderModel

    with torch.device("meta"):
        tensors = OrderModel(ModelConfig.model_validate_json(config)).state_dict()
    return {name: list(tensor.shape) for name, tensor in tensors.items()}


def _in_half(path: Path) -> bool:
    with safe_open(path, "np") as file:
        return any(file.get_slice(key).get_dtype() == "F16" for key in file.keys())  # noqa: SIM118


def _fits_half(tensor: torch.Tensor) -> bool:
    if not tensor.is_floating_point():
        return False
    return bool(tensor.half().isfinite().all() or not tensor.isfinite().all())


def _read_tensors(path: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise UolError(f"{path}: damaged; copy the model folder again ({error})") from error
