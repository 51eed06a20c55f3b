"""AaNet: regression by convolutions that are tuned to what is known of the person, gender and ethnicity."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uol.errors import CallError
from uol.methods.score_method import Estimates, ScoreMethod
from uol.ratings.scale import Scale
from uol.training.batches import Batch
from uol.training.recipe import Recipe

_HIDDEN = 256
_SHOWN = 0.9


class AaNet(ScoreMethod):
    """One linear unit on features of a backbone whose convolutions all have their filters scaled by the attributes.

    Attributes (±1, 0 where unknown) → 256 units with batch norm and ReLU → a factor for every filter of every
    convolution, and a shift where it has a bias; both begin by leaving it as it is. Scaling a filter is scaling its
    channel of the output, (f·W) ∗ x = f·(W ∗ x), which is how it is computed, since factors differ from image to image;
    of the published variants this is the one that multiplies. Convolutions that the recipe freezes are not tuned.

    A tenth of the images hide their attributes in training, so that people of whom nothing is known can be scored.
    """

    shares_batches = False  # the filters of the backbone follow the attributes of a whole batch

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0) -> None:
        super().__init__(recipe, scale, levels)
        self.head = self.score_unit(self.model.width)
        layers = [layer for layer in self.model.backbone.modules() if isinstance(layer, nn.Conv2d)]
        tuned = [layer for layer in layers if layer.weight.requires_grad]
        if not tuned:
            raise CallError(
                f"method aanet tunes convolutions, and {recipe.model.backbone} has none that are trained: "
                "choose another backbone or lower frozen"
            )
        # Without a bias, so that batch norm has nothing to magnify where no attribute is known.
        self.embedding = nn.Sequential(nn.Linear(2, _HIDDEN, bias=False), nn.BatchNorm1d(_HIDDEN), nn.ReLU())
        self._sizes = [layer.out_channels * (1 if layer.bias is None else 2) for layer in tuned]
        self.tuner = nn.Linear(_HIDDEN, sum(self._sizes))  # the linear layers of all convolutions, as one
        nn.init.zeros_(self.tuner.weight)
        nn.init.zeros_(self.tuner.bias)
        self._tuning: tuple[Tensor, ...] = ()
        for number, layer in enumerate(tuned):
            layer.register_forward_hook(partial(self._tuned, number))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Mean squared error."""
        shown = torch.rand_like(batch.attributes[:, :1]) < (_SHOWN if self.training else 1.0)
        score, _ = self.estimate(self.features(batch.images, batch.attributes * shown))
        return {"total": F.mse_loss(score.float(), self.in_units(batch.scores))}

    def features(self, images: Tensor, attributes: Tensor | None = None) -> Tensor:
        """Features by convolutions tuned to each image's attributes; none are attributes of 0."""
        if attributes is None:
            attributes = torch.zeros(len(images), 2, device=images.device)
        self._tuning = torch.split(self.tuner(self.embedding(attributes)), self._sizes, 1)
        try:
            return self.model.features(images)
        finally:
            self._tuning = ()

    def estimate(self, features: Tensor) -> Estimates:
        """The unit's output."""
        return Estimates.of(self.head(features)[:, 0])

    def _tuned(self, number: int, layer: nn.Conv2d, _: tuple[Tensor, ...], output: Tensor) -> Tensor:
        """The output (N, C, h, w) of a convolution, after its filters were tuned."""
        if not self._tuning:  # asked for its shape alone
            return output
        tuning = self._tuning[number][:, :, None, None]
        if layer.bias is None:
            return torch.addcmul(output, output, tuning)  # not output · (1 + f): in bfloat16 a small f would be lost
        factor, shift = tuning.chunk(2, 1)
        return torch.addcmul(output + shift, output, factor)
