"""Several processes (ranks) that train one network together, on Lightning Fabric's DDP.

Every rank has the plan of the whole batch and draws the same random numbers. It computes the feature maps of its share
of the images; the maps of all ranks are gathered, and each rank computes the losses of the whole batch from them.
Pairs, triplets, normalised dispersions and batch norms are therefore those of one process with the same batch, and the
losses that are reported are too. The gradient of gathered maps is that of the rank's share times the number of ranks:
DDP's mean over ranks gives the gradient of the whole batch, for the backbone and for what follows it.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import torch
import torch.distributed as dist
import torch.nn.functional as F
from lightning.fabric import Fabric
from lightning.fabric.strategies import DDPStrategy  # type: ignore[attr-defined]
from torch import Tensor, nn

from uol.errors import CallError
from uol.order.backbones import Backbone

Value = TypeVar("Value")

_PATIENCE = timedelta(days=1)  # ranks wait while the first one tests a network
# Of torchrun, SLURM and Fabric: the first rank is the first process of the first machine.
_PLACES = ("RANK", "LOCAL_RANK", "GROUP_RANK", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "NODE_RANK")


class _Machines(NamedTuple):
    devices: int = 1
    nodes: int = 1


_machines = _Machines()


def launch(devices: int, nodes: int, accelerator: str = "auto") -> None:
    """Start the other ranks, which repeat this command, or join those that torchrun or SLURM started."""
    global _machines
    if devices < 1 or nodes < 1:
        raise CallError("--devices and --nodes must be at least 1")
    if devices * nodes == 1:
        return
    there = torch.cuda.device_count()
    if _chosen(accelerator) == "cuda" and devices > there:
        raise CallError(f"--devices {devices}: this machine has {there}")
    _machines = _Machines(devices, nodes)
    make_fabric(accelerator, "32-true")


def silence_others(devices: int, nodes: int) -> None:
    """Let ranks other than the first print nothing, errors that all of them have included."""
    if devices * nodes > 1 and any(os.environ.get(name, "0") != "0" for name in _PLACES):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(nowhere, stream.fileno())  # what C++ writes too


def make_fabric(accelerator: str, precision: Any) -> Fabric:
    """Fabric for one process, or for all that were launched."""
    for name in ("lightning.fabric", "lightning.pytorch.utilities.rank_zero", "lightning.fabric.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.WARNING)  # its messages do not concern users
    accelerator = _chosen(accelerator)
    if count() == 1 and _machines == (1, 1):
        return Fabric(accelerator=accelerator, devices=1, precision=precision)
    # Buffers are the same on all ranks without copying them.
    strategy = DDPStrategy(timeout=_PATIENCE, forward_sync_buffers=False)
    devices, nodes = _machines
    fabric = Fabric(accelerator=accelerator, devices=devices, num_nodes=nodes, strategy=strategy, precision=precision)
    fabric.launch()  # the first time it starts processes, later it finds them
    return fabric


def _chosen(accelerator: str) -> str:
    if accelerator != "auto":
        return accelerator
    return "cuda" if torch.cuda.is_available() else "cpu"


def count() -> int:
    """The number of ranks."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_first() -> bool:
    """Whether this is the rank that writes files and reports."""
    return not dist.is_initialized() or dist.get_rank() == 0


def agree(value: Value) -> Value:
    """The first rank's value, on all ranks."""
    if count() == 1:
        return value
    values = [value]
    dist.broadcast_object_list(values, 0)
    return values[0]


@contextmanager
def first_rank_first() -> Iterator[None]:
    """Let the first rank do something before the others do it, such as fill a cache on disk."""
    if count() > 1 and not is_first():
        dist.barrier()
    yield
    if count() > 1 and is_first():
        dist.barrier()


def check_shares(batch: int) -> None:
    """Refuse batches with fewer images than there are ranks."""
    if batch < count():
        raise CallError(f"a batch of {batch} images cannot be shared by {count()} devices; raise batch_size")


@contextmanager
def shared_images(method: nn.Module) -> Iterator[None]:
    """Let each rank compute the feature maps of its share of a batch, and gather those of all."""
    backbones = [module for module in method.modules() if isinstance(module, Backbone)] if count() > 1 else []
    for backbone in backbones:
        backbone.__dict__["feature_maps"] = partial(_gathered_maps, backbone.feature_maps)
    try:
        yield
    finally:
        for backbone in backbones:
            del backbone.__dict__["feature_maps"]


def _gathered_maps(feature_maps: Callable[[Tensor], Any], images: Tensor) -> Any:
    shares = images.tensor_split(count())
    alone = F.batch_norm
    F.batch_norm = partial(_batch_norm, alone)
    try:
        maps = feature_maps(shares[dist.get_rank()])
    finally:
        F.batch_norm = alone
    sizes = [len(share) for share in shares]
    if isinstance(maps, Tensor):
        return _Gather.apply(maps, sizes)
    return [_Gather.apply(one, sizes) for one in maps]


class _Gather(torch.autograd.Function):
    """The rows of all ranks; all ranks compute the same from them, and each has the gradient of all rows."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int]) -> Tensor:
        ctx.sizes = sizes
        most = max(sizes)  # shares differ by one image at most
        padded = F.pad(rows.contiguous(), (0, 0) * (rows.ndim - 1) + (0, most - len(rows))).contiguous()
        gathered = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(gathered, padded)
        return torch.cat([part[:size] for part, size in zip(gathered, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        gradient = cast(Tensor, gradients[0])
        return torch.split(gradient, ctx.sizes)[dist.get_rank()] * len(ctx.sizes), None


class _Sum(torch.autograd.Function):
    """The sum of all ranks' values; each rank's value has part in what every rank computes from the sum."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Tensor:
        gradient = cast(Tensor, gradients[0]).clone()
        dist.all_reduce(gradient)
        return gradient


def _sum(values: Tensor) -> Tensor:
    return cast(Tensor, _Sum.apply(values))


def _batch_norm(
    normalise: Callable[..., Tensor],
    images: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Batch normalisation by the statistics of all ranks' images; torch's synchronised form is for GPUs alone."""
    if not training:
        return normalise(images, running_mean, running_var, weight, bias, training, momentum, eps)
    x, over = images.float(), [0, *range(2, images.ndim)]
    shape = (1, -1) + (1,) * (images.ndim - 2)
    places = torch.tensor([x.numel() / x.shape[1]], device=x.device)
    sums = _sum(torch.cat([x.sum(over), places]))
    number = sums[-1].detach()
    mean = sums[:-1] / number
    centred = x - mean.view(shape)
    variance = _sum(centred.square().sum(over)) / number
    if running_mean is not None and running_var is not None:
        with torch.no_grad():
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            running_var.lerp_((variance * number / (number - 1)).to(running_var.dtype), momentum)
    scale = torch.rsqrt(variance + eps) * (1.0 if weight is None else weight)
    found = centred * scale.view(shape)
    return (found if bias is None else found + bias.view(shape)).to(images.dtype)
