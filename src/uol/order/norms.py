"""Norms over batches: a copy of a network whose norms have the statistics of given images.

A network that several panels train sees batches of one panel each, and its norms normalise every batch by its own
statistics; what they keep for later is a mean over panels, which suits none of them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from uol.order.model import OrderModel

_BATCH = 64


@torch.no_grad()
def with_statistics(model: OrderModel, images: Tensor) -> OrderModel:
    """A copy whose batch norms have the statistics of images, uint8 (N, 3, size, size); the model itself without any.

    They are the mean over batches, which are drawn at random but always alike.
    """
    if not _norms(model):
        return model
    own = copy.deepcopy(model).eval()
    for norm in _norms(own):
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean of what follows
        norm.train()
    device = own.comparator.first.weight.device
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    for rows in torch.split(order, _BATCH):
        if len(rows) > 1 or len(images) == 1:  # a single image left over would count as much as a batch
            own.features(images[rows].to(device))  # norms behind the feature maps, too, have to see them
    return own.eval()


@contextmanager
def normalised_by_batch(network: nn.Module) -> Iterator[None]:
    """Let batch norms of a network that answers normalise each batch by its own statistics, and learn nothing of it."""
    kept = [(norm, norm.training, norm.track_running_stats) for norm in _norms(network)]
    for norm, *_ in kept:
        norm.train()
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm, training, tracking in kept:
            norm.train(training)
            norm.track_running_stats = tracking


def _norms(network: nn.Module) -> list[_BatchNorm]:
    return [module for module in network.modules() if isinstance(module, _BatchNorm)]
