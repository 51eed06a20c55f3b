"""What a network is shown of a framed image, and the views that it is asked about; its answers are averaged.

A network answers a little differently about an image, its mirror image, and either a little nearer or farther away. To
people they are one face, so the differences are the network's own error, and the mean has less of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from uol.order.config import ModelConfig, ScoringConfig

_AT_ONCE = 256  # images resized together


def views(images: Tensor, scoring: ScoringConfig) -> Iterator[Tensor]:
    """The views of images, uint8 or 0–1 (N, 3, S, S), one after another: of each zoom the image, then its mirror image.

    All are of one kind: as the images are if none is zoomed, else 0–1.
    """
    if scoring.zooms != (1.0,) and not images.is_floating_point():
        images = images.float() / 255
    for share in scoring.zooms:
        shown = _zoomed(images, share)
        yield shown
        if scoring.mirror:
            yield shown.flip(-1)


def shown_to(pixels: Tensor, config: ModelConfig, framed: ModelConfig) -> Tensor:
    """Images framed for one model, (N, 3, S, S), as another is shown them that sees within: in its size, its part.

    They stay of their kind, uint8 or 0–1.
    """
    size = round(framed.crop * config.resize / framed.resize)
    if size != framed.crop:
        parts = [_resized(part, size) for part in torch.split(pixels, _AT_ONCE)]
        pixels = torch.cat(parts)
    margin = (size - config.crop) // 2
    return pixels[..., margin : margin + config.crop, margin : margin + config.crop]


def _resized(pixels: Tensor, size: int) -> Tensor:
    resized = F.interpolate(pixels.float(), (size, size), mode="bilinear", antialias=True)
    return resized if pixels.is_floating_point() else resized.round().clamp(0, 255).byte()


def _zoomed(images: Tensor, share: float) -> Tensor:
    """The middle of images with this share of their width, in their size; more than all of it repeats the border."""
    size = int(images.shape[-1])  # a tensor while a graph is recorded
    margin = round(size * (share - 1) / 2)
    if margin == 0:
        return images
    part = slice(-margin, margin)
    shown = images[..., part, part] if margin < 0 else F.pad(images, [margin] * 4, mode="replicate")
    return F.interpolate(shown, (size, size), mode="bicubic", align_corners=False).clamp(0, 1)
