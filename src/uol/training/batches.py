"""What a network is trained on: packed images, and each epoch's batches with their pairs and triplets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from uol.images import pack_images
from uol.order import Pairs, Triplets, balanced_pairs, hard_triplets
from uol.rated_images import Indices, RatedImages
from uol.training.recipe import Recipe


@dataclass(frozen=True)
class PackedImages:
    """Rated images beside their pixels, uint8 (N, 3, size, size), ready for a network."""

    rated: RatedImages
    pixels: Tensor

    @classmethod
    def pack(cls, rated: RatedImages, recipe: Recipe) -> PackedImages:
        """Decode, resize and crop all images."""
        return cls(rated, torch.from_numpy(pack_images(rated.images, recipe.model.resize, recipe.model.crop)))

    def subset(self, indices: Indices) -> PackedImages:
        """The images at `indices`."""
        return PackedImages(self.rated.subset(indices), self.pixels[torch.from_numpy(indices)])

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
    """Which images form the batches of an epoch, (B, M), and what is compared in each."""

    index: Indices
    flip: Indices
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
    flip = rng.integers(0, 2, index.shape) if recipe.flip else np.zeros_like(index)
    return EpochPlan(index, flip, pairs, hard_triplets(scores))


def epoch_batches(data: PackedImages, plan: EpochPlan, device: torch.device) -> Iterator[Batch]:
    """The batches of a plan; everything but the pixels is moved to the device once."""
    scores = torch.from_numpy(data.rated.scores).float().to(device)
    variance = torch.from_numpy(data.rated.variances).float().to(device)
    index = torch.from_numpy(plan.index)
    flip = torch.from_numpy(plan.flip.astype(bool)).to(device)
    first, second, order, pair_valid = (torch.from_numpy(part).to(device) for part in plan.pairs)
    anchor, near, far, triplet_valid = (torch.from_numpy(part).to(device) for part in plan.triplets)
    for b in range(len(index)):
        images = data.pixels[index[b].to(data.pixels.device)].to(device)
        rows = index[b].to(device)
        yield Batch(
            images=torch.where(flip[b, :, None, None, None], images.flip(-1), images),
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
