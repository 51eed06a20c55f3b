"""Optimiser steps: run one operation at a time, or recorded once in a CUDA graph and replayed.

A step of VGG16 on 32 images is some hundreds of small kernels, and the host takes longer to launch them one by one
than a fast GPU to run them. Everything that a step uses is on the device: the plan and the position in it (`Feed`), the
learning rates of all steps, the sums of losses. Therefore a whole step, from choosing the batch to the new weights, can
be recorded and replayed by one launch; compiling it first fuses the operations between the convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from timm.optim import param_groups_layer_decay
from torch import Tensor, nn

from uol.order.backbones import Backbone
from uol.training import ranks
from uol.training.augmentation import augment_and_note
from uol.training.batches import EpochPlan, Feed
from uol.training.recipe import Recipe

if TYPE_CHECKING:
    from lightning.fabric import Fabric
    from lightning.fabric.wrappers import _FabricOptimizer

    from uol.training.method import Method

Engine = Literal["eager", "graph", "compiled"]

WORTH_COMPILING = 4000
"""Steps: compiling costs about twenty seconds, and saves about four milliseconds a step of VGG16."""

_MOMENTUM = 0.9
_SHARE = "lr_scale"  # of a group of parameters: its share of the learning rate; timm's name
_MOST_VARIANTS = 256
_WARM_UP = 11  # steps before recording, in which CUDA chooses algorithms and allocates memory


def choose_engine(recipe: Recipe, device: torch.device, steps: int) -> Engine:
    """The engine that a recipe names, or for "auto" the one that finishes first."""
    if device.type != "cuda" or ranks.count() > 1:
        return "eager"
    if recipe.engine != "auto":
        return recipe.engine
    return "compiled" if steps >= WORTH_COMPILING else "graph"


class Stepper:
    """Runs the steps of an epoch by one of the engines."""

    def __init__(
        self,
        fabric: Fabric,
        network: nn.Module,
        method: Method,
        optimizer: _FabricOptimizer,
        feed: Feed,
        schedule: list[float],
        engine: Engine,
    ) -> None:
        """`network` is the method, or its wrapper that averages gradients over ranks."""
        self._fabric, self._network, self._optimizer, self._feed = fabric, network, optimizer, feed
        self._rates: list[tuple[Tensor, float]] = [(group["lr"], group[_SHARE]) for group in optimizer.param_groups]
        self._schedule = torch.tensor(schedule, dtype=torch.float32, device=fabric.device)
        self._number = torch.zeros(1, dtype=torch.int64, device=fabric.device)
        self._sums: dict[str, Tensor] = {}
        self._engine = engine
        self._graph: torch.cuda.CUDAGraph | None = None
        if engine == "compiled":
            # A second training with the same shapes reuses compiled code; other shapes compile variants. Above torch's
            # limit of eight variants it silently stops compiling.
            torch._dynamo.config.recompile_limit = _MOST_VARIANTS
            method.compile(dynamic=False)
            feed.augment = torch.compile(augment_and_note, dynamic=False)

    def epoch(self, plan: EpochPlan, number: int) -> dict[str, Tensor]:
        """Run the steps of a plan, from step `number` of the training on; mean losses, without waiting for them."""
        steps = len(plan.images)
        self._feed.load(plan)
        self._number.fill_(number)
        for total in self._sums.values():
            total.zero_()
        for step in range(steps):
            self._feed.stage(step)
            if self._engine == "eager":
                self._step()
            elif self._graph is not None:
                self._graph.replay()
            else:
                self._warm_up_or_record(step)
        return {name: total / steps for name, total in self._sums.items()}

    def _step(self) -> None:
        rate = self._schedule.index_select(0, self._number)[0]
        for kept, share in self._rates:
            kept.copy_(rate * share)
        self._optimizer.zero_grad(set_to_none=True)
        with self._fabric.autocast():  # not Fabric's wrapper of the network, which would also round scores to bfloat16
            losses: dict[str, Tensor] = self._network(self._feed.batch())
        self._fabric.backward(losses["total"])
        self._optimizer.step()
        for name, value in losses.items():  # summed on the device: no step waits for a number
            if name not in self._sums:
                self._sums[name] = torch.zeros((), device=value.device)
            self._sums[name] += value.detach()
        self._number += 1
        self._feed.position += 1

    def _warm_up_or_record(self, step: int) -> None:
        """Run the first steps on a separate stream; then record one (which does not run it) and replay it."""
        if step < _WARM_UP:
            side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self._step()
            torch.cuda.current_stream().wait_stream(side)
            return
        graph = torch.cuda.CUDAGraph()
        self._optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self._step()
        self._graph = graph
        graph.replay()


def learning_rate(step: int, steps: int, recipe: Recipe) -> float:
    """The learning rate of one step: a linear warm-up, then the recipe's schedule.

    A cosine, or a straight line, goes from `learning_rate` to `final_learning_rate` at the last step; with steps, each
    epoch has `learning_rate` times the factor of the last milestone up to it.
    """
    if step < recipe.warmup_steps:
        return recipe.learning_rate * (step + 1) / recipe.warmup_steps
    if recipe.schedule == "steps":
        epoch = step * recipe.epochs // steps
        passed = [factor for milestone, factor in recipe.milestones if milestone <= epoch]
        return recipe.learning_rate * (passed[-1] if passed else 1.0)
    progress = min((step - recipe.warmup_steps) / max(steps - 1 - recipe.warmup_steps, 1), 1.0)
    left = 1 - progress if recipe.schedule == "linear" else (1 + math.cos(math.pi * progress)) / 2
    return recipe.final_learning_rate + (recipe.learning_rate - recipe.final_learning_rate) * left


def make_optimizer(method: nn.Module, recipe: Recipe, device: torch.device) -> torch.optim.Optimizer:
    """The recipe's optimiser, with learning rates as tensors on the device, which a recorded step can change.

    On a GPU it is the fused form: the only form of stochastic gradient descent that keeps these tensors on the device.
    """
    groups = _by_share(method, recipe)
    for group in groups:
        group["lr"] = torch.tensor(recipe.learning_rate * group[_SHARE], dtype=torch.float32, device=device)
    rate, decay, on_gpu = recipe.learning_rate, recipe.weight_decay, device.type == "cuda"
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=_MOMENTUM, weight_decay=decay, fused=on_gpu)
    kind = torch.optim.AdamW if recipe.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, lr=rate, weight_decay=decay, fused=on_gpu, capturable=on_gpu)


def _by_share(method: nn.Module, recipe: Recipe) -> list[dict[str, Any]]:
    """Trainable parameters by their share of the learning rate, which falls towards a backbone's first layer."""
    shares: dict[nn.Parameter, float] = {}
    if recipe.layer_decay < 1:
        for module in method.modules():
            if isinstance(module, Backbone):
                for group in param_groups_layer_decay(module.net, layer_decay=recipe.layer_decay):
                    shares.update(dict.fromkeys(group["params"], group[_SHARE]))
    groups: dict[float, list[nn.Parameter]] = {}
    for parameter in method.parameters():
        if parameter.requires_grad:
            groups.setdefault(shares.get(parameter, 1.0), []).append(parameter)
    return [{"params": parameters, _SHARE: share} for share, parameters in groups.items()]


@contextmanager
def fast_algorithms(wanted: bool) -> Iterator[None]:
    """Let cuDNN try its convolution algorithms and keep the fastest."""
    cudnn, before = torch.backends.cudnn, torch.backends.cudnn.benchmark
    cudnn.benchmark = before or wanted
    try:
        yield
    finally:
        cudnn.benchmark = before


@contextmanager
def depthwise_in_float32(network: nn.Module, wanted: bool) -> Iterator[None]:
    """Let depthwise convolutions work in float32 under autocast.

    On processors the gradients of strided ones, and of those of 5 × 5 pixels, take up to ten times as long in bfloat16.
    """
    found = [module for module in network.modules() if wanted and _is_depthwise(module)]
    before = [module.__dict__.get("forward") for module in found]
    for module in found:
        module.__dict__["forward"] = partial(_in_float32, module.forward)
    try:
        yield
    finally:
        for module, own in zip(found, before, strict=True):
            if own is None:
                del module.__dict__["forward"]
            else:
                module.__dict__["forward"] = own


def _is_depthwise(module: nn.Module) -> bool:
    return isinstance(module, nn.Conv2d) and 1 < module.groups == module.in_channels


def _in_float32(forward: Callable[[Tensor], Tensor], maps: Tensor) -> Tensor:
    with torch.autocast(maps.device.type, enabled=False):
        return forward(maps.float())
