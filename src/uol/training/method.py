"""The interface of methods: losses of a batch while training, then predictions with intervals."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from uol.errors import CallError
from uol.order.backbones import Backbone
from uol.ratings.scale import Scale
from uol.training.batches import Batch, PackedImages
from uol.training.predictions import Predictions
from uol.training.recipe import Recipe


class Method(nn.Module, ABC):
    """A network and its losses.

    Before training, `prepare_for` may look at the training images, and before each epoch `begin_epoch` is told its
    number. `forward(batch)` gives the losses by name, with their sum under "total". After training, `finish` does
    what needs the whole training set (references, calibration on the held-out images), and `predict` answers.
    """

    takes_second_backbone = False
    takes_panels = False
    takes_teachers = False
    uses_histogram = False

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0, panels: int = 1) -> None:
        """`levels` is the number of rating levels in the batches' histograms; 0 where none is known.

        Only a method that `takes_panels` is asked for several panels.
        """
        super().__init__()
        self.check(recipe)
        self.recipe = recipe
        self.scale = scale
        self.levels = levels
        self.panels = panels

    @classmethod
    def check(cls, recipe: Recipe) -> None:
        """Refuse settings that the method has no use for."""
        if recipe.second_backbone is not None and not cls.takes_second_backbone:
            raise CallError(f"method {recipe.method} has one backbone; leave second_backbone out")
        if recipe.second_backbone is not None and recipe.init not in (None, "timm"):
            raise CallError(f"{recipe.init}: a file has the weights of one backbone; with two, init is timm or none")
        if recipe.model.levels and not cls.uses_histogram:
            raise CallError(f"method {recipe.method} has no use for model.levels; leave it at 0")
        if recipe.teachers and not cls.takes_teachers:
            raise CallError(f"method {recipe.method} learns from no teachers; leave teachers out")
        if recipe.start == "teacher" and not recipe.teachers:
            raise CallError("start: teacher begins as the first of the teachers, and there is none; --set teachers=…")

    def prepare_for(self, training: PackedImages) -> None:
        """Learn from the training images what the losses need beforehand, such as how frequent classes are."""

    def begin_epoch(self, epoch: int, epochs: int) -> None:
        """Set what changes with the epochs, counted from 0: in buffers, in place, since a recorded step reads those."""

    @abstractmethod
    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Losses of a batch."""

    @abstractmethod
    def finish(self, training: PackedImages, held_out: PackedImages | None) -> None:
        """Prepare predictions; `held_out` images had no part in training."""

    @abstractmethod
    def predict(self, pixels: Tensor, attributes: Tensor | None = None) -> Predictions:
        """Predict the scores of images, uint8 (N, 3, size, size).

        `attributes` (N, 2) are gender and ethnicity as `PackedImages.attributes` codes them, None where unknown; a
        method that has no use for them passes them over.
        """

    @property
    def device(self) -> torch.device:
        """Where the network lives."""
        return next(self.parameters()).device

    def prepare(self, backbone: Backbone) -> None:
        """Load the backbone weights that the recipe names, and freeze what it freezes."""
        backbone.check_size(self.recipe.model.crop)
        if self.recipe.init not in (None, "timm"):
            backbone.load_weights(self.recipe.init)
        backbone.freeze(self.recipe.frozen)

    @property
    def pretrained(self) -> bool:
        """Whether timm's own weights are asked for."""
        return self.recipe.init == "timm"
