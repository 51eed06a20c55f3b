"""OnnxScorer: an exported network computed by onnxruntime, without torch.

The graph gives the Gaussians of images, and their scores by comparison with the references that it was made for. The
comparator is computed here, on arrays, for comparisons and for other references.
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from uol.errors import CallError, UolError
from uol.order.config import BradleyTerry, ModelConfig, ScoringConfig
from uol.order.references import ReferenceSet
from uol.scoring.base import Pixels, Score
from uol.scoring.config import MODEL, SCORE_GRAPH, PanelConfig, read_config
from uol.scoring.digests import check_digests
from uol.scoring.network import Floats, NetworkScorer
from uol.scoring.onnx_graph import external_files
from uol.scoring.panels import HEAD, REFERENCES, PanelParts, StoredReferences, read_panels, read_references
from uol.scoring.released import fingerprint, network_fingerprint

if TYPE_CHECKING:
    import torch

    from uol.order.calibration import Calibration

Singles = npt.NDArray[np.float32]

SCORES = ("value", "low", "high", "dispersion", "standard_error")
GAUSSIAN = ("mean", "log_variance")
FINGERPRINT = "uol_fingerprint"  # the key in a graph's metadata of the model folder it was made for

_BATCH = 2  # images at a time: more are slower, and each takes up to 120 MB in VGG16 with mirror images


class GaussianArrays(NamedTuple):
    """N Gaussians with diagonal covariance: mean μ and log-variance log diag Σ, each (N, D)."""

    mean: Singles
    log_variance: Singles

    def rows(self, index: Any) -> GaussianArrays:
        """The Gaussians at some rows."""
        return GaussianArrays(self.mean[index], self.log_variance[index])

    @classmethod
    def joined(cls, parts: Sequence[GaussianArrays]) -> GaussianArrays:
        """The Gaussians of several parts, one after another."""
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class ComparatorArrays:
    """`uol.order.model.Comparator` on arrays, from a model folder's weights."""

    def __init__(self, weights: Mapping[str, Singles]) -> None:
        first, dimensions = weights["first.weight"], weights["first.weight"].shape[1] // 2
        self._left, self._right = first[:, :dimensions].T.copy(), first[:, dimensions:].T.copy()
        self._bias = weights["first.bias"]
        self._second = weights["second.weight"].T.copy(), weights["second.bias"]
        self._third = weights["third.weight"].T.copy(), weights["third.bias"]

    def halves(self, points: Singles) -> tuple[Singles, Singles]:
        """Both halves of the first layer: (N, D) → (N, H), (N, H)."""
        return points @ self._left + self._bias, points @ self._right

    def against(self, points: Singles, references: tuple[Singles, Singles], both_directions: bool) -> Singles:
        """Logits of each image against each reference, of which the halves are given: (N, D) → (N, R, 3)."""
        left, right = self.halves(points)
        reference_left, reference_right = references
        logits = np.empty((len(points), len(reference_left), 3), np.float32)
        for row in range(len(points)):  # one at a time: its hidden rows stay in the processor's cache
            logits[row] = self._judge(left[row] + reference_right)
            if both_directions:
                logits[row] = (logits[row] + self._judge(reference_left + right[row])[:, ::-1]) / 2
        return logits

    def _judge(self, hidden: Singles) -> Singles:
        for weight, bias in (self._second, self._third):
            hidden = np.maximum(hidden, 0, out=hidden) @ weight
            hidden += bias
        return hidden


class OnnxScorer(NetworkScorer[GaussianArrays]):
    """One network of an exported model folder, computed by onnxruntime and numpy; `threads` 0: all cores.

    Without `wait`, the graph is opened by another thread, and an error in it is raised when it is first needed.
    """

    def __init__(self, folder: str | os.PathLike[str], threads: int = 0, wait: bool = True) -> None:
        self.folder = Path(folder)
        settings = read_config(self.folder)
        check_digests(self.folder)
        self._config = settings.model
        self.panel = settings.panel
        self.scoring = settings.scoring
        self.calibration: Calibration = settings.calibration
        self.bradley_terry = settings.bradley_terry
        self.tensors: Mapping[str, npt.NDArray[Any]] = {}  # in place of those in the folder
        self._threads = threads
        self._opened: Future[Any] = Future()
        opening = threading.Thread(target=_open_later, args=(self._opened, self.folder / SCORE_GRAPH, threads))
        opening.start()
        self._uses_graph_scores = True  # if it has them
        if wait:
            opening.join()
            self._opened.result()

    @property
    def config(self) -> ModelConfig:
        """The settings of the network."""
        return self._config

    @property
    def _graph(self) -> Any:
        return self._opened.result()

    @property
    def _graph_scores(self) -> bool:
        return self._uses_graph_scores and "value" in [output.name for output in self._graph.get_outputs()]

    @cached_property
    def references(self) -> ReferenceSet[GaussianArrays]:  # type: ignore[override]
        """The references of the folder."""
        return self.read_references(read_references(self.folder, self.config.dimensions))

    @cached_property
    def other_panels(self) -> Mapping[str, PanelParts]:  # type: ignore[override]
        """The panels of the folder after the first."""
        return read_panels(self.folder, self.config.dimensions)

    @staticmethod
    def read_references(stored: StoredReferences) -> ReferenceSet[GaussianArrays]:
        """References from a model folder."""
        return ReferenceSet(GaussianArrays(stored.mean, stored.log_variance), stored.score)

    def stored_references(self) -> StoredReferences:
        """References for a model folder."""
        return StoredReferences(*self.references.gaussians, self.references.scores)

    def score_pixels(self, pixels: Pixels) -> list[Score]:
        """Score framed images: uint8 (N, 3, crop, crop)."""
        if not self._graph_scores:
            return self.score_exactly(pixels) if len(pixels) else []
        return [Score(*map(float, row)) for part in self._run(SCORES, pixels) for row in zip(*part, strict=True)]

    def embed_pixels(self, pixels: Pixels) -> GaussianArrays:
        """The Gaussians of framed images: uint8 (N, 3, crop, crop)."""
        return GaussianArrays.joined([GaussianArrays(*part) for part in self._run(GAUSSIAN, pixels)])

    def outcomes(self, gaussians: GaussianArrays, references: GaussianArrays | None = None) -> Floats:
        """Probabilities of less, similar and greater for each image against each reference: (N, R, 3)."""
        halves = self._halves if references is None else self._comparator.halves(references.mean)
        logits = self._comparator.against(gaussians.mean, halves, self.scoring.both_directions)
        return _softmax(logits)

    def level_means(self, gaussians: GaussianArrays) -> Floats:
        """The means of the panel's histograms, (N,)."""
        head, used = self._weights(HEAD), self.levels_used
        spaced = np.linspace(*self.panel.scale, used)
        logits = gaussians.mean @ head["weight"].T + head["bias"]
        means: Floats = (_softmax(logits[:, :used]) * spaced).sum(-1)
        return means

    @staticmethod
    def degrees(gaussians: GaussianArrays) -> Floats:
        """Predicted degrees of dispersion, uncalibrated: (N,); as `uol.order.gaussians.dispersion_degree`."""
        return np.asarray(np.exp(0.5 * np.logaddexp.reduce(gaussians.log_variance.astype(np.float64), -1)))

    def with_references(
        self, references: ReferenceSet[GaussianArrays], panel: PanelConfig, scoring: ScoringConfig
    ) -> Self:
        """The same network with other references; k, δ and the calibration are not fitted."""
        made = copy.copy(self)
        for cached in ("_halves", "_on_other_panels"):
            made.__dict__.pop(cached, None)
        made.__dict__ |= {"references": references, "other_panels": {}}
        made.panel, made.scoring, made.bradley_terry = panel, scoring, BradleyTerry(1.0, 1.0)
        made._uses_graph_scores = False  # its scores are by comparison with the former references
        return made

    def with_tensors(self, tensors: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The same network with some of its tensors replaced."""
        made = copy.copy(self)
        made.tensors = {**self.tensors, **tensors}
        inside = {name: array for name, array in made.tensors.items() if not name.startswith(HEAD)}
        if inside:
            made._opened = Future()
            made._opened.set_result(open_graph(self.folder / SCORE_GRAPH, self._threads, inside))
        made._uses_graph_scores = False
        return made

    def for_new_panel(self) -> Self:
        """The same model with intervals for the mean of a panel that nobody has seen, on this model's scales."""
        made = super().for_new_panel()
        made._uses_graph_scores = False  # its intervals are for the panel
        return made

    def save_pretrained(self, folder: str | os.PathLike[str], half: bool = False) -> None:
        """Write a model folder with a graph of Gaussians alone; weights are copied as stored, for which `half` is."""
        from uol.scoring.folder import save_exported

        save_exported(self, folder, half)

    def to(self, device: str | torch.device) -> Self:
        """Stay on the processor; other devices are refused."""
        if str(device) != "cpu":
            raise CallError(f"{device}: ONNX graphs run on the processor; open the model with --runtime torch")
        return self

    @cached_property
    def _comparator(self) -> ComparatorArrays:
        return ComparatorArrays(self._weights("comparator."))

    @cached_property
    def _halves(self) -> tuple[Singles, Singles]:
        return self._comparator.halves(self.references.gaussians.mean)

    def _weights(self, prefix: str) -> dict[str, Singles]:
        from uol.storage.tensors import read_arrays

        stored = read_arrays(self.folder / MODEL, prefix)
        stored |= {name: array for name, array in self.tensors.items() if name.startswith(prefix)}
        return {name.removeprefix(prefix): weight.astype(np.float32) for name, weight in stored.items()}

    def _run(self, outputs: Sequence[str], pixels: Pixels) -> list[list[npt.NDArray[Any]]]:
        """The graph's outputs for a few images at a time, without what they do not need."""
        import onnxruntime

        shape = (3, self.config.crop, self.config.crop)
        pixels = np.asarray(pixels)
        if pixels.dtype != np.uint8 or pixels.shape[1:] != shape:
            raise CallError(f"framed images must be uint8 (N, {', '.join(map(str, shape))}); got {pixels.shape}")
        options = onnxruntime.RunOptions()
        options.only_execute_path_to_fetches = True
        parts = [pixels[start : start + _BATCH] for start in range(0, len(pixels), _BATCH)]
        return [self._graph.run(outputs, {"images": part}, options) for part in parts]


def _open_later(opened: Future[Any], path: Path, threads: int) -> None:
    """Open a graph for those who wait for it."""
    try:
        opened.set_result(open_graph(path, threads))
    except BaseException as error:
        opened.set_exception(error)


def _softmax(logits: npt.NDArray[np.floating[Any]]) -> Floats:
    powers = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def open_graph(path: Path, threads: int = 0, tensors: Mapping[str, npt.NDArray[Any]] = MappingProxyType({})) -> Any:
    """Open a graph of a model folder, with some of the network's tensors replaced.

    A graph that was made for another model is refused.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise UolError("onnxruntime is not installed: pip install onnxruntime") from error

    remedy = "uol export MODEL --out FOLDER writes it"
    if not path.is_file():
        raise UolError(f"{path}: no such graph; {remedy}")
    damaged = f"{path}: damaged, or made for other settings, references or weights; {remedy}"
    content = path.read_bytes()  # before it is opened: it may not even fit
    if fingerprint(path.parent).encode() not in content and network_fingerprint(path.parent).encode() not in content:
        raise UolError(damaged)
    try:
        strange = external_files(content) - {MODEL, REFERENCES}
    except ValueError as error:
        raise UolError(damaged) from error
    if strange:
        raise UolError(
            f"{path}: reads weights from {min(strange)[:100]!r}, which is no file of a model folder; {remedy}"
        )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # failures are raised below
    options.intra_op_num_threads = threads
    for threads_of in ("intra_op", "inter_op"):  # a thread that spins while it waits takes the time of other processes
        options.add_session_config_entry(f"session.{threads_of}.allow_spinning", "0")
    if tensors:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array)) for array in tensors.values()]
        options.add_external_initializers([f"model.{name}" for name in tensors], values)
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common class
        raise UolError(damaged) from error
