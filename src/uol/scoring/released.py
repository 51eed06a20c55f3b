"""Models that ship with the package, by name, and opening a model."""

from __future__ import annotations

import hashlib
import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from uol.errors import CallError, MissingTorchError, UolError, counted
from uol.storage.validation import read_object

if TYPE_CHECKING:
    from uol.scoring.base import BaseScorer, Interval

Runtime: TypeAlias = Literal["auto", "torch", "onnx"]
Device: TypeAlias = Literal["auto", "cpu", "cuda"]

ALL_PANELS = "all"  # in place of the name of a panel
WEIGHTS = "model.safetensors"
CARD = "README.md"

_FOLDER = Path(__file__).parents[1] / "released_models"
DEFAULT = "uol-fast"


def names() -> list[str]:
    """The models that ship, the default first."""
    found = sorted(path.parent.name for path in _FOLDER.glob("*/config.json"))
    return sorted(found, key=lambda name: name != DEFAULT)


def find_model(name: str | os.PathLike[str]) -> Path:
    """The folder of a model: one that ships, by name; any folder, by path; or one of the Hub, by address (hf://…).

    Only an address goes to the network.
    """
    if not isinstance(name, str | os.PathLike):
        raise CallError(f"a model is a name or a folder, not {type(name).__name__}")
    if not str(name):
        raise CallError("the name of the model is empty; name one that ships, or a folder")
    if str(name).startswith("hf://"):
        from uol.scoring.hub import fetch_model

        return fetch_model(str(name))
    if ships(name):
        return _FOLDER / str(name)
    folder = Path(name)
    if folder.is_dir():
        inside = folder / "model"  # of a run folder
        if (folder / "config.json").is_file():
            return folder
        if not (inside / "config.json").is_file() and (folder / "recipe.yaml").is_file():
            raise no_model(folder)
        if (inside / "config.json").is_file():
            return inside
        if runs := sorted(config.parents[1] for config in folder.glob("*/model/config.json")):
            raise CallError(f"{folder}: a folder of {counted(len(runs), 'run')}; name one of them, such as {runs[0]}")
        return folder
    shipped = f"those that ship: {', '.join(names())}" if names() else "none ships with this version"
    raise CallError(f"{name}: no such model folder, nor a model that ships ({shipped}); uol train makes one")


def ships(name: str | os.PathLike[str]) -> bool:
    """Whether this is the name of a model that ships."""
    return str(name) in names()


def read_card(folder: Path) -> str:
    """The card of a model folder; empty if it has none that can be read."""
    try:
        return (folder / CARD).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def no_model(run: str | os.PathLike[str]) -> CallError:
    """The error of a run folder without a model folder."""
    return CallError(f"{run}: a run without a model folder: it has not finished, or its method makes none")


def fingerprint(folder: Path) -> str:
    """A digest that changes with a model's settings, references or weights (of these, their names, shapes and size)."""
    digest = hashlib.sha256()
    for name in ("config.json", "references.safetensors"):
        digest.update((folder / name).read_bytes() if (folder / name).is_file() else b"")
    _add_weights(digest, folder / WEIGHTS)
    for member in member_folders(folder):
        digest.update(fingerprint(member).encode())
    return digest.hexdigest()


def network_fingerprint(folder: Path) -> str:
    """A digest that changes with the settings and weights that Gaussians depend on, whatever the references."""
    config = read_object(folder / "config.json")
    digest = hashlib.sha256(json.dumps([config["model"], config["scoring"]], sort_keys=True).encode())
    _add_weights(digest, folder / WEIGHTS)
    return digest.hexdigest()


def _add_weights(digest: hashlib._Hash, weights: Path) -> None:
    if weights.is_file():
        digest.update(str(weights.stat().st_size).encode())
        with open(weights, "rb") as file:
            digest.update(file.read(65536))


def member_folders(folder: Path) -> list[Path]:
    """The folders of an ensemble's networks; none for a model of one."""
    try:
        members = read_object(folder / "config.json")["members"]
        return [member_folder(folder, Path(member["name"]).name) for member in members]
    except (UolError, ValueError, TypeError, KeyError):
        return []


def member_folder(folder: Path, name: str) -> Path:
    """The folder of one of an ensemble's networks: inside the ensemble's, or that of a model that ships."""
    inside = folder / "members" / name
    return _FOLDER / name if name in names() and not inside.is_dir() else inside


def find_teacher(name: str) -> Path:
    """The model folder of a teacher as an absolute path, which cannot be mistaken for the name of a shipped model."""
    return find_model(name).absolute()


def weights_digest(folder: Path) -> str:
    """The SHA-256 of a model folder's file of weights; of an ensemble, the SHA-256 of its members' digests."""
    members = member_folders(folder)
    if members:
        return hashlib.sha256(" ".join(map(weights_digest, members)).encode()).hexdigest()
    try:
        with open(folder / WEIGHTS, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CallError(f"{folder}: no model folder: {WEIGHTS} cannot be read") from error


def open_model(
    name: str | os.PathLike[str],
    runtime: Runtime = "auto",
    device: Device = "auto",
    panel: str | None = None,
    interval: Interval = "panel",
    wait: bool = True,
    threads: int = 0,
) -> BaseScorer:
    """Open a model with torch or onnxruntime, on the scale of a panel that it knows, by default its first.

    Intervals are for the mean of that panel, or for that of a panel that nobody has seen.

    By default, a model folder with a graph is opened by onnxruntime, which starts in a fraction of the time that torch
    takes, unless there is a GPU and `device` allows it. Graphs always run on the processor. Without `wait`, a graph may
    still be opening when this returns, and an error in it is raised when it is first needed. A model
    on the processor computes with `threads`, 0: all cores.

    >>> open_model("uol-fast-scut5500", runtime="onnx").panel.scale
    Scale(low=1.0, high=5.0)
    """
    if runtime not in get_args(Runtime):
        raise CallError(f"runtime must be auto, torch or onnx, not {runtime!r}")
    if device not in get_args(Device):
        raise CallError(f"device must be auto, cpu or cuda, not {device!r}")
    folder = find_model(name)
    scorer = _open(folder, runtime, device, wait, threads)
    scorer.former_card = read_card(folder)
    scorer = scorer if panel is None else scorer.on_panel(panel)
    if interval not in ("panel", "new-panel"):
        raise CallError(f"interval must be panel or new-panel, not {interval!r}")
    return scorer.for_new_panel() if interval == "new-panel" else scorer


def _open(folder: Path, runtime: Runtime, device: Device, wait: bool, threads: int) -> BaseScorer:
    from uol.scoring.config import SCORE_GRAPH, is_ensemble, read_panel

    if runtime == "auto":
        ready = (folder / SCORE_GRAPH).is_file() and find_spec("onnxruntime") is not None
        on_processor = device == "cpu" or (device == "auto" and not _has_gpu())
        runtime = "onnx" if ready and on_processor else "torch"
    if runtime == "onnx":
        if device == "cuda":
            raise CallError("a GPU is used by torch alone: --device cuda needs --runtime torch")
        if is_ensemble(folder):
            raise CallError(f"{folder}: an ensemble of several networks has no graphs: open it with --runtime torch")
        from uol.scoring.onnx import OnnxScorer

        return OnnxScorer(folder, threads, wait)
    if find_spec("torch") is None:
        read_panel(folder)  # a folder that is no model does not need torch
        exportable = not (folder / SCORE_GRAPH).is_file() and not is_ensemble(folder)
        instead = "; or add ONNX graphs to it with uol export, where torch is installed" if exportable else ""
        raise MissingTorchError(str(folder), instead=instead)
    from uol.scoring.folder import load_model

    if threads:
        import torch

        torch.set_num_threads(threads)
    return load_model(folder).to(choose_device(device))


def choose_device(device: Device = "auto") -> str:
    """The device for torch: the one named, or a GPU if there is one."""
    import torch

    there = torch.cuda.is_available()
    if device == "cuda" and not there:
        raise CallError("--device cuda: torch finds no GPU here")
    return "cuda" if there and device != "cpu" else "cpu"


def _has_gpu() -> bool:
    """Whether there is a GPU that torch could use, found without importing torch."""
    return Path("/dev/nvidia0").exists() and find_spec("torch") is not None
