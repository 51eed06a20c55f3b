"""Norms over batches: a copy of a network whose norms have the statistics of given images.

A network that several panels train sees batches of one panel each, and its norms normalise every batch by its own
statistics; what they keep for later is a mean over panels, which suits none of them.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from uol.model import OrderModel

_BATCH = 64


@torch.no_grad()
def with_statistics(model: OrderModel, images: Tensor) -> OrderModel:
    """A copy whose batch norms have the statistics of images, uint8 (N, 3, size, size); the model itself without any.

    They are the mean over batches, which are drawn at random but always alike.
    """
    if not any(isinstance(module, _BatchNorm) for module in model.modules()):
        return model
    own = copy.deepcopy(model).eval()
    for module in own.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            module.momentum = None  # the plain mean of what follows
            module.train()
    device = own.comparator.first.weight.device
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    for rows in torch.split(order, _BATCH):
        if len(rows) > 1 or len(images) == 1:  # a single image left over would count as much as a batch
            own.backbone.feature_maps(images[rows].to(device))
    return own.eval()
