"""Other ways of reading scores off a trained network, without training: another rule, or other scoring settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uol.errors import UolError
from uol.methods.uol import make_scorer
from uol.order.consistency import estimate_by_consistency
from uol.order.gaussians import Gaussians
from uol.order.references import choose_balanced_references
from uol.ratings.scale import Scale
from uol.runs.evaluation import figures_of, predictions_table
from uol.runs.folder import RunFolder
from uol.runs.held_out import keep_held_out
from uol.runs.predictions import spread_of, tested_parts
from uol.runs.result import Provenance, Result
from uol.runs.run import hold_out
from uol.runs.transfer import Predictor
from uol.scoring.folder import load_scorer
from uol.scoring.scorer import Scorer
from uol.storage import provenance
from uol.storage.files import plain
from uol.training.packed import PackedImages
from uol.training.predictions import Predictions
from uol.training.recipe import Recipe

_AT_ONCE = 256  # images compared with all references


class Consistency:
    """A model's comparisons, each by its likeliest outcome, read by maximum consistency.

    It has neither intervals nor dispersion. Its scores are what the rule gives: no line is fitted to them. The
    references are the model's own or, with `balanced` training images, a balanced choice of those that trained.
    """

    def __init__(self, trained: RunFolder, recipe: Recipe, balanced: PackedImages | None = None) -> None:
        self._scorer = _load(trained)
        self.scale: Scale = self._scorer.panel.scale
        self._threshold = recipe.threshold * self.scale.unit
        self._scores = self._scorer.references.scores
        self._gaussians: Gaussians | None = None
        if balanced is not None:
            kept, _ = hold_out(balanced, recipe)
            width = recipe.bin_width * self.scale.unit
            rows = choose_balanced_references(kept.rated.scores, width, recipe.references_per_bin, recipe.seed)
            self._scores = kept.rated.scores[rows]
            self._gaussians = self._scorer.embed_pixels(kept.subset(rows).centre)

    def predict(self, pixels: Tensor, attributes: Tensor | None = None) -> Predictions:
        """Scores alone."""
        del attributes
        parts = [self._read(part) for part in torch.split(pixels, _AT_ONCE)]
        unknown = np.full(len(pixels), np.nan)
        return Predictions(np.concatenate(parts), unknown, unknown, unknown)

    def _read(self, pixels: Tensor) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        scorer = self._scorer
        outcomes = scorer.outcomes(scorer.embed_pixels(pixels), self._gaussians).argmax(-1)
        found = estimate_by_consistency(outcomes, self._scores, self._threshold, self.scale)
        return np.asarray(found, np.float64).reshape(-1)


class Rescored:
    """A model with a scorer made again by other settings: how it is asked or shown images, or its references.

    References are chosen, k and δ fitted and everything calibrated as after training, on the same images (those of
    `training` that trained, and those that were held out), so that its figures can be compared with the network's.
    """

    def __init__(self, trained: RunFolder, recipe: Recipe, training: PackedImages) -> None:
        model = _load(trained).model
        shown = {"framing": recipe.model.framing}
        model.config = model.config.model_copy(update=shown)  # maybe unlike the images it learnt from
        self.scorer = make_scorer(model, recipe, *hold_out(training, recipe))
        self.scale: Scale = self.scorer.panel.scale

    def predict(self, pixels: Tensor, attributes: Tensor | None = None) -> Predictions:
        """Scores with intervals."""
        del attributes
        return Predictions.of(self.scorer.score_exactly(pixels))


def read_again(
    network: Result,
    reading: Predictor,
    training: PackedImages,
    test: PackedImages,
    recipe: Recipe,
    folder: RunFolder,
    name: str,
    changes: Mapping[str, Any],
    pixels: str,
    afterwards: Callable[[Predictor], None] | None = None,
) -> Result:
    """Test a reading of a network and keep the result in a separate folder.

    `name` is that of its recipe, `changes` are what differs from the network's own reading, and `pixels` is the
    checksum of the images as they are shown for it. What the folder has of another network goes first. `afterwards` is
    given the reading before its result is written, to test it on other data sets: a call that is stopped leaves no
    result, and the next one starts again.
    """
    started, code = provenance.now(), provenance.commit()
    folder.result.unlink(missing_ok=True)
    folder.remove_evaluations()
    table = predictions_table(test.rated, reading.predict(test.centre))
    folder.write_predictions(table)
    keep_held_out(reading.predict, training, recipe, folder)
    if isinstance(reading, Rescored):
        reading.scorer.save_pretrained(folder.model)
    if afterwards is not None:
        afterwards(reading)
    made = network.provenance
    result = Result.model_validate(
        plain(
            network.model_dump()
            | {
                "recipe": name,
                "metrics": figures_of(table, recipe.threshold * test.rated.scale.unit),
                "transfer": {},
                "makeup": None,
                "groups": None,
                "spread": spread_of(table, made.data.scale).model_dump(),
                **tested_parts(table, made.data.fingerprint, network.split),
                "provenance": Provenance.model_validate(
                    made.model_dump()
                    | {
                        **provenance.of_code(code),
                        "started": started,
                        "settings": recipe.model_dump(mode="json"),
                        "data": made.data.model_copy(update={"pixels": pixels}),
                        "changes": {**made.changes, **changes, "network": network.source},
                        "hardware": provenance.hardware(),
                        "seconds": None,
                        "seconds_per_epoch": None,
                    }
                ).model_dump(),
            }
        )
    )
    folder.write_result(result)
    folder.log(f"{provenance.command()} (commit {code.id}): read off {network.source}")
    return result


def _load(trained: RunFolder) -> Scorer:
    if not trained.model.is_dir():
        raise UolError(f"{trained}: its model folder is gone; nothing can be read off it")
    return load_scorer(trained.model).to("cuda" if torch.cuda.is_available() else "cpu")
