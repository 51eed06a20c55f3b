"""OnnxScorer: an exported model asked through onnxruntime, without torch."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uol.errors import CallError, UolError
from uol.order.config import ModelConfig
from uol.scoring.base import AskedWithImages, Pixels
from uol.scoring.config import COMPARE_GRAPH, SCORE_GRAPH, read_config
from uol.scoring.released import fingerprint
from uol.scoring.scores import Comparison, Score

if TYPE_CHECKING:
    import onnxruntime

SCORES = ("value", "low", "high", "dispersion", "standard_error")
GAUSSIAN = ("mean", "log_variance")
FINGERPRINT = "uol_fingerprint"  # what a graph's metadata call the model folder it was made for

_BATCH = 4  # images at a time: more are no faster, and each takes up to 120 MB in VGG16 with mirror images


class OnnxScorer(AskedWithImages):
    """An exported model folder, asked for scores, comparisons and rankings as a `Scorer` is; `threads` 0: all cores."""

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
        """What the model is made of."""
        return self._config

    def score_pixels(self, pixels: Pixels) -> list[Score]:
        """Scores of images already framed: uint8 (N, 3, crop, crop)."""
        pixels = self._checked(pixels)
        parts = [pixels[start : start + _BATCH] for start in range(0, len(pixels), _BATCH)]
        columns = [self._score.run(SCORES, {"images": part}) for part in parts]
        return [Score(*map(float, row)) for part in columns for row in zip(*part, strict=True)]

    def compare_pixels(self, first: Pixels, second: Pixels) -> Comparison:
        """How one framed image (3, crop, crop) stands to another."""
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

    remedy = "uol export MODEL --out FOLDER makes it"
    if not path.is_file():
        raise UolError(f"{path}: no such graph; {remedy}")
    if fingerprint(path.parent).encode() not in path.read_bytes():  # before it is opened: it may not even fit
        raise UolError(f"{path}: damaged, or made for other settings, references or weights; {remedy}")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what fails is raised, and told below
    options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common kind of their own
        raise UolError(f"{path}: damaged, or made for other settings, references or weights; {remedy}") from error
