"""Vary training images: whole batches on the device, by draws that follow the epoch's seed."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from uol.images.faces import ELLIPSE_CENTRE, ELLIPSE_RADII
from uol.order.backbones import IMAGENET_MEAN
from uol.training.recipe import Augmentation

# The ellipse of an aligned face in coordinates from −1 to 1.
_FACE_CENTRE, _FACE_RADII = [2 * x - 1 for x in ELLIPSE_CENTRE], [2 * r for r in ELLIPSE_RADII]
_KNOTS = 5  # of the field that bends images, along each side
_ERASED = (0.15, 0.50)  # half-sides of an erased box, in the same coordinates


def augment(images: Tensor, crop: int, how: Augmentation) -> Tensor:
    """Vary a batch of images, uint8 (M, 3, S, S), to (M, 3, crop, crop): uint8 where only moved, else 0 to 1."""
    return augment_and_note(images, crop, how)[0]


def augment_and_note(images: Tensor, crop: int, how: Augmentation) -> tuple[Tensor, Tensor]:
    """The varied images, and which of them are mirrored, (M,)."""
    shown, mirrored = (_warped if how.warps else _cropped)(images, crop, how)
    if how.recolours:
        shown = _recoloured(_unit(shown), how)
    if how.mask or how.erase:
        shown = _blanked(_unit(shown), how)
    return shown, mirrored


def draw_blend_shares(count: int, how: Augmentation, device: torch.device) -> Tensor:
    """Draw each image's weight in its blend, (M,): 1 if it is not blended, else from a half up."""
    return torch.where(_chance(how.mix, count, device), 0.5 + 0.5 * torch.rand(count, device=device), 1.0)


def blend(values: Tensor, share: Tensor) -> Tensor:
    """Blend values of images, (M, …): share · value + (1 − share) · value of the previous image."""
    own = share.view(-1, *[1] * (values.ndim - 1))
    values = _unit(values)
    return torch.where(own < 1, own * values + (1 - own) * values.roll(1, 0), values)  # NaN must not spread


def _cropped(images: Tensor, crop: int, how: Augmentation) -> tuple[Tensor, Tensor]:
    """Crop by whole pixels, at the centre or a random place, and mirror half of the images."""
    count, device = len(images), images.device
    margin = images.shape[-1] - crop
    along = torch.arange(crop, device=device)
    if how.random_crop:
        corner = (torch.rand(2, count, 1, device=device) * (margin + 1)).long().clamp_max(margin)
    else:
        corner = torch.full((2, count, 1), margin // 2, device=device)
    rows, columns = along + corner[0], along.expand(count, crop)
    mirrored = torch.zeros(count, dtype=torch.bool, device=device)
    if how.flip:
        mirrored = _chance(0.5, count, device)
        columns = torch.where(mirrored[:, None], along.flip(0), along)
    columns = columns + corner[1]
    number = torch.arange(count, device=device)
    shown = images[number[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    return shown, mirrored


def _warped(images: Tensor, crop: int, how: Augmentation) -> tuple[Tensor, Tensor]:
    """Turn, zoom, shift, bend, crop and mirror in one resampling; beyond the border its pixels are repeated."""
    count, device = len(images), images.device
    share = crop / images.shape[-1]  # of the frame that is shown
    angle = _within(math.radians(how.rotation), count, device)
    zoom = share * (1 + _within(how.zoom, count, device))
    room = 1 - share if how.random_crop else 0.0
    away = torch.stack([_within(share * how.shift + room, count, device) for _ in range(2)], -1)
    mirror = torch.where(_chance(0.5, count, device), -1.0, 1.0) if how.flip else torch.ones(count, device=device)
    cosine, sine = zoom * angle.cos(), zoom * angle.sin()
    linear = torch.stack([cosine * mirror, -sine, sine * mirror, cosine], -1).view(count, 2, 2)
    grid = F.affine_grid(torch.cat([linear, away[:, :, None]], -1), [count, 3, crop, crop], align_corners=False)
    if how.bend:
        knots = _within(share * how.bend, 2 * _KNOTS * _KNOTS * count, device).view(count, 2, _KNOTS, _KNOTS)
        field = F.interpolate(knots, (crop, crop), mode="bicubic", align_corners=True)
        grid = grid + field.permute(0, 2, 3, 1)
    # Bicubic: bilinear resampling would blur every training image, but no image that is scored later.
    moved = F.grid_sample(_unit(images), grid, mode="bicubic", padding_mode="border", align_corners=False)
    return moved.clamp(0, 1), mirror < 0


def _recoloured(images: Tensor, how: Augmentation) -> Tensor:
    count, device = len(images), images.device

    def factor(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand((count, *shape, 1, 1), device=device)

    red, green, blue = (images[:, channel : channel + 1] for channel in range(3))
    grey = 0.299 * red + 0.587 * green + 0.114 * blue
    saturation = factor(*how.saturation, 1) * (torch.rand((count, 1, 1, 1), device=device) >= how.grey)
    images = grey + (images - grey) * saturation
    mean = grey.mean((-2, -1), keepdim=True)
    images = mean + (images - mean) * factor(1 - how.contrast, 1 + how.contrast, 1)
    images = images * factor(1 - how.channel_gain, 1 + how.channel_gain, 3)
    return (images + factor(-how.brightness, how.brightness, 1)).clamp(0, 1)


def _blanked(images: Tensor, how: Augmentation) -> Tensor:
    """Put the mean colour outside the face's ellipse in some images, and into a box in some."""
    count, size, device = len(images), images.shape[-1], images.device
    along = (2 * torch.arange(size, device=device) + 1) / size - 1
    y, x = along[:, None], along[None, :]
    outside = ((x - _FACE_CENTRE[0]) / _FACE_RADII[0]) ** 2 + ((y - _FACE_CENTRE[1]) / _FACE_RADII[1]) ** 2 > 1
    hidden = outside & _chance(how.mask, count, device)[:, None, None]
    middle = _within(1.0, 2 * count, device).view(2, count, 1, 1)
    half = _ERASED[0] + (_ERASED[1] - _ERASED[0]) * torch.rand((2, count, 1, 1), device=device)
    box = ((y - middle[0]).abs() < half[0]) & ((x - middle[1]).abs() < half[1])
    hidden = hidden | (box & _chance(how.erase, count, device)[:, None, None])
    blank = torch.stack([images.new_full((1, 1), value) for value in IMAGENET_MEAN])  # created on the device
    return torch.where(hidden[:, None], blank, images)


def _unit(images: Tensor) -> Tensor:
    return images.float() / 255 if images.dtype == torch.uint8 else images


def _within(amount: float, count: int, device: torch.device) -> Tensor:
    return amount * (2 * torch.rand(count, device=device) - 1)


def _chance(probability: float, count: int, device: torch.device) -> Tensor:
    return torch.rand(count, device=device) < probability
