"""The training loop, on Lightning Fabric: plan an epoch, step through its batches, report, keep a checkpoint."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from lightning.fabric import Fabric

from uol.errors import UolError
from uol.training.batches import PackedImages, epoch_batches, plan_epoch, steps_per_epoch
from uol.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from uol.training.recipe import Recipe, dump_recipe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from uol.methods.base import Method


class EpochReport(NamedTuple):
    """What one epoch came to: mean losses by name, the last learning rate and the seconds it took."""

    epoch: int
    epochs: int
    losses: dict[str, float]
    learning_rate: float
    seconds: float


def train(
    method: Method,
    data: PackedImages,
    recipe: Recipe,
    checkpoint: Path | None = None,
    report: Callable[[EpochReport], None] | None = None,
    accelerator: str = "auto",
) -> None:
    """Train a method on packed images in place, going on from `checkpoint` where that file exists.

    Every random draw of an epoch follows from the seed and the epoch's number, so that a run that was killed and
    resumed ends, on the CPU, with the very weights of one that was not.
    """
    logging.getLogger("lightning.fabric").setLevel(logging.WARNING)  # its greetings are not for our users
    fabric = Fabric(accelerator=accelerator, devices=1, precision=recipe.precision)
    kind = torch.optim.AdamW if recipe.optimizer == "adamw" else torch.optim.Adam
    trainable = [parameter for parameter in method.parameters() if parameter.requires_grad]
    fused = fabric.device.type == "cuda"
    network, optimizer = fabric.setup(
        method, kind(trainable, lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=fused)
    )
    start = 0
    if checkpoint is not None and checkpoint.exists():
        start = load_checkpoint(checkpoint, method, optimizer.optimizer)
    data = data.to(fabric.device)
    steps = steps_per_epoch(len(data), recipe)
    settings, images = dump_recipe(recipe), data.rated.fingerprint
    with _deterministic(recipe.deterministic):
        for epoch in range(start, recipe.epochs):
            began = time.perf_counter()
            torch.manual_seed((recipe.seed << 20) + epoch)
            network.train()
            sums: dict[str, torch.Tensor] = {}
            for step, batch in enumerate(epoch_batches(data, plan_epoch(data.rated, recipe, epoch), fabric.device)):
                rate = learning_rate(epoch * steps + step, recipe.epochs * steps, recipe)
                for group in optimizer.param_groups:
                    group["lr"] = rate
                optimizer.zero_grad(set_to_none=True)
                losses = network(batch)
                fabric.backward(losses["total"])
                optimizer.step()
                for name, value in losses.items():  # summed on the device: no step waits for a number
                    sums[name] = sums.get(name, torch.zeros((), device=fabric.device)) + value.detach()
            means = {name: float(value) / steps for name, value in sums.items()}
            if not math.isfinite(means["total"]):
                kept = f"; the state after epoch {epoch} is kept in {checkpoint}" if checkpoint and epoch else ""
                raise UolError(f"the loss became {means['total']} in epoch {epoch + 1}: lower the learning_rate{kept}")
            if checkpoint is not None:
                save_checkpoint(checkpoint, method, optimizer.optimizer, Progress(epoch + 1, settings, images))
            if report is not None:
                report(EpochReport(epoch + 1, recipe.epochs, means, rate, time.perf_counter() - began))
    method.eval()


def learning_rate(step: int, steps: int, recipe: Recipe) -> float:
    """Linear warm-up, then a cosine from `learning_rate` to `final_learning_rate` at the last step."""
    if step < recipe.warmup_steps:
        return recipe.learning_rate * (step + 1) / recipe.warmup_steps
    progress = (step - recipe.warmup_steps) / max(steps - 1 - recipe.warmup_steps, 1)
    low, high = recipe.final_learning_rate, recipe.learning_rate
    return low + (high - low) * (1 + math.cos(math.pi * min(progress, 1.0))) / 2


@contextmanager
def _deterministic(wanted: bool) -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
