"""What a network is trained on: packed images, and each epoch's batches with their pairs and triplets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from uol.image_cache import cached_images
from uol.order import Pairs, Triplets, balanced_pairs, hard_triplets
from uol.rated_images import Indices, RatedImages
from uol.training.recipe import Recipe


@dataclass(frozen=True)
class PackedImages:
    """Rated images beside their pixels, uint8 (N, 3, resize, resize), of which a network sees a `crop` square."""

    rated: RatedImages
    pixels: Tensor
    crop: int

    @classmethod
    def pack(cls, rated: RatedImages, recipe: Recipe) -> PackedImages:
        """Decode and resize all images; files are decoded once and then come from the cache.

        Pack a whole data set and take subsets of that: every list of files has a cache of its own.
        """
        return cls(rated, torch.from_numpy(cached_images(rated.images, recipe.model.resize)), recipe.model.crop)

    @property
    def centre(self) -> Tensor:
        """The central squares, uint8 (N, 3, crop, crop): what a trained network is shown."""
        margin = (self.pixels.shape[-1] - self.crop) // 2
        return self.pixels[..., margin : margin + self.crop, margin : margin + self.crop]

    def to(self, device: torch.device) -> PackedImages:
        """The same with its pixels on a device: 5500 images of 256 pixels take 1.1 GB."""
        return replace(self, pixels=self.pixels.to(device))

    def subset(self, indices: Indices) -> PackedImages:
        """The images at `indices`."""
        return PackedImages(self.rated.subset(indices), self.pixels[torch.from_numpy(indices)], self.crop)

    def __len__(self) -> int:
        return len(self.rated)


class Batch(NamedTuple):
    """M images, P places for pairs and one triplet per image; weights are 0 where a place is empty."""

    images: Tensor  # uint8 (M, 3, size, size)
    scores: Tensor  # (M,) on the panel's scale
    rating_variance: Tensor  # (M,), NaN where unknown
    first: Tensor  # (P,)
    second: Tensor  # (P,)
    order: Tensor  # (P,)
    pair_weight: Tensor  # (P,)
    anchor: Tensor  # (M,)
    near: Tensor  # (M,)
    far: Tensor  # (M,)
    triplet_weight: Tensor  # (M,)


class EpochPlan(NamedTuple):
    """Which images form the batches of an epoch, (B, M), how each is shown, and what is compared in each."""

    images: Indices
    flip: npt.NDArray[np.bool_]
    corner: Indices  # (B, M, 2): row and column where the crop begins
    pairs: Pairs
    triplets: Triplets


def steps_per_epoch(images: int, recipe: Recipe) -> int:
    """Full batches in an epoch; a set smaller than one batch makes one small batch."""
    return max(images // recipe.batch_size, 1)


def plan_epoch(rated: RatedImages, recipe: Recipe, epoch: int) -> EpochPlan:
    """Shuffle the images into batches and choose pairs and triplets for all of them.

    The plan depends on the seed and the epoch alone, so that a resumed run goes on exactly as it would have. What is
    left over after the last full batch sits out; which images do changes with every epoch.
    """
    rng = np.random.default_rng([recipe.seed, epoch])
    batches = steps_per_epoch(len(rated), recipe)
    index = rng.permutation(len(rated))[: batches * min(recipe.batch_size, len(rated))].reshape(batches, -1)
    scores = rated.scores[index]
    pairs = balanced_pairs(scores, recipe.threshold * rated.scale.unit, recipe.pairs_per_image, rng)
    flip = rng.random(index.shape) < 0.5 if recipe.flip else np.zeros(index.shape, bool)
    margin = recipe.model.resize - recipe.model.crop
    corner = (
        rng.integers(0, margin + 1, (*index.shape, 2))
        if recipe.random_crop
        else np.full((*index.shape, 2), margin // 2)
    )
    return EpochPlan(index, flip, corner, pairs, hard_triplets(scores))


def epoch_batches(data: PackedImages, plan: EpochPlan, device: torch.device) -> Iterator[Batch]:
    """The batches of a plan, on the device; what is not there yet is moved once per epoch."""

    def moved(values: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(device)

    scores, variance = moved(data.rated.scores).float(), moved(data.rated.variances).float()
    index, flip, corner = moved(plan.images), moved(plan.flip), moved(plan.corner)
    pixels = data.pixels.to(device)
    first, second, order, pair_valid = map(moved, plan.pairs)
    anchor, near, far, triplet_valid = map(moved, plan.triplets)
    for b in range(len(index)):
        rows = index[b]
        yield Batch(
            images=_shown(pixels[rows], data.crop, corner[b], flip[b]),
            scores=scores[rows],
            rating_variance=variance[rows],
            first=first[b],
            second=second[b],
            order=order[b],
            pair_weight=pair_valid[b].float(),
            anchor=anchor[b],
            near=near[b],
            far=far[b],
            triplet_weight=triplet_valid[b].float(),
        )


def _shown(images: Tensor, crop: int, corner: Tensor, flip: Tensor) -> Tensor:
    """Crop each image at its corner, and mirror those that are flipped."""
    along = torch.arange(crop, device=images.device)
    columns = torch.where(flip[:, None], along.flip(0), along) + corner[:, 1:]
    rows = along + corner[:, :1]
    number = torch.arange(len(images), device=images.device)
    return images[number[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
