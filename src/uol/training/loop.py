"""The training loop, on Lightning Fabric: plan an epoch, run its steps, report, write a checkpoint."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from lightning.fabric import Fabric

from uol.errors import UolError
from uol.order.norms import normalised_by_batch
from uol.training import ranks
from uol.training.batches import Batch, Feed, fixed_batches, plan_epoch
from uol.training.checkpoint import CheckpointWriter, Progress, load_checkpoint
from uol.training.memory import freed_memory_kept
from uol.training.packed import PackedImages
from uol.training.recipe import Recipe, dump_recipe
from uol.training.stepper import (
    Stepper,
    choose_engine,
    depthwise_in_float32,
    fast_algorithms,
    learning_rate,
    make_optimizer,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from uol.training.method import Method


class EpochReport(NamedTuple):
    """The report of one epoch: mean losses by name, the last learning rate and the seconds it took.

    `held_out` is the total loss on the held-out images, NaN in epochs that do not compute it.
    """

    epoch: int
    epochs: int
    losses: dict[str, float]
    held_out: float
    learning_rate: float
    seconds: float


def train(
    method: Method,
    data: PackedImages,
    recipe: Recipe,
    checkpoint: Path | None = None,
    report: Callable[[EpochReport], None] | None = None,
    accelerator: str = "auto",
    held_out: PackedImages | None = None,
    learnt: str | None = None,
) -> None:
    """Train a method on packed images in place, resuming from `checkpoint` if that file exists.

    Every random draw of an epoch depends only on the seed and the epoch's number: on the CPU, a run that was killed and
    resumed has exactly the weights of an uninterrupted one. `held_out` images only measure the loss. `learnt`
    identifies the training data in the checkpoint; the default is the images' fingerprint. If several ranks were
    launched (`uol.training.ranks`), all call this; the first writes the checkpoint, and all read it to resume.
    """
    fabric = _fabric(accelerator, recipe)
    on_gpu = fabric.device.type == "cuda"
    kept = f"; the finished epochs are kept in {checkpoint}" if checkpoint else ""
    try:
        with (
            _deterministic(recipe.deterministic),
            fast_algorithms(on_gpu and not recipe.deterministic),
            freed_memory_kept(fabric.device.type == "cpu"),
        ):
            _train(fabric, method, data, recipe, checkpoint, report, held_out, learnt or data.fingerprint)
    except (RuntimeError, MemoryError) as error:
        if not _out_of_memory(error):
            raise
        where = "the GPU's memory" if on_gpu else "memory"
        raise UolError(
            f"{where} is too small for this training: lower batch_size (now {recipe.batch_size}){kept}"
        ) from error
    finally:
        method.eval()


def _train(
    fabric: Fabric,
    method: Method,
    data: PackedImages,
    recipe: Recipe,
    checkpoint: Path | None,
    report: Callable[[EpochReport], None] | None,
    held_out: PackedImages | None,
    learnt: str,
) -> None:
    trainable = [parameter for parameter in method.parameters() if parameter.requires_grad]
    ranks.check_shares(min(recipe.batch_size, len(data)))
    wrapped, optimizer = fabric.setup(method, make_optimizer(method, recipe, fabric.device))
    network = method if ranks.count() == 1 else wrapped._forward_module  # DDP, without Fabric's rounding of scores
    start = 0
    if checkpoint is not None and ranks.agree(checkpoint.exists()):
        start = load_checkpoint(checkpoint, method, optimizer.optimizer)
    if start == recipe.epochs:
        return
    panel = data.panel
    plan = plan_epoch(data.rated, recipe, start, panel)
    steps = len(plan.images)
    total = recipe.epochs * steps
    schedule = [learning_rate(step, total, recipe) for step in range(total)]
    engine = choose_engine(recipe, fabric.device, total)
    feed = Feed(data, recipe, fabric.device, known=method.known_of(data))
    stepper = Stepper(fabric, network, method, optimizer, feed, schedule, engine)
    checks: list[Batch] = []
    if held_out is not None and recipe.validate_every:
        checks = fixed_batches(held_out, recipe, fabric.device, method.known_of(held_out))
    keeps = checkpoint is not None and ranks.is_first()
    writer = None if checkpoint is None or not keeps else CheckpointWriter(checkpoint, method, optimizer.optimizer)
    settings = dump_recipe(recipe)
    precise = depthwise_in_float32(method, fabric.device.type == "cpu" and recipe.precision == "bf16-mixed")
    with writer or nullcontext(), ranks.shared_images(method), precise:
        for epoch in range(start, recipe.epochs):
            began = time.perf_counter()
            torch.manual_seed((recipe.seed << 20) + epoch)
            method.train()
            method.begin_epoch(epoch, recipe.epochs)
            running = stepper.epoch(plan, epoch * steps)
            if epoch + 1 < recipe.epochs:
                plan = plan_epoch(data.rated, recipe, epoch + 1, panel)  # on the host, while the device still works
            means = {name: float(value) for name, value in running.items()}
            trouble = f"the loss became {means['total']}" if not math.isfinite(means["total"]) else None
            if trouble is None and not _finite(trainable):
                trouble = "weights became infinite"
            if trouble is not None:
                kept = f"; the state after epoch {epoch} is kept in {checkpoint}" if checkpoint and epoch else ""
                raise UolError(f"{trouble} in epoch {epoch + 1}: lower the learning_rate{kept}")
            if writer is not None:
                writer.save(Progress(epoch + 1, settings, learnt))
            wanted = checks and ((epoch + 1) % recipe.validate_every == 0 or epoch + 1 == recipe.epochs)
            watched = _loss(fabric, method, checks) if wanted else math.nan
            if report is not None:
                seconds = time.perf_counter() - began
                report(
                    EpochReport(epoch + 1, recipe.epochs, means, watched, schedule[(epoch + 1) * steps - 1], seconds)
                )


def _fabric(accelerator: str, recipe: Recipe) -> Fabric:
    if accelerator == "auto":
        accelerator = "cuda" if torch.cuda.is_available() else "cpu"
    precision: Any = recipe.precision
    if precision == "auto":
        precision = "bf16-mixed" if accelerator == "cuda" else "32-true"
    return ranks.make_fabric(accelerator, precision)


@torch.no_grad()
def _finite(parameters: list[torch.nn.Parameter]) -> bool:
    """Whether all weights are finite; a last step that is too large shows in them, not in the loss."""
    return math.isfinite(float(torch.stack(torch._foreach_norm(list[torch.Tensor](parameters))).float().sum()))


@torch.no_grad()
def _loss(fabric: Fabric, method: Method, batches: list[Batch]) -> float:
    """The mean total loss of batches, with the network in evaluation mode.

    With several panels each batch is normalised by its statistics, as in training: a panel's are computed at the end.
    """
    method.eval()
    with fabric.autocast(), normalised_by_batch(method) if method.panels > 1 else nullcontext():
        # forward itself: calling the module would compile a second variant of it for these few batches
        return float(torch.stack([method.forward(batch)["total"].float() for batch in batches]).mean())


def _out_of_memory(error: RuntimeError | MemoryError) -> bool:
    """Whether an error is one of memory: there is no exception class for it on a CPU."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "DefaultCPUAllocator" in str(error)


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
