"""OnnxScorer: an exported model computed by onnxruntime, without torch."""

from __future__ import annotations

import os
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from uol.errors import CallError, UolError
from uol.order.config import ModelConfig
from uol.scoring.base import BaseScorer, Comparison, Pixels, Score
from uol.scoring.config import COMPARE_GRAPH, SCORE_GRAPH, read_config
from uol.scoring.released import fingerprint

if TYPE_CHECKING:
    import onnxruntime
    import torch
    from torch import Tensor

    from uol.images.read import ImageLike, Images
    from uol.order.gaussians import Gaussians
    from uol.ratings.rated_images import RatedImages
    from uol.scoring.scorer import Scorer

SCORES = ("value", "low", "high", "dispersion", "standard_error")
GAUSSIAN = ("mean", "log_variance")
FINGERPRINT = "uol_fingerprint"  # the key in a graph's metadata of the model folder it was made for

_BATCH = 4  # images at a time: more are no faster, and each takes up to 120 MB in VGG16 with mirror images


class OnnxScorer(BaseScorer):
    """An exported model folder; `threads` 0: all cores.

    Scores and comparisons need no torch. Everything else loads the network of the same folder.
    """

    def __init__(self, folder: str | os.PathLike[str], threads: int = 0) -> None:
        self.folder = Path(folder)
        settings = read_config(self.folder)
        self._config = settings.model
        self.panel = settings.panel
        self.scoring = settings.scoring
        self.calibration = settings.calibration
        self._threads = threads
        self._score = _open_graph(self.folder / SCORE_GRAPH, threads)

    @property
    def config(self) -> ModelConfig:
        """The settings of the network."""
        return self._config

    def score_pixels(self, pixels: Pixels) -> list[Score]:
        """Score framed images: uint8 (N, 3, crop, crop)."""
        pixels = self._checked(pixels)
        parts = [pixels[start : start + _BATCH] for start in range(0, len(pixels), _BATCH)]
        columns = [self._score.run(SCORES, {"images": part}) for part in parts]
        return [Score(*map(float, row)) for part in columns for row in zip(*part, strict=True)]

    def compare_pixels(self, first: Pixels, second: Pixels) -> Comparison:
        """Compare two framed images, each (3, crop, crop)."""
        gaussians = self._score.run(GAUSSIAN, {"images": self._checked(np.stack([first, second]))})
        inputs = {
            f"{side}_{name}": values[row : row + 1]
            for row, side in enumerate(("first", "second"))
            for name, values in zip(GAUSSIAN, gaussians, strict=True)
        }
        (probabilities,) = self._compare.run(None, inputs)
        less, similar, greater = self.calibration.comparison(probabilities[0]).tolist()
        return Comparison(less, similar, greater)

    @cached_property
    def _network(self) -> Scorer:
        if find_spec("torch") is None:
            raise UolError(f"{self.folder}: only scores and comparisons work without torch: pip install torch timm")
        from uol.scoring.folder import load_scorer

        return load_scorer(self.folder)

    @property
    def members(self) -> list[Scorer]:
        """The network that the graphs were made from."""
        return [self._network]

    def embed(self, images: Images | ImageLike, batch_size: int = 32) -> Gaussians:
        """The Gaussians of images."""
        return self._network.embed(images, batch_size)

    def embed_pixels(self, pixels: Tensor) -> Gaussians:
        """The Gaussians of framed images: uint8 (N, 3, crop, crop)."""
        return self._network.embed_pixels(pixels)

    def score_embedded(self, embedded: Gaussians) -> list[Score]:
        """Score embedded images."""
        return self._network.score_embedded(embedded)

    def anchor_embedded(self, rated: RatedImages, embedded: Gaussians) -> Scorer:
        """Anchor, as `anchor` does, with embedded images."""
        return self._network.anchor_embedded(rated, embedded)

    def leave_one_out(self) -> list[Score]:
        """Score each reference by comparison with all others: the quality of the scale."""
        return self._network.leave_one_out()

    def save_pretrained(self, folder: str | os.PathLike[str], half: bool = False) -> None:
        """Write a model folder, without the graphs."""
        self._network.save_pretrained(folder, half)

    def to(self, device: str | torch.device) -> Self:
        """Stay on the processor; other devices are refused."""
        if str(device) != "cpu":
            raise CallError(f"{device}: ONNX graphs run on the processor; open the model with --runtime torch")
        return self

    @cached_property
    def _compare(self) -> onnxruntime.InferenceSession:
        return _open_graph(self.folder / COMPARE_GRAPH, self._threads)

    def _checked(self, pixels: Pixels) -> Pixels:
        shape = (3, self.config.crop, self.config.crop)
        if pixels.dtype != np.uint8 or pixels.shape[1:] != shape:
            raise CallError(f"framed images must be uint8 (N, {', '.join(map(str, shape))}); got {pixels.shape}")
        return pixels


def _open_graph(path: Path, threads: int) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise UolError("onnxruntime is not installed: pip install 'uol[onnx]'") from error

    remedy = "uol export MODEL --out FOLDER writes it"
    if not path.is_file():
        raise UolError(f"{path}: no such graph; {remedy}")
    if fingerprint(path.parent).encode() not in path.read_bytes():  # before it is opened: it may not even fit
        raise UolError(f"{path}: damaged, or made for other settings, references or weights; {remedy}")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # failures are raised below
    options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common class
        raise UolError(f"{path}: damaged, or made for other settings, references or weights; {remedy}") from error
