"""Teachers: trained models whose answers about each batch become targets of another network, the pupil.

A panel rates two photographs once; a teacher compares every augmented view of them. Therefore a small network learns
more from the same photographs, and one network can learn from several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uol.errors import CallError
from uol.order.config import ModelConfig
from uol.order.model import OrderModel
from uol.order.views import shown_to
from uol.scoring.config import PanelConfig, PanelIdentity
from uol.scoring.panels import HEAD, levels_used
from uol.scoring.released import find_teacher

if TYPE_CHECKING:
    from uol.scoring.scorer import Scorer


class Judgement(NamedTuple):
    """The mean answers of the teachers about a batch."""

    order: Tensor  # (P, 3): probabilities of less, similar and greater for its pairs
    histogram: Tensor | None  # (M, L): shares of ratings at the panel's levels, NaN if not taught; None: never taught


class KnownPanel(NamedTuple):
    """What a teacher knows of a panel: tensors that are not those of its first, and the levels that it predicts."""

    tensors: Mapping[str, Tensor]
    levels: int


class Teacher:
    """A network that teaches, and the panels that it knows.

    On a panel that it knows it answers with that panel's tensors (statistics of batch norms, the head of histograms),
    on others with those of its first.
    """

    def __init__(self, model: OrderModel, known: Mapping[PanelIdentity, KnownPanel] = MappingProxyType({})) -> None:
        self.model = model.eval().requires_grad_(False)
        self.known = known
        self._choices: dict[str, Tensor] = {}
        self._there = torch.ones(1, model.config.levels, dtype=torch.bool)

    @classmethod
    def of(cls, scorer: Scorer) -> Teacher:
        """The network of a scorer, with all panels of its folder."""
        first = KnownPanel({}, scorer.levels_used)
        known = {scorer.panel.identity: first}
        for parts in scorer.other_panels.values():
            tensors = {name: torch.from_numpy(array) for name, array in parts.tensors.items()}
            known[parts.panel.identity] = KnownPanel(tensors, levels_used(scorer.config, parts.panel, parts.scoring))
        return cls(scorer.model, known)

    def prepare_for(self, panels: Sequence[PanelConfig]) -> None:
        """Put the tensors of the pupil's panels into one, (panels, …), from which a batch's panel chooses."""
        known = [self.known.get(panel.identity) for panel in panels]
        ours = self.model.state_dict()
        own: list[Mapping[str, Tensor]] = [{} if panel is None else panel.tensors for panel in known]
        names = sorted({name for tensors in own for name in tensors})
        self._choices = {
            name: torch.stack([tensors.get(name, ours[name]).to(ours[name]) for tensors in own]) for name in names
        }
        counts = torch.tensor([0 if panel is None else panel.levels for panel in known])
        self._there = torch.arange(self.model.config.levels) < counts[:, None]

    def to(self, device: torch.device) -> None:
        """Move the network to the pupil's device."""
        self.model.to(device)
        self._choices = {name: tensors.to(device) for name, tensors in self._choices.items()}
        self._there = self._there.to(device)

    def choose(self, panel: Tensor) -> None:
        """Answer as for a panel, by its number, (1,): in place and on the device, as a recorded step requires."""
        if self._choices:
            ours = dict(self.model.named_parameters()) | dict(self.model.named_buffers())
            for name, tensors in self._choices.items():
                ours[name].copy_(tensors.index_select(0, panel)[0])

    def histogram(self, places: Tensor, panel: Tensor, levels: int) -> Tensor:
        """Shares of ratings at the levels of a panel, filled up to the pupil's: (M, D), (1,) → (M, L)."""
        assert self.model.levels is not None
        logits = self.model.levels(places).float()
        there = self._there.index_select(0, panel)
        shares = torch.where(there, logits, -torch.inf).softmax(-1)
        return F.pad(shares, (0, levels - shares.shape[1]))


class Teachers:
    """Models that compare the pairs of a batch; not a module: they are neither trained nor kept in checkpoints."""

    def __init__(self, teachers: Sequence[Teacher], pupil: ModelConfig) -> None:
        """Until `prepare_for`, all panels are the first of each teacher and no histograms are taught."""
        self._pupil = pupil
        self._teachers = teachers
        self._panels: Sequence[PanelConfig] = ()
        self._teaches = torch.zeros(len(teachers), 1)  # 1 where a teacher (row) teaches a panel's histograms (column)
        self._ever = [False] * len(teachers)

    @classmethod
    def load(cls, folders: Sequence[str], pupil: ModelConfig) -> Teachers:
        """Load model folders or run folders; of an ensemble, all its members.

        Teachers are given the pupil's pixels: they must have been trained on images framed in the same way, or on the
        middle of them, in any size.
        """
        from uol.scoring.folder import load_model
        from uol.scoring.scorer import Scorer

        teachers = []
        for folder, member in ((name, member) for name in folders for member in load_model(find_teacher(name)).members):
            config = member.config
            if not config.sees_within(pupil):
                raise CallError(
                    f"{folder}: the teacher sees more of images than its pupil ({config.view}; its pupil {pupil.view})"
                )
            assert isinstance(member, Scorer)
            teachers.append(Teacher.of(member))
        return cls(teachers, pupil)

    def prepare_for(self, panels: Sequence[PanelConfig]) -> None:
        """Teach these panels, each with its number of rating levels; batches name them by their places.

        The histograms of a panel are taught by the teachers that know the panel, if all of them predict histograms of
        its levels: unlike the order, panels differ in them.
        """
        self._panels = panels
        for teacher in self._teachers:
            teacher.prepare_for(panels)
        self._teaches = torch.zeros(len(self._teachers), len(panels))
        for place, panel in enumerate(panels):
            known = [teacher.known.get(panel.identity) for teacher in self._teachers]
            if self._pupil.levels and all(one is None or 0 < one.levels == panel.levels for one in known):
                self._teaches[:, place] = torch.tensor([float(one is not None) for one in known])
        self._ever = self._teaches.any(1).tolist()

    def start_pupil(self, pupil: OrderModel) -> None:
        """Give a pupil the weights of the first teacher."""
        first = self._teachers[0].model
        ours, theirs = pupil.config.model_dump(), first.config.model_dump()
        other = [name for name in ours if name != "initial_log_variance" and ours[name] != theirs[name]]
        if other:
            differences = ", ".join(f"model.{name}: {theirs[name]}, not {ours[name]}" for name in other)
            raise CallError(f"start: teacher: the first teacher and its pupil are different networks ({differences})")
        pupil.load_state_dict(first.state_dict())

    @torch.no_grad()
    def start_heads(self, heads: Sequence[nn.Linear]) -> None:
        """Give heads of a pupil, one for each panel, those of the first teacher for the panels that it knows."""
        first = self._teachers[0]
        for head, panel in zip(heads, self._panels, strict=True) if heads else ():
            if panel.identity in first.known:
                stored = first.model.state_dict() | dict(first.known[panel.identity].tensors)
                head.load_state_dict({name: stored[f"{HEAD}{name}"] for name in head.state_dict()})

    def to(self, device: torch.device) -> None:
        """Move the models to the pupil's device."""
        self._teaches = self._teaches.to(device)
        for teacher in self._teachers:
            teacher.to(device)

    @torch.no_grad()
    def judge(self, images: Tensor, first: Tensor, second: Tensor, panel: Tensor | None = None) -> Judgement:
        """The mean answers about a batch's images and about pairs of its rows, each compared in both directions.

        `panel` (M,) is the number of the images' panel, the same for all of them; None is the first.
        """
        if not images.is_floating_point():  # because resizing bytes would round
            images = images.float() / 255
        number = first.new_zeros(1) if panel is None else panel[:1]
        teaches = self._teaches.index_select(1, number)[:, 0]
        orders, histograms = [], []
        for place, teacher in enumerate(self._teachers):
            model = teacher.model
            teacher.choose(number)
            places = model(shown_to(images, model.config, self._pupil)).mean
            forward = model.comparator.pairs(places[None], first, second)[0]
            backward = model.comparator.pairs(places[None], second, first)[0].flip(-1)
            orders.append(((forward + backward).float() / 2).softmax(-1))
            if self._ever[place]:
                shares = teacher.histogram(places, number, self._pupil.levels)
                histograms.append(torch.where(teaches[place] > 0, shares, 0.0))
        order = torch.stack(orders).mean(0)
        if not histograms:
            return Judgement(order, None)
        count = teaches.sum()
        mean = torch.stack(histograms).sum(0) / count.clamp(min=1)
        return Judgement(order, torch.where(count > 0, mean, torch.nan))
