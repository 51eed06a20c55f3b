"""The contract of every model: scores, comparisons and rankings of images, whichever engine computes them.

`Scorer` is one network, `EnsembleScorer` the mean of several, and `OnnxScorer` an exported network without torch.
"""

from __future__ import annotations

import copy
import difflib
import math
import os
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt

from uol.errors import CallError, ImageError, UolError, counted
from uol.images.framing import frame_each, pack_images
from uol.images.read import ImageLike, Images, as_sequence
from uol.order.calibration import Calibration
from uol.order.config import ModelConfig, ScoringConfig
from uol.scoring.config import PanelConfig

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from uol.ratings.rated_images import RatedImages
    from uol.scoring.network import NetworkScorer

Pixels = npt.NDArray[np.uint8]
Interval: TypeAlias = Literal["panel", "new-panel"]
Progress = Callable[[int, int], None]
"""Called with the number of images done and of all."""

NO_NUMBER = "the model gives no number: its files are damaged; copy the model folder again"
FEWEST_ANCHORS = 10
NOT_CALIBRATED = "far too narrow, because this model is not calibrated"
FEW_ANCHORS = 30  # with fewer, expect wide intervals
_ANCHORS_AT_ONCE = 32
_BETWEEN_REPORTS = 128  # images: a batch of torch's


@dataclass(frozen=True)
class Score:
    """The panel's expected mean score of one image, an interval for it, and how widely raters would differ.

    `low` and `high` include the panel's mean with the calibrated probability (95 %); `dispersion` is the expected
    standard deviation of single ratings; `standard_error` is the likelihood's, before calibration.

    >>> Score(value=3.2, low=2.6, high=3.8, dispersion=0.7, standard_error=0.1).known
    True
    """

    value: float
    low: float
    high: float
    dispersion: float
    standard_error: float

    @property
    def known(self) -> bool:
        """Whether it is a number: damaged weights give none. Of dispersion, NaN means that it was never learnt."""
        return all(map(math.isfinite, (self.value, self.low, self.high, self.standard_error)))


@dataclass(frozen=True)
class EnsembleScore(Score):
    """A score averaged over several models; `disagreement` is their standard deviation in the panel's units.

    The disagreement is no part of the interval.
    """

    disagreement: float


class Comparison(NamedTuple):
    """Probabilities that the first image is less than, similar to or greater than the second; they sum to 1.

    >>> Comparison(less=0.1, similar=0.4, greater=0.5)._asdict()
    {'less': 0.1, 'similar': 0.4, 'greater': 0.5}
    """

    less: float
    similar: float
    greater: float


@dataclass(frozen=True)
class Ranked:
    """One place in a ranking: images whose interval overlaps that of the best of their rank share the rank.

    >>> Ranked(rank=1, index=0, image="a.jpg", score=Score(3.2, 2.6, 3.8, 0.7, 0.1), tied=False).rank
    1
    """

    rank: int
    index: int
    image: ImageLike
    score: Score
    tied: bool


@dataclass(frozen=True)
class Unranked:
    """An image that has no place in a ranking, and why.

    >>> Unranked(index=1, image="b.jpg", error=ImageError("b.jpg: no face found")).error
    ImageError('b.jpg: no face found')
    """

    index: int
    image: ImageLike
    error: ImageError


class Embedded(Protocol):
    """Images embedded by one model, for this model to score or anchor."""

    def rows(self, index: Any) -> Self:
        """The images at an array of rows, or at a slice of them."""

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The images of several parts, one after another."""


Embedding = TypeVar("Embedding", bound=Embedded)


class BaseScorer(ABC):
    """A model that answers about images given as paths, PIL images or uint8 arrays (height, width, 3).

    Images are framed as the model requires; a subclass computes with the pixels.

    >>> from uol.datasets.synthetic import load_synthetic
    >>> faces = load_synthetic(n=4, test=2, size=256).images  # (4, 256, 256, 3)
    >>> scorer = BaseScorer.from_pretrained("uol-fast-scut5500")
    >>> [score.low < score.value < score.high for score in scorer.score(faces)]
    [True, True, True, True]
    >>> 0 < scorer.compare(faces[0], faces[1]).similar < 1, scorer.rank(faces)[0].rank
    (True, 1)
    """

    panel: PanelConfig
    scoring: ScoringConfig
    calibration: Calibration
    interval: Interval = "panel"  # whose mean the intervals are for
    anchored: bool = False  # whether its references are anchors
    former_card: str | None = None  # of the folder that it was opened from, which goes with it when it is saved

    @classmethod
    def from_pretrained(
        cls, name: str | os.PathLike[str], panel: str | None = None, interval: Interval = "panel"
    ) -> BaseScorer:
        """Load a model by name, folder or hf:// address: with onnxruntime if it has a graph, else or on a GPU by torch.

        Scores are on the scale of a panel that the model knows, by default its first. Their intervals are for the mean
        of that panel, or for that of a panel that nobody has seen.
        """
        from uol.scoring.released import open_model

        return open_model(name, panel=panel, interval=interval)

    @property
    def panels(self) -> list[PanelConfig]:
        """The panels that the model knows, the one whose scale scores are on first."""
        return [self.panel]

    def on_panel(self, name: str) -> BaseScorer:
        """The same model on the scale of another panel that it knows; the result knows this panel alone."""
        check_panel(name, self.panels)
        return self

    def for_new_panel(self) -> Self:
        """The same model with intervals for the mean of a panel that nobody has seen, on this model's scale."""
        made = copy.copy(self)
        made.interval = "new-panel"
        made.calibration = self.calibration.for_new_panel(self.panel.scale.unit)
        return made

    def score_panels(self, pixels: Any) -> dict[str, list[Score]]:
        """Scores of framed images, uint8 (N, 3, crop, crop), on the scale of each panel that the model knows."""
        return {self.panel.name: self.score_pixels(pixels)}

    @property
    @abstractmethod
    def config(self) -> ModelConfig:
        """The settings of the network; of an ensemble, those of the largest with a frame that serves all."""

    @property
    @abstractmethod
    def members(self) -> Sequence[NetworkScorer[Any]]:
        """The networks that answer: one, or several of an ensemble."""

    @abstractmethod
    def score_pixels(self, pixels: Pixels) -> list[Score]:
        """Score framed images: uint8 (N, 3, crop, crop)."""

    @abstractmethod
    def compare_pixels(self, first: Pixels, second: Pixels) -> Comparison:
        """Compare two framed images, each (3, crop, crop)."""

    @abstractmethod
    def embed(self, images: Images | ImageLike, batch_size: int = 32, progress: Progress | None = None) -> Embedded:
        """Embed images in the psychological space."""

    @abstractmethod
    def embed_pixels(self, pixels: Any) -> Embedded:
        """Embed framed images: uint8 (N, 3, crop, crop), an array or, if torch computes, a tensor."""

    @abstractmethod
    def score_embedded(self, embedded: Any) -> list[Score]:
        """Score images that `embed` or `embed_pixels` of this model embedded."""

    @abstractmethod
    def anchor_embedded(self, rated: RatedImages, embedded: Any) -> BaseScorer:
        """Anchor, as `anchor` does, with images that `embed` or `embed_pixels` of this model embedded."""

    @abstractmethod
    def leave_one_out(self) -> list[Score]:
        """Score each reference by comparison with all others: the quality of the scale."""

    @abstractmethod
    def save_pretrained(self, folder: str | os.PathLike[str], half: bool = False) -> None:
        """Write a model folder, with all panels that the scorer knows; `half` stores weights in 16 bits.

        An older model in the folder is replaced.
        """

    def push_to_hub(self, name: str, private: bool = True, half: bool = False) -> str:
        """Store the model folder on the Hugging Face Hub as "owner/name"; its address is returned."""
        from uol.scoring.hub import push_model

        return push_model(self, name, private, half)

    @abstractmethod
    def to(self, device: str | torch.device) -> Self:
        """Move the model to a device."""

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU computes."""
        return False

    @property
    def batch_size(self) -> int:
        """How many images to score at once."""
        return 32

    @overload
    def score(
        self, images: Images | ImageLike, batch_size: int | None = None, *, errors: Literal["raise"] = "raise"
    ) -> list[Score]: ...

    @overload
    def score(
        self, images: Images | ImageLike, batch_size: int | None = None, *, errors: Literal["return"]
    ) -> list[Score | ImageError]: ...

    def score(
        self,
        images: Images | ImageLike,
        batch_size: int | None = None,
        *,
        errors: Literal["raise", "return"] = "raise",
    ) -> list[Score] | list[Score | ImageError]:
        """Score images given as paths, PIL images or uint8 arrays.

        An image that cannot be scored raises `ImageError`; with errors="return" the error takes the place of its score
        and the other images are scored.
        """
        check_errors(errors)
        if self.interval == "panel" and not self.calibration.images:
            warnings.warn(f"intervals: {NOT_CALIBRATED}", stacklevel=2)
        images = as_sequence(images)
        batch_size = self.batch_size if batch_size is None else batch_size
        if batch_size < 1:
            raise CallError(f"batch_size must be at least 1, not {batch_size}")
        answers: list[Score | ImageError] = []
        for start in range(0, len(images), batch_size):
            framed = list(frame_each(images[start : start + batch_size], self.config.framer(), start))
            failed = [one for one in framed if isinstance(one, ImageError)]
            if failed and errors == "raise":
                raise failed[0]
            pixels = [one for one in framed if not isinstance(one, ImageError)]
            scores = iter(self.score_pixels(np.ascontiguousarray(np.stack(pixels))) if pixels else ())
            answers += [one if isinstance(one, ImageError) else next(scores) for one in framed]
        for number, answer in enumerate(answers):
            if isinstance(answer, Score) and not answer.known:
                name = images[number]
                shown = os.fspath(name) if isinstance(name, str | os.PathLike) else f"image {number}"
                answers[number] = ImageError(f"{shown}: {NO_NUMBER}")
                if errors == "raise":
                    raise UolError(f"{shown}: {NO_NUMBER}")
        return answers

    def score_exactly(self, pixels: Pixels | Tensor, progress: Progress | None = None) -> list[Score]:
        """Score framed images in float32 throughout, also on a GPU, as tables of results require."""
        if progress is None or len(pixels) <= _BETWEEN_REPORTS:
            return self.score_embedded(self.embed_pixels(pixels))
        scores: list[Score] = []
        for start in range(0, len(pixels), _BETWEEN_REPORTS):
            scores += self.score_embedded(self.embed_pixels(pixels[start : start + _BETWEEN_REPORTS]))
            progress(len(scores), len(pixels))
        return scores

    def compare(self, first: ImageLike, second: ImageLike) -> Comparison:
        """The probabilities that the panel would rate the first image below, similar to or above the second."""
        comparison = self.compare_pixels(*self.framed([first, second]))
        if not all(map(math.isfinite, comparison)):
            raise UolError(NO_NUMBER)
        return comparison

    @overload
    def rank(
        self, images: Images, batch_size: int | None = None, *, errors: Literal["raise"] = "raise"
    ) -> list[Ranked]: ...

    @overload
    def rank(
        self, images: Images, batch_size: int | None = None, *, errors: Literal["return"]
    ) -> list[Ranked | Unranked]: ...

    def rank(
        self, images: Images, batch_size: int | None = None, *, errors: Literal["raise", "return"] = "raise"
    ) -> list[Ranked] | list[Ranked | Unranked]:
        """Rank images from best to worst; images whose interval overlaps that of a rank's best share the rank.

        With errors="return", images that cannot be scored come last, each as `Unranked`.
        """
        check_errors(errors)
        images = as_sequence(images)
        answers = self.score(images, batch_size, errors=errors)
        scores = {i: answer for i, answer in enumerate(answers) if isinstance(answer, Score)}
        order = sorted(scores, key=lambda i: -scores[i].value)
        ranks = rank_with_ties([scores[i] for i in order])
        count = Counter(ranks)
        ranked: list[Ranked | Unranked] = [
            Ranked(rank, i, images[i], scores[i], tied=count[rank] > 1) for rank, i in zip(ranks, order, strict=True)
        ]
        failed = ((i, answer) for i, answer in enumerate(answers) if isinstance(answer, ImageError))
        return ranked + [Unranked(i, images[i], error) for i, error in failed]

    def anchor(self, rated: RatedImages, progress: Progress | None = None) -> BaseScorer:
        """The same model on another panel's scale: its rated images become the references; nothing is trained.

        Intervals are calibrated on the anchors, each scored by comparison with the others. Images that cannot be read
        or show no face are left out with a warning.
        """
        return self.anchor_embedded(*self.embed_anchors(rated, progress))

    def embed_anchors(self, rated: RatedImages, progress: Progress | None = None) -> tuple[RatedImages, Any]:
        """The rated images that can be framed, and these embedded; a warning says which cannot."""
        check_anchors(rated)
        kept: list[int] = []
        parts: list[Any] = []
        failed: list[ImageError] = []
        for number, batch in enumerate(batches_of(rated.images, _ANCHORS_AT_ONCE, progress)):
            start = number * _ANCHORS_AT_ONCE
            pixels = []
            for row, one in enumerate(frame_each(batch, self.config.framer(), start), start):
                if isinstance(one, ImageError):
                    failed.append(one)
                else:
                    kept.append(row)
                    pixels.append(one)
            if pixels:
                parts.append(self.embed_pixels(np.ascontiguousarray(np.stack(pixels))))
        if not failed:
            return rated, parts[0].joined(parts)
        more = "" if len(failed) == 1 else f", and {len(failed) - 1} more"
        if len(kept) < FEWEST_ANCHORS:
            left = f"only {len(kept)} of {counted(len(rated), 'rated image')} can be used"
            raise CallError(f"{left}; anchoring requires at least {FEWEST_ANCHORS} ({failed[0]}{more})")
        warnings.warn(f"{counted(len(failed), 'rated image')} left out: {failed[0]}{more}", stacklevel=3)
        return rated.subset(np.array(kept)), parts[0].joined(parts)

    def submit(self, images: Sequence[Pixels]) -> Callable[[], list[Score]]:
        """Start to score framed images, each (3, crop, crop); the function returned waits for the scores.

        The memory of the images may be overwritten as soon as this returns.
        """
        pixels = np.stack(images)
        return lambda: self.score_pixels(pixels)

    def framed(self, images: Images) -> Pixels:
        """Images as the model requires them: uint8 (N, 3, crop, crop)."""
        config = self.config
        return pack_images(images, config.resize, config.crop, config.framing)


def rank_with_ties(scores: Sequence[Score]) -> list[int]:
    """Competition ranks (1, 1, 3, …) of scores sorted from best to worst, tied while intervals overlap the leader's."""
    ranks: list[int] = []
    leader = 0
    for place, score in enumerate(scores):
        if score.high < scores[leader].low:
            leader = place
        ranks.append(leader + 1)
    return ranks


def check_errors(errors: str) -> None:
    """Refuse an unknown way of treating images that cannot be scored."""
    if errors not in ("raise", "return"):
        raise CallError(f'errors must be "raise" or "return", not {errors!r}')


def check_panel(name: str, panels: Sequence[PanelConfig]) -> None:
    """Refuse a panel that a model does not know."""
    known = [panel.name for panel in panels]
    if not isinstance(name, str):
        raise CallError(f"a panel has a name, {' or '.join(known)}, not {name!r}")
    if name == "all" and name not in known:
        raise CallError(f"panel all: only scores have it (uol score --panel all); name one of {', '.join(known)}")
    if name not in known:
        near = difflib.get_close_matches(name.lower(), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it knows {', '.join(known)}"
        raise CallError(f"panel {name}: this model does not know it; {hint}")


def batches_of(images: Images | ImageLike, batch_size: int, progress: Progress | None = None) -> Iterator[Images]:
    """Images in batches; progress is reported when the next batch is requested."""
    images = as_sequence(images)
    for start in range(0, len(images), batch_size):
        yield images[start : start + batch_size]
        if progress is not None:
            progress(min(start + batch_size, len(images)), len(images))


def check_anchors(rated: RatedImages) -> None:
    """Refuse to make a panel's scale from too few images."""
    if not hasattr(rated, "scores"):
        raise CallError(f"anchoring requires rated images, as uol.load gives them, not {rated!r:.60}")
    if len(rated) < FEWEST_ANCHORS:
        raise CallError(f"{rated.name}: {len(rated)} rated images; anchoring requires at least {FEWEST_ANCHORS}")
