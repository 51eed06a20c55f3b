"""UOL: Gaussians in the psychological space, compared by Monte Carlo sampling, constrained by the raters' spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uol.errors import CallError, UolError
from uol.order.calibration import ENOUGH_FOR_LINE
from uol.order.gaussians import Gaussians, sample
from uol.order.losses import (
    dispersion_divergence,
    histogram_cross_entropy,
    order_cross_entropy,
    ordinal_hinge,
    uol_loss,
)
from uol.order.model import OrderModel
from uol.order.norms import with_statistics
from uol.order.references import choose_references
from uol.ratings.scale import Scale
from uol.scoring.config import PanelConfig
from uol.scoring.scorer import Scorer
from uol.training.batches import Batch
from uol.training.method import Method
from uol.training.packed import PackedImages
from uol.training.panels import rating_levels
from uol.training.predictions import Predictions
from uol.training.recipe import Recipe
from uol.training.teachers import Teachers

_NEVER = -1e4  # the logit of a rating level that a panel does not have; of −∞ the loss would be no number


class Uol(Method):
    """An `OrderModel` trained with all three losses; predictions come from a `Scorer`.

    Several panels share the model; each has separate units in the helpers, and a separate `Scorer`.
    """

    takes_panels = True
    takes_teachers = True
    uses_histogram = True

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0, panels: int = 1) -> None:
        super().__init__(recipe, scale, levels, panels)
        self.model = OrderModel(recipe.model, self.pretrained, recipe.comparator_start == "differences")
        self.prepare(self.model.backbone)
        self.score_head = nn.Linear(self.model.width, panels) if recipe.score_weight else None
        _check_levels(recipe.model.levels, levels)
        units = panels * levels if recipe.histogram_weight and not recipe.model.levels else 0
        self.histogram_head = nn.Linear(self.model.width, units) if units else None
        if self.score_head is not None:
            nn.init.constant_(self.score_head.bias, (scale.low + scale.high) / 2 / scale.unit)
        self._teachers = Teachers.load(recipe.teachers, recipe.model) if recipe.teachers else None
        if self._teachers is not None and recipe.start == "teacher":
            self._teachers.start_pupil(self.model)
        self._scorers: list[Scorer] = []
        heads = [nn.Linear(recipe.model.dimensions, levels) for _ in range(panels - 1)] if recipe.model.levels else []
        self.other_levels = nn.ModuleList(heads)  # of the panels after the first, whose head is in the model
        self.level_there: Tensor
        self.register_buffer("level_there", torch.ones(panels, levels, dtype=torch.bool), persistent=False)

    def prepare_for(self, training: PackedImages) -> None:
        """Note how many rating levels each panel has, and let the teachers teach the panels that they know."""
        counts = [rating_levels(panel) for panel in training.panels]
        self.level_there = torch.arange(self.levels) < torch.tensor(counts)[:, None]
        if self._teachers is not None:
            rated = [panel.rated for panel in training.panels]
            self._teachers.prepare_for(
                [PanelConfig.of(one.name, one.scale, count) for one, count in zip(rated, counts, strict=True)]
            )
            if self.recipe.start == "teacher":
                self._teachers.start_heads(self.level_heads)

    @property
    def level_heads(self) -> list[nn.Linear]:
        """The head of each panel that predicts its histograms; none if the model does not predict any."""
        return [] if self.model.levels is None else [self.model.levels, *cast(list[nn.Linear], self.other_levels)]

    def begin_epoch(self, epoch: int, epochs: int) -> None:
        """Move the teachers to the network's device."""
        if self._teachers is not None:
            self._teachers.to(self.device)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The losses of the order, of the histograms if the model predicts them, and of helpers, dropped afterwards."""
        if self._teachers is not None:
            batch = self._with_teachers(batch, self._teachers)
        features = self.model.features(batch.images)
        gaussians = self.model.gaussians(features)
        losses = self.order_losses(gaussians, batch)
        if self.score_head is not None:
            score = self._of_panel(self.score_head(features), batch.panel)[:, 0]
            losses["score"] = F.mse_loss(score.float(), batch.scores / self.scale.unit)
            losses["total"] = losses["total"] + self.recipe.score_weight * losses["score"]
        logits = self._level_logits(features, gaussians.mean, batch.panel)
        if logits is not None:
            losses["histogram"] = histogram_cross_entropy(logits.float(), batch.histogram)
            losses["total"] = losses["total"] + self.recipe.histogram_weight * losses["histogram"]
        return losses

    def _level_logits(self, features: Tensor, places: Tensor, panel: Tensor) -> Tensor | None:
        """Logits of each image's histogram, (M, L), those of levels that its panel does not have too low to matter."""
        if self.model.levels is not None:
            logits = self._of_panel(torch.cat([head(places) for head in self.level_heads], 1), panel)
            if self.panels > 1:
                logits = logits.float().masked_fill(~self.level_there[panel], _NEVER)
            return logits
        return None if self.histogram_head is None else self._of_panel(self.histogram_head(features), panel)

    def _with_teachers(self, batch: Batch, teachers: Teachers) -> Batch:
        """A batch whose targets include the teachers' answers; histograms that the panel does not have are theirs."""
        weight = self.recipe.teacher_weight
        answers = teachers.judge(batch.images, batch.first, batch.second, batch.panel)
        batch = batch._replace(target=torch.lerp(batch.target, answers.order, weight))
        if answers.histogram is None:
            return batch
        own, theirs = batch.histogram, answers.histogram
        mixed = torch.where(own.isfinite(), torch.lerp(own, theirs, weight), theirs)
        return batch._replace(histogram=torch.where(theirs.isfinite(), mixed, own))

    def _of_panel(self, values: Tensor, panel: Tensor) -> Tensor:
        """The units of each image's panel: (M, panels · L), (M,) → (M, L)."""
        if self.panels == 1:
            return values
        own = panel[:, None] == torch.arange(self.panels, device=panel.device)
        return torch.where(own[..., None], values.view(len(values), self.panels, -1), 0.0).sum(1)

    def order_losses(self, gaussians: Gaussians, batch: Batch) -> dict[str, Tensor]:
        """Order cross entropy + α · ordinal hinge + β · dispersion divergence (equation 10)."""
        recipe = self.recipe
        gaussians = Gaussians(gaussians.mean.float(), gaussians.log_variance.float())
        points = sample(gaussians, recipe.samples) if recipe.sampling == "monte-carlo" else None
        logits = self._logits(gaussians, points, batch)
        order = order_cross_entropy(logits.float(), batch.target, batch.pair_weight)
        ordinal = ordinal_hinge(gaussians, batch.anchor, batch.near, batch.far, recipe.margin, batch.triplet_weight)
        dispersion = dispersion_divergence(gaussians.log_variance, batch.rating_variance)
        return uol_loss(order, ordinal, dispersion, recipe.alpha, recipe.beta)._asdict()

    def _logits(self, gaussians: Gaussians, points: Tensor | None, batch: Batch) -> Tensor:
        """Logits of a batch's pairs, (T, P, 3): from T points of each image, or in closed form without points."""
        if points is None:
            return self.model.comparator.expected(gaussians, batch.first, batch.second)[None]
        return self.model.comparator.pairs(points, batch.first, batch.second)

    def finish(self, training: PackedImages, held_out: PackedImages | None) -> None:
        """Choose references, fit k and δ among them, and calibrate on the held-out images: separately for each panel.

        With several panels, the batch norms of each have the statistics of its training images.
        """
        kept = training.panels
        calibrating = [None] * len(kept) if held_out is None else held_out.panels
        models = [self.model]
        if len(kept) > 1:
            heads: Sequence[nn.Linear | None] = self.level_heads or [None] * len(kept)
            pairs = zip(kept, heads, strict=True)
            models = [with_statistics(self.model, panel.centre).with_levels(head) for panel, head in pairs]
        self._scorers = [
            make_scorer(model, self.recipe, *panel)
            for model, panel in zip(models, zip(kept, calibrating, strict=True), strict=True)
        ]
        self._scorers[0].with_panels(self._scorers[1:])

    def predict(self, pixels: Tensor, attributes: Tensor | None = None) -> Predictions:
        """Scores by comparison with the references, with several panels those of the first."""
        return Predictions.of(self.scorer.score_embedded(self.embed(pixels)))

    @property
    def scorer(self) -> Scorer:
        """The trained model as a scorer, on the scale of the first panel."""
        return self.scorers[0]

    @property
    def scorers(self) -> list[Scorer]:
        """The trained model as a scorer on the scale of each panel."""
        if not self._scorers:
            raise UolError("not trained yet: call finish after training")
        return self._scorers

    def embed(self, pixels: Tensor) -> Gaussians:
        """Gaussians of images, as the scorer makes them."""
        return self.scorer.embed_pixels(pixels)


def _check_levels(wanted: int, levels: int) -> None:
    """Refuse a model that predicts histograms of other rating levels than the panels have."""
    if wanted and not levels:
        raise CallError(f"model.levels: {wanted}: no histograms of ratings are known; leave it at 0")
    if wanted and wanted != levels:
        raise CallError(f"model.levels: {wanted}: the histograms have {levels} rating levels; set it to {levels}")


def make_scorer(model: OrderModel, recipe: Recipe, training: PackedImages, held_out: PackedImages | None) -> Scorer:
    """A trained model as a scorer: references from the training images, calibrated on those that were held out.

    If these also calibrate dispersion, only the references among the training images are embedded.
    """
    levels = rating_levels(training)
    if held_out is not None and np.isfinite(held_out.rated.variances).sum() >= ENOUGH_FOR_LINE:
        rated, width = training.rated, recipe.bin_width * training.rated.scale.unit
        training = training.subset(choose_references(rated.scores, width, recipe.references_per_bin, recipe.seed))
    scorer = Scorer.build(
        model,
        training.rated,
        model.embed(training.centre, recipe.scoring),
        recipe.scoring,
        recipe.bin_width,
        recipe.references_per_bin,
        recipe.seed,
    )
    if model.config.levels not in (0, levels):  # one of several panels
        scorer.panel = scorer.panel.model_copy(update={"levels": levels})
    if held_out is not None:
        scorer.calibrate(held_out.rated, model.embed(held_out.centre, recipe.scoring), recipe.threshold)
    return scorer
