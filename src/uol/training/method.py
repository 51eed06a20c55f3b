"""The contract of a method: losses of a batch while training, then predictions with intervals."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from uol.errors import CallError
from uol.order.backbones import Backbone
from uol.ratings.scale import Scale
from uol.training.batches import Batch
from uol.training.packed import PackedImages
from uol.training.predictions import Predictions
from uol.training.recipe import Recipe


class Method(nn.Module, ABC):
    """A network, the losses that train it, and the predictions of the trained network.

    A training calls a method in this order:

    1. `check(recipe)` refuses settings that the method does not use, before any image is read.
    2. `__init__` builds the network; `prepare_for(training)` may look at the training images, to count classes.
    3. For each epoch `begin_epoch`, then for each batch `forward(batch)`: the losses by name, with the loss that is
       minimised under "total".
    4. `finish(training, held_out)` chooses references or calibrates intervals.
    5. `predict(pixels)` gives the scores of new images, with intervals.

    A method whose network outputs the score itself derives from `uol.methods.score_method.ScoreMethod`, which
    implements `finish` and `predict`. The class attributes below state which optional settings a method supports.
    """

    takes_second_backbone = False
    takes_panels = False
    takes_teachers = False
    takes_landmarks = False
    uses_histogram = False
    shares_batches = True  # several devices may each compute the feature maps of a share of a batch

    def __init__(self, recipe: Recipe, scale: Scale, levels: int = 0, panels: int = 1) -> None:
        """`levels` is the number of rating levels in the batches' histograms, 0 if they are unknown.

        `panels` is above 1 only for methods that set `takes_panels`.
        """
        super().__init__()
        self.check(recipe)
        self.recipe = recipe
        self.scale = scale
        self.levels = levels
        self.panels = panels

    @classmethod
    def check(cls, recipe: Recipe) -> None:
        """Refuse settings that the method does not use."""
        if recipe.second_backbone is not None and not cls.takes_second_backbone:
            raise CallError(f"method {recipe.method} has one backbone; leave second_backbone out")
        if recipe.second_backbone is not None and recipe.init not in (None, "timm"):
            raise CallError(f"{recipe.init}: a file has the weights of one backbone; with two, init is timm or none")
        if recipe.model.levels and not cls.uses_histogram:
            raise CallError(f"method {recipe.method} has no use for model.levels; leave it at 0")
        if recipe.teachers and not cls.takes_teachers:
            raise CallError(f"method {recipe.method} learns from no teachers; leave teachers out")
        if recipe.landmarks and not cls.takes_landmarks:
            raise CallError(f"method {recipe.method} has no use for landmarks; leave landmarks out")
        if recipe.start == "teacher" and not recipe.teachers:
            raise CallError("start: teacher requires teachers; name them with --set teachers=…")

    def prepare_for(self, training: PackedImages) -> None:
        """Compute from the training images what the losses require, such as the frequency of classes."""

    def known_of(self, images: PackedImages) -> Tensor:
        """What the method is given of images besides their pixels, (N, K): gender and ethnicity, unless it overrides.

        Batches have it as `attributes`, and so does `predict`.
        """
        return images.attributes

    def begin_epoch(self, epoch: int, epochs: int) -> None:
        """Set values that depend on the epoch (from 0), in place in buffers: a recorded step reads only those."""

    @abstractmethod
    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The losses of a batch by name; the training minimises "total"."""

    @abstractmethod
    def finish(self, training: PackedImages, held_out: PackedImages | None) -> None:
        """Prepare predictions; `held_out` images had no part in training."""

    @abstractmethod
    def predict(self, pixels: Tensor, attributes: Tensor | None = None) -> Predictions:
        """Predict the scores of images, uint8 (N, 3, size, size).

        `attributes` (N, K) are what `known_of` gives of them, None if unknown; most methods ignore them.
        """

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return next(self.parameters()).device

    def prepare(self, backbone: Backbone) -> None:
        """Load the backbone weights that the recipe names, and freeze what it freezes."""
        backbone.check_size(self.recipe.model.crop)
        if self.recipe.init not in (None, "timm"):
            backbone.load_weights(self.recipe.init)
        backbone.freeze(self.recipe.frozen)

    @property
    def pretrained(self) -> bool:
        """Whether the recipe requires timm's pretrained weights."""
        return self.recipe.init == "timm"
