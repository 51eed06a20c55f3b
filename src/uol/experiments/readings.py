"""Another way of reading scores off a trained network, without training: the rule of maximum consistency."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from uol import provenance
from uol.consistency import estimate_by_consistency
from uol.errors import UolError
from uol.evaluation import predictions_table
from uol.experiments.derived import replicates_of, spread_of
from uol.experiments.elsewhere import evaluated, remove_evaluations
from uol.experiments.result import Provenance, Result, write_result
from uol.experiments.trial import MODEL, PREDICTIONS, RESULT, log
from uol.files import plain, write_text
from uol.methods.base import Predictions
from uol.model_folder import load_scorer
from uol.scale import Scale
from uol.training.batches import PackedImages

_AT_ONCE = 256  # images compared with all references


class Consistency:
    """A model's comparisons, each by its likeliest outcome, read by maximum consistency.

    It tells neither intervals nor dispersion. Its scores are what the rule gives: no line is fitted to them.
    """

    def __init__(self, model: Path, threshold: float) -> None:
        self._scorer = load_scorer(model)
        self._scorer.to("cuda" if torch.cuda.is_available() else "cpu")
        self.scale: Scale = self._scorer.panel.scale
        self._threshold = threshold * self.scale.unit

    def predict(self, pixels: Tensor, attributes: Tensor | None = None) -> Predictions:
        """Scores alone."""
        del attributes
        parts = [self._read(part) for part in torch.split(pixels, _AT_ONCE)]
        unknown = np.full(len(pixels), np.nan)
        return Predictions(np.concatenate(parts), unknown, unknown, unknown)

    def _read(self, pixels: Tensor) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        scorer = self._scorer
        outcomes = scorer.outcomes(scorer.embed_pixels(pixels)).argmax(-1)
        found = estimate_by_consistency(outcomes, scorer.references.scores, self._threshold, self.scale)
        return np.asarray(found, np.float64).reshape(-1)


def source(network: Result) -> str:
    """Which network was read, for the provenance of the reading."""
    return f"{network.file_name}, commit {network.provenance.commit}, {network.provenance.started}"


def read_again(
    network: Result,
    trained: Path,
    test: PackedImages,
    folder: Path,
    recipe: str,
    afterwards: Callable[[Consistency], None] | None = None,
) -> Result:
    """Read the network of a run folder by maximum consistency and keep the result in a folder of its own.

    What the folder has of another network goes first. `afterwards` is given the reading before its result is written,
    to test it on other data sets: a call that is stopped leaves no result, and the next one begins anew.
    """
    if not (trained / MODEL).is_dir():
        raise UolError(f"{trained}: its model folder is gone; nothing can be read off it")
    threshold = float(network.provenance.settings["threshold"])
    started, code = provenance.now(), provenance.commit()
    reading = Consistency(trained / MODEL, threshold)
    (folder / RESULT).unlink(missing_ok=True)
    remove_evaluations(folder)
    predictions = reading.predict(test.centre)
    table = predictions_table(test.rated, predictions)
    write_text(folder / PREDICTIONS, table.to_csv(index=False, float_format="%.6g"))
    if afterwards is not None:
        afterwards(reading)
    made = network.provenance
    result = Result.model_validate(
        plain(
            network.model_dump()
            | {
                "recipe": recipe,
                "metrics": evaluated(test.rated, predictions, threshold),
                "transfer": {},
                "makeup": None,
                "spread": spread_of(table, made.data.scale).model_dump(),
                "replicates": replicates_of(table, made.data.fingerprint, network.split).model_dump(),
                "provenance": Provenance.model_validate(
                    made.model_dump()
                    | {
                        **provenance.of_code(code),
                        "started": started,
                        "changes": {**made.changes, "scores": "maximum consistency", "network": source(network)},
                        "hardware": provenance.hardware(),
                        "seconds": None,
                        "seconds_per_epoch": None,
                    }
                ).model_dump(),
            }
        )
    )
    write_result(folder / RESULT, result)
    log(folder, f"{provenance.command()} (commit {code.id}): read off {source(network)}")
    return result
