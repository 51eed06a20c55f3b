"""Teachers: trained models whose answers about each batch become targets of another network, the pupil.

A panel rates two photographs once; a teacher compares every augmented view of them. Therefore a small network learns
more from the same photographs, and one network can learn from several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from uol.errors import CallError
from uol.order.config import ModelConfig
from uol.order.model import OrderModel
from uol.order.views import shown_to
from uol.scoring.config import PanelConfig
from uol.scoring.released import find_teacher


class Judgement(NamedTuple):
    """The mean answers of the teachers about a batch."""

    order: Tensor  # (P, 3): probabilities of less, similar and greater for its pairs
    histogram: Tensor | None  # (M, L): shares of ratings at the panel's levels; None unless all teachers predict them


class Teachers:
    """Models that compare the pairs of a batch; not a module: they are neither trained nor kept in checkpoints."""

    def __init__(
        self, models: Sequence[OrderModel], pupil: ModelConfig, panels: Sequence[PanelConfig | None] = ()
    ) -> None:
        """`panels`: for each model the panel whose histograms it predicts, at the pupil's levels, or None."""
        self._pupil = pupil
        self._models = [model.eval().requires_grad_(False) for model in models]
        self._panels = set(panels)
        self._histograms = False

    @classmethod
    def load(cls, folders: Sequence[str], pupil: ModelConfig) -> Teachers:
        """Load model folders or run folders; of an ensemble, all its members.

        Teachers are given the pupil's pixels: they must have been trained on images framed in the same way, or on the
        middle of them, in any size.
        """
        from uol.scoring.folder import load_model
        from uol.scoring.scorer import Scorer

        models, panels = [], []
        for folder, member in ((name, member) for name in folders for member in load_model(find_teacher(name)).members):
            config = member.config
            if not config.sees_within(pupil):
                raise CallError(
                    f"{folder}: the teacher sees more of images than its pupil ({config.view}; its pupil {pupil.view})"
                )
            assert isinstance(member, Scorer)
            models.append(member.model)
            panels.append(member.panel if member.uses_histogram and config.levels == pupil.levels else None)
        return cls(models, pupil, panels)

    def teach_histograms_of(self, panel: PanelConfig) -> None:
        """Teach histograms if all teachers predict those of this panel: unlike the order, panels differ in them."""
        self._histograms = self._panels == {panel}

    def start_pupil(self, pupil: OrderModel) -> None:
        """Give a pupil the weights of the first teacher."""
        first = self._models[0]
        ours, theirs = pupil.config.model_dump(), first.config.model_dump()
        other = [name for name in ours if name != "initial_log_variance" and ours[name] != theirs[name]]
        if other:
            differences = ", ".join(f"model.{name}: {theirs[name]}, not {ours[name]}" for name in other)
            raise CallError(f"start: teacher: the first teacher and its pupil are different networks ({differences})")
        pupil.load_state_dict(first.state_dict())

    def to(self, device: torch.device) -> None:
        """Move the models to the pupil's device."""
        for model in self._models:
            model.to(device)

    @torch.no_grad()
    def judge(self, images: Tensor, first: Tensor, second: Tensor) -> Judgement:
        """The mean answers about a batch's images and about pairs of its rows, each compared in both directions."""
        if not images.is_floating_point():  # because resizing bytes would round
            images = images.float() / 255
        orders, histograms = [], []
        for model in self._models:
            places = model(shown_to(images, model.config, self._pupil)).mean
            forward = model.comparator.pairs(places[None], first, second)[0]
            backward = model.comparator.pairs(places[None], second, first)[0].flip(-1)
            orders.append(((forward + backward).float() / 2).softmax(-1))
            if self._histograms and model.levels is not None:
                histograms.append(model.levels(places).float().softmax(-1))
        return Judgement(torch.stack(orders).mean(0), torch.stack(histograms).mean(0) if histograms else None)
