"""Rated images with their pixels in memory, to train a network or to be asked about; read without torch."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from uol.images.cache import Progress, cached_images
from uol.order.config import ModelConfig
from uol.ratings.rated_images import Indices, RatedImages
from uol.training.attributes import attributes_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class PackedImages:
    """Rated images with their pixels, uint8 (N, 3, resize, resize), of which a network sees a `crop` square.

    If several panels were joined (`uol.training.panels`), `parts` are the single panels, in the same order.
    """

    rated: RatedImages
    pixels: Tensor
    crop: int
    parts: tuple[PackedImages, ...] = ()

    @classmethod
    def pack(
        cls, rated: RatedImages, model: ModelConfig, progress: Progress | None = None, as_arrays: bool = False
    ) -> PackedImages:
        """Frame all images as a model requires; files are decoded once and then read from the cache.

        Pack a whole data set and take subsets of it: every list of files has a separate cache. `as_arrays` is for a
        model to be asked without torch: it answers about arrays, and trains on tensors.
        """
        pixels: Any = cached_images(rated.images, model.resize, progress=progress, framing=model.framing)
        if not as_arrays:
            from torch import from_numpy

            pixels = from_numpy(pixels)
        return cls(rated, pixels, model.crop)

    @property
    def centre(self) -> Tensor:
        """The central squares, uint8 (N, 3, crop, crop): the input of a trained network."""
        margin = (self.pixels.shape[-1] - self.crop) // 2
        return self.pixels[..., margin : margin + self.crop, margin : margin + self.crop]

    @property
    def attributes(self) -> Tensor:
        """Gender and ethnicity as `attributes_of` codes them, (N, 2)."""
        from torch import from_numpy

        return from_numpy(np.concatenate([attributes_of(panel.rated) for panel in self.panels]))

    @property
    def checksum(self) -> str:
        """A checksum of all pixels, which differs for other photographs under the same names."""
        sums = [zlib.crc32(np.ascontiguousarray(row).data) for row in np.asarray(self.pixels)]
        return f"{zlib.crc32(np.array(sums, np.uint32).data):08x}"

    @property
    def fingerprint(self) -> str:
        """A digest of everything that training uses: pixels and ratings."""
        if self.parts:
            return hashlib.sha256(" ".join(part.fingerprint for part in self.parts).encode()).hexdigest()
        rated = self.rated
        digest = hashlib.sha256(f"{rated.fingerprint} {self.checksum}".encode())
        digest.update(np.ascontiguousarray(rated.counts).tobytes())
        digest.update(b"" if rated.histograms is None else np.ascontiguousarray(rated.histograms).tobytes())
        return digest.hexdigest()

    def subset(self, indices: Indices) -> PackedImages:
        """The images at `indices`."""
        if self.parts:
            raise ValueError("take subsets of panels before they are joined")
        return PackedImages(self.rated.subset(indices), self.pixels[indices], self.crop)

    @property
    def panels(self) -> tuple[PackedImages, ...]:
        """The panels that were joined, or this one."""
        return self.parts or (self,)

    @property
    def panel(self) -> Indices | None:
        """The number of each image's panel, (N,); None if there is one panel."""
        return np.repeat(np.arange(len(self.parts)), [len(part) for part in self.parts]) if self.parts else None

    def __len__(self) -> int:
        return len(self.rated)
