"""The panels of a model folder: what scores on the scale of each depend on, without copies of the network's weights.

The folder's config.json and references.safetensors are those of its first panel. Each of the others has a folder:

MODEL/panels/NAME/config.json, references.safetensors
MODEL/panels/NAME/network.safetensors     tensors that are not those of the first panel: statistics of batch norms, and
                                          the head that predicts the panel's histograms
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import uol
from uol.errors import UolError
from uol.order.calibration import Calibration
from uol.order.config import BradleyTerry, ModelConfig, ScoringConfig
from uol.scoring.config import CONFIG, FORMAT, FolderConfig, PanelConfig, PanelFolderConfig, read_panel_config
from uol.storage.files import write_json
from uol.storage.tensors import read_arrays, write_arrays

PANELS, REFERENCES, NETWORK = "panels", "references.safetensors", "network.safetensors"
HEAD = "levels."  # begins the names of tensors that predict histograms; Gaussians do not depend on them


class StoredReferences(NamedTuple):
    """The references of a panel: means and log-variances (R, D), and scores (R,)."""

    mean: npt.NDArray[np.float32]
    log_variance: npt.NDArray[np.float32]
    score: npt.NDArray[np.float64]


class PanelParts(NamedTuple):
    """All that makes one network score on the scale of one panel; `tensors` replace those of the network."""

    panel: PanelConfig
    bradley_terry: BradleyTerry
    scoring: ScoringConfig
    calibration: Calibration
    references: StoredReferences
    tensors: Mapping[str, npt.NDArray[Any]]

    @property
    def embeds_alike(self) -> bool:
        """Whether the Gaussians of images are those of the network as it is."""
        return all(name.startswith(HEAD) for name in self.tensors)


def levels_used(model: ModelConfig, panel: PanelConfig, scoring: ScoringConfig) -> int:
    """How many rating levels the histograms have that are part of a panel's scores; 0 if none are."""
    if scoring.histogram_share == 0:
        return 0
    return model.levels if panel.levels is None else min(panel.levels, model.levels)


def panel_names(folder: Path) -> list[str]:
    """The names of a model folder's panels after the first."""
    return sorted(path.parent.name for path in (folder / PANELS).glob(f"*/{CONFIG}"))


def read_panels(folder: Path, dimensions: int) -> dict[str, PanelParts]:
    """The panels of a model folder after the first, by name; an error names what is missing or damaged."""
    return {name: _read_panel(folder / PANELS / name, dimensions) for name in panel_names(folder)}


def _read_panel(folder: Path, dimensions: int) -> PanelParts:
    config = read_panel_config(folder)
    if config.panel.name != folder.name:
        raise UolError(f"{folder / CONFIG}: damaged: it is of the panel {config.panel.name}")
    tensors = read_arrays(folder / NETWORK) if (folder / NETWORK).is_file() else {}
    references = read_references(folder, dimensions)
    return PanelParts(config.panel, config.bradley_terry, config.scoring, config.calibration, references, tensors)


def write_panel(folder: Path, parts: PanelParts, half: bool, model: ModelConfig | None = None) -> None:
    """Write settings, references and tensors of a panel; those of the first panel have the network's `model`.

    `half` stores references in 16 bits if they stay finite.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings: dict[str, Any] = {"format": FORMAT, "uol": uol.__version__, **parts._asdict()}
    del settings["references"], settings["tensors"]
    config = PanelFolderConfig(**settings) if model is None else FolderConfig(**settings, model=model)
    write_json(folder / CONFIG, config.model_dump() | {"bradley_terry": parts.bradley_terry._asdict()})
    _write_references(folder, parts.references, half)
    if parts.tensors:
        write_arrays(folder / NETWORK, parts.tensors)


def read_references(folder: Path, dimensions: int) -> StoredReferences:
    """The references of a panel; an error names what is missing or damaged."""
    path = folder / REFERENCES
    if not path.is_file():
        raise UolError(f"{folder}: not a whole model folder: {REFERENCES} is missing")
    arrays = read_arrays(path)
    missing = set(StoredReferences._fields) - set(arrays)
    if missing:
        raise UolError(f"{path}: damaged: {', '.join(sorted(missing))} missing")
    mean, log_variance = (arrays[key].astype(np.float32) for key in ("mean", "log_variance"))
    scores = arrays["score"].astype(np.float64)
    fits = mean.shape == log_variance.shape == (len(scores), dimensions)
    known = np.isfinite(mean).all() and np.isfinite(scores).all() and (log_variance < np.inf).all()  # points have −∞
    if not (fits and known):
        raise UolError(f"{path}: damaged: references do not fit a space of {dimensions} dimensions")
    return StoredReferences(mean, log_variance, scores)


def _write_references(folder: Path, references: StoredReferences, half: bool) -> None:
    """Write references; `half` stores means and log-variances in 16 bits if they stay finite."""
    columns: dict[str, npt.NDArray[Any]] = references._asdict()
    for name in ("mean", "log_variance"):
        with np.errstate(over="ignore"):
            short = columns[name].astype(np.float16)
        if half and (np.isfinite(short).all() or not np.isfinite(columns[name]).all()):
            columns[name] = short
    write_arrays(folder / REFERENCES, columns)
