"""UOL: Gaussians in the psychological space, compared by Monte Carlo sampling, constrained by the raters' spread."""

from __future__ import annotations

import torch
from torch import Tensor

from uol.errors import UolError
from uol.gaussians import Gaussians, sample
from uol.losses import dispersion_divergence, order_cross_entropy, ordinal_hinge, uol_loss
from uol.methods.base import Method, Predictions
from uol.model import OrderModel
from uol.rated_images import Scale
from uol.scorer import Scorer
from uol.training.batches import Batch, PackedImages
from uol.training.recipe import Recipe


class Uol(Method):
    """An `OrderModel` trained with all three losses; predictions come from a `Scorer`."""

    def __init__(self, recipe: Recipe, scale: Scale) -> None:
        super().__init__(recipe, scale)
        self.model = OrderModel(recipe.model, self.pretrained)
        self.load_initial_weights(self.model.backbone)
        self._scorer: Scorer | None = None

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Order cross entropy + α · ordinal hinge + β · dispersion divergence (equation 10)."""
        recipe = self.recipe
        gaussians = self.model(batch.images)
        points = sample(gaussians, recipe.samples)
        logits = self.model.comparator.pairs(points, batch.first, batch.second)
        order = order_cross_entropy(logits, batch.order, batch.pair_weight)
        ordinal = ordinal_hinge(gaussians, batch.anchor, batch.near, batch.far, recipe.margin, batch.triplet_weight)
        dispersion = dispersion_divergence(gaussians.log_variance, batch.rating_variance, recipe.dispersion)
        return uol_loss(order, ordinal, dispersion, recipe.alpha, recipe.beta)._asdict()

    def finish(self, training: PackedImages, held_out: PackedImages | None) -> None:
        """Choose references, fit k and δ among them, and calibrate on the held-out images."""
        recipe = self.recipe
        gaussians = self.embed(training.centre)
        self._scorer = Scorer.build(
            self.model,
            training.rated,
            gaussians,
            recipe.scoring,
            recipe.bin_width,
            recipe.references_per_bin,
            recipe.seed,
        )
        if held_out is not None:
            self._scorer.calibrate(held_out.rated, self.embed(held_out.centre))

    def predict(self, pixels: Tensor) -> Predictions:
        """Scores by comparison with the references."""
        return Predictions.of(self.scorer.score_embedded(self.embed(pixels)))

    @property
    def scorer(self) -> Scorer:
        """The trained model as a scorer, to be saved or asked."""
        if self._scorer is None:
            raise UolError("not trained yet: call finish after training")
        return self._scorer

    @torch.inference_mode()
    def embed(self, pixels: Tensor) -> Gaussians:
        """Gaussians of images in moderate batches."""
        self.eval()
        parts = [self.model(part.to(self.device)) for part in torch.split(pixels, 128)]
        return Gaussians(torch.cat([part.mean for part in parts]), torch.cat([part.log_variance for part in parts]))
