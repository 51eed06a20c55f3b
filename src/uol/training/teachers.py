"""Teachers: trained models whose judgement of each batch another network learns beside the panel's.

A panel says once how two photographs stand to each other; a teacher says it of every varied view of them, so that a
small network learns more from the same photographs, or one network what several know together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from uol.errors import CallError
from uol.order.config import ModelConfig
from uol.order.model import OrderModel
from uol.order.views import shown_to
from uol.scoring.config import PanelConfig
from uol.scoring.released import find_model, member_folders

_WEIGHTS = "model.safetensors"


class Judgement(NamedTuple):
    """What teachers say of a batch."""

    order: Tensor  # (P, 3): probabilities of less, similar and greater for its pairs
    histogram: Tensor | None  # (M, L): shares of ratings at the panel's levels; None where not all teachers tell them


class Teachers:
    """Models that judge pairs of a batch; not a module, so that they are neither trained nor kept in checkpoints."""

    def __init__(
        self, models: Sequence[OrderModel], pupil: ModelConfig, panels: Sequence[PanelConfig | None] = ()
    ) -> None:
        """`panels` are those whose histograms each tells at the pupil's levels; None for one that tells none."""
        self._pupil = pupil
        self._models = [model.eval().requires_grad_(False) for model in models]
        self._panels = set(panels)
        self._histograms = False

    @classmethod
    def load(cls, folders: Sequence[str], pupil: ModelConfig) -> Teachers:
        """Load model or run folders, of an ensemble all its members.

        They are shown the pupil's pixels, so they must be used to images framed alike, or to the middle of them, in
        whatever size.
        """
        from uol.scoring.folder import load_model

        models, panels = [], []
        for folder, member in ((name, member) for name in folders for member in load_model(find_teacher(name)).members):
            config = member.config
            if not config.sees_within(pupil):
                raise CallError(
                    f"{folder}: a teacher that sees another part of images ({config.view}; its pupil {pupil.view})"
                )
            models.append(member.model)
            panels.append(member.panel if member.uses_histogram and config.levels == pupil.levels else None)
        return cls(models, pupil, panels)

    def teach_histograms_of(self, panel: PanelConfig) -> None:
        """Tell histograms, too, where all tell those of this very panel: unlike the order, they are a panel's own."""
        self._histograms = self._panels == {panel}

    def begin(self, pupil: OrderModel) -> None:
        """Give a pupil the weights of the first."""
        first = self._models[0]
        ours, theirs = pupil.config.model_dump(), first.config.model_dump()
        other = [name for name in ours if name != "initial_log_variance" and ours[name] != theirs[name]]
        if other:
            told = ", ".join(f"model.{name}: {theirs[name]}, not {ours[name]}" for name in other)
            raise CallError(f"start: teacher: the first teacher is a network of another kind than its pupil ({told})")
        pupil.load_state_dict(first.state_dict())

    def to(self, device: torch.device) -> None:
        """Move the models to where the pupil is trained."""
        for model in self._models:
            model.to(device)

    @torch.no_grad()
    def judge(self, images: Tensor, first: Tensor, second: Tensor) -> Judgement:
        """The mean of what they say of a batch's images and of pairs of its rows, these asked both ways."""
        if not images.is_floating_point():  # which another size would round
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


def find_teacher(name: str) -> Path:
    """The model folder of a teacher, absolute, so that no later reader takes its name for a model that ships."""
    return find_model(name).absolute()


def weights_digest(folder: Path) -> str:
    """The SHA-256 of a model folder's whole file of weights; of an ensemble, that of its members' digests."""
    members = member_folders(folder)
    if members:
        return hashlib.sha256(" ".join(map(weights_digest, members)).encode()).hexdigest()
    try:
        with open(folder / _WEIGHTS, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CallError(f"{folder}: no model folder: {_WEIGHTS} cannot be read") from error
