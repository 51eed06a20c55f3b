"""Training data: the plan of each epoch (which images, which pairs), and batches on the device."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from uol.order.losses import order_target, pair_balance
from uol.order.order import Triplets, balanced_pairs, hard_triplets
from uol.ratings.rated_images import Indices, RatedImages
from uol.training.augmentation import augment_and_note, blend, draw_blend_shares
from uol.training.packed import PackedImages
from uol.training.recipe import Recipe


class Batch(NamedTuple):
    """M images, P places for pairs and one triplet per image; the weight of an empty place is 0."""

    images: Tensor  # (M, 3, crop, crop), uint8 or 0–1
    panel: Tensor  # (M,): the number of the panel, the same for all images of a batch
    scores: Tensor  # (M,) on the panel's scale; of several panels, stretched to that of the first
    rating_variance: Tensor  # (M,), NaN if unknown
    histogram: Tensor  # (M, L): the share of ratings at each level, NaN if unknown; L = 0 if all are unknown
    attributes: Tensor  # (M, K): what the method is given besides pixels, such as gender and ethnicity
    mirrored: Tensor  # (M,): whether the image is shown mirrored
    first: Tensor  # (P,)
    second: Tensor  # (P,)
    target: Tensor  # (P, 3): the probabilities of less, similar and greater
    pair_weight: Tensor  # (P,)
    anchor: Tensor  # (M,)
    near: Tensor  # (M,)
    far: Tensor  # (M,)
    triplet_weight: Tensor  # (M,)


class EpochPlan(NamedTuple):
    """The images of each batch of an epoch, (B, M), and the pairs and triplets that are compared in it."""

    images: Indices
    first: Indices  # (B, P)
    second: Indices  # (B, P)
    pair_valid: npt.NDArray[np.bool_]  # (B, P)
    triplets: Triplets


def steps_per_epoch(images: int, recipe: Recipe) -> int:
    """Full batches in an epoch; a set smaller than one batch makes one small batch."""
    return max(images // recipe.batch_size, 1)


def plan_epoch(rated: RatedImages, recipe: Recipe, epoch: int, panel: Indices | None = None) -> EpochPlan:
    """Shuffle the images into batches and choose pairs and triplets for all of them.

    The plan depends on the seed and the epoch alone: a resumed run continues exactly as an uninterrupted one. Images
    that do not fill a last batch are left out, others in every epoch. With several panels, each
    batch has images of one `panel`, (N,), alone: panels have different standards, and are never compared.
    """
    rng = np.random.default_rng([recipe.seed, epoch])
    rows = _shuffled(np.arange(len(rated)), recipe, rng) if panel is None else _shuffled_panels(panel, recipe, rng)
    return _plan(rated, recipe, rows, rng)


def _shuffled(rows: Indices, recipe: Recipe, rng: np.random.Generator) -> Indices:
    """Images in full batches, (B, M)."""
    batches = steps_per_epoch(len(rows), recipe)
    chosen = rng.permutation(len(rows))[: batches * min(recipe.batch_size, len(rows))]
    return rows[chosen].reshape(batches, -1)


def _shuffled_panels(panel: Indices, recipe: Recipe, rng: np.random.Generator) -> Indices:
    """Full batches of each panel, as many as the recipe's passes over it make, in random order: (B, M)."""
    panels = _rows_of(panel)
    batches = []
    for rows, passes in zip(panels, recipe.panel_passes or [1.0] * len(panels), strict=True):
        full = len(rows) // recipe.batch_size
        wanted = max(round(full * passes), 1)
        while wanted > 0:  # each pass is shuffled separately: no batch has an image twice
            batches.append(_shuffled(rows, recipe, rng)[:wanted])
            wanted -= full
    together = np.concatenate(batches)
    return together[rng.permutation(len(together))]


def _rows_of(panel: Indices) -> list[Indices]:
    return [np.flatnonzero(panel == number) for number in range(int(panel.max()) + 1)]


def _plan(rated: RatedImages, recipe: Recipe, index: Indices, rng: np.random.Generator) -> EpochPlan:
    """Choose what is compared in each of the batches, (B, M)."""
    scores = rated.scores[index]
    if recipe.pairs == "all":
        others = ~np.eye(index.shape[1], dtype=bool)
        first, second = np.nonzero(others)
        shape = (len(index), len(first))
        pairs = np.broadcast_to(first, shape), np.broadcast_to(second, shape), np.ones(shape, bool)
    else:
        chosen = balanced_pairs(scores, recipe.threshold * rated.scale.unit, recipe.pairs_per_image, rng)
        pairs = chosen.first, chosen.second, chosen.valid
    return EpochPlan(index, *pairs, hard_triplets(scores))


class Feed:
    """Makes the batches of a planned epoch one after another, by operations on the device alone.

    The plan is in buffers at fixed addresses, and a counter on the device selects the next batch: the steps of an epoch
    can be queued, or recorded once and replayed, without the host. All pixels are on the device if they fit (5500
    images of 256 pixels take 1.1 GB); if not, `stage` copies those of each batch.
    """

    def __init__(
        self,
        data: PackedImages,
        recipe: Recipe,
        device: torch.device,
        resident: bool | None = None,
        known: Tensor | None = None,
    ) -> None:
        """`known` (N, K) is what the method is given of the images besides pixels; by default their attributes."""
        rated = data.rated
        self._device = device
        self._recipe = recipe
        self._crop = data.crop
        self._threshold = recipe.threshold * rated.scale.unit
        self._panel = self._to_device(np.zeros(len(rated), np.int64) if data.panel is None else data.panel)
        self._scores = self._to_device(rated.scores)
        self._variance = self._to_device(rated.variances)
        self._error = self._to_device(_standard_errors(rated, recipe))
        self._histogram = self._to_device(_rating_shares(rated))
        self._attributes = (data.attributes if known is None else known).to(device)
        self.resident = _fits(data.pixels, device) if resident is None else resident
        self._pixels = data.pixels.to(device) if self.resident else data.pixels
        self._staged: Tensor | None = None
        self._plan: dict[str, Tensor] = {}
        self._images: Indices = np.zeros((0, 0), np.intp)
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.augment = augment_and_note

    def load(self, plan: EpochPlan) -> None:
        """Copy an epoch's plan to the device and start at its first batch."""
        arrays: dict[str, npt.NDArray[Any]] = plan._asdict() | plan.triplets._asdict()
        arrays.pop("triplets")
        self._images = plan.images
        for name, values in arrays.items():
            copied = self._to_device(np.array(values, order="C"))  # a copy: buffers are written to, plans are not
            if name in self._plan and self._plan[name].shape == copied.shape:
                self._plan[name].copy_(copied)  # in place: a recorded step reads this memory
            else:
                self._plan[name] = copied
        self.position.zero_()

    def stage(self, step: int) -> None:
        """Copy the pixels of a batch to the device, unless all pixels are there."""
        if self.resident:
            return
        chosen = self._pixels[torch.from_numpy(self._images[step])]
        if self._staged is None or self._staged.shape != chosen.shape:
            self._staged = chosen.to(self._device)
        else:
            self._staged.copy_(chosen)

    def batch(self) -> Batch:
        """The batch at the counter's position; the counter does not change."""
        now = {name: values.index_select(0, self.position)[0] for name, values in self._plan.items()}
        rows = now["images"]
        images = self._staged if self._staged is not None else self._pixels[rows]
        how = self._recipe.augmentation
        shown, mirrored = self.augment(images, self._crop, how)
        known = {
            "images": shown,
            "scores": self._scores[rows],
            "rating_variance": self._variance[rows],
            "histogram": self._histogram[rows],
            "attributes": self._attributes[rows],
        }
        error, triplets = self._error[rows], now["valid"]
        if how.mix:
            share = draw_blend_shares(len(rows), how, self._device)
            known = {name: blend(values, share) for name, values in known.items()}
            error = torch.hypot(share * error, (1 - share) * error.roll(1))
            whole = share == 1  # triplets were chosen by the scores of whole images
            triplets = triplets & whole[now["anchor"]] & whole[now["near"]] & whole[now["far"]]
        first, second = now["first"], now["second"]
        difference = known["scores"][first] - known["scores"][second]
        weight = now["pair_valid"].float()
        if self._recipe.pairs == "all":
            weight = pair_balance(difference, self._threshold, weight)
        return Batch(
            **known,
            mirrored=mirrored,
            panel=self._panel[rows],
            first=first,
            second=second,
            target=order_target(difference, self._threshold, torch.hypot(error[first], error[second])),
            pair_weight=weight,
            anchor=now["anchor"],
            near=now["near"],
            far=now["far"],
            triplet_weight=triplets.float(),
        )

    def _to_device(self, values: npt.NDArray[Any]) -> Tensor:
        if values.dtype == np.float64:
            values = values.astype(np.float32)  # precise enough, and some devices support no more
        return torch.from_numpy(values).to(self._device)


def fixed_batches(data: PackedImages, recipe: Recipe, device: torch.device, known: Tensor | None = None) -> list[Batch]:
    """The images in batches without augmentation, with fixed pairs and triplets, to compare losses between epochs.

    Each panel is included once, even one that is smaller than a batch.
    """
    plain = recipe.with_changes({"augmentation": {"flip": False}, "seed": 0})
    feed = Feed(data, plain, device, known=known)
    batches = []
    for rows in [np.arange(len(data))] if data.panel is None else _rows_of(data.panel):
        rng = np.random.default_rng([0, 0])
        plan = _plan(data.rated, plain, _shuffled(rows, plain, rng), rng)
        feed.load(plan)
        for step in range(len(plan.images)):
            feed.stage(step)
            batches.append(feed.batch())
            feed.position += 1
    return batches


def _standard_errors(rated: RatedImages, recipe: Recipe) -> npt.NDArray[np.float64]:
    """Standard errors of the mean scores, (N,); 0 if unknown or if targets are hard."""
    if recipe.order_target == "hard":
        return np.zeros(len(rated))
    known = np.isfinite(rated.variances) & (rated.counts > 0)
    return np.sqrt(np.where(known, rated.variances, 0.0) / np.maximum(rated.counts, 1))


def _rating_shares(rated: RatedImages) -> npt.NDArray[np.float64]:
    if rated.histograms is None:
        return np.zeros((len(rated), 0))
    total = rated.histograms.sum(-1, keepdims=True)
    return np.where(total > 0, rated.histograms / np.maximum(total, 1), np.nan)


def _fits(pixels: Tensor, device: torch.device) -> bool:
    """Whether all pixels fit on the device, with half of its free memory left for the network."""
    if device.type != "cuda":
        return device.type == "cpu" or pixels.nbytes < 2**31
    free, _ = torch.cuda.mem_get_info(device)
    return pixels.nbytes < free / 2
