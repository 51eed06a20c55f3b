"""Checkpoints: weights, optimiser state and epoch in one safetensors file, written while training continues."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from uol.errors import UolError
from uol.storage.tensors import write_tensors


class Progress(NamedTuple):
    """The finished epochs of a run, its recipe (YAML), and its data (a fingerprint of the images and teachers)."""

    epoch: int
    recipe: str
    data: str


class CheckpointWriter:
    """Saves the state after each epoch in a file: copied at once, written by a thread while training continues.

    If the process is killed while writing, the previous checkpoint remains. If writing fails, the next call raises.
    """

    def __init__(self, path: Path, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.path = path
        self._network, self._optimizer = network, optimizer
        self._copies: dict[str, Tensor] = {}
        self._pool = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None

    def save(self, progress: Progress) -> None:
        """Copy the current state and start to write it; waits only for the previous write."""
        self.wait()
        for key, tensor in _state(self._network, self._optimizer).items():
            if key not in self._copies:
                pinned = tensor.device.type == "cuda"
                self._copies[key] = torch.empty_like(tensor, device="cpu", pin_memory=pinned)
            self._copies[key].copy_(tensor, non_blocking=True)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self._writing = self._pool.submit(_write, self.path, self._copies, progress)

    def wait(self) -> None:
        """Wait until the current write ends; raises if it failed."""
        if self._writing is not None:
            writing, self._writing = self._writing, None
            writing.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if kind is None:
                self.wait()
        finally:
            self._pool.shutdown()  # after an error elsewhere, the last write still finishes


def read_progress(path: Path) -> Progress:
    """The progress of a checkpoint's run."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
        return Progress(int(metadata["epoch"]), metadata["recipe"], metadata["data"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise UolError(
            f"{path}: damaged checkpoint; delete the run folder to train from the start ({error})"
        ) from error


def load_checkpoint(path: Path, network: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Restore weights and optimiser; returns the number of finished epochs."""
    epoch = read_progress(path).epoch
    weights: dict[str, Tensor] = {}
    state: dict[int, dict[str, Tensor]] = {}
    with safe_open(path, framework="pt") as file:
        for key in file.keys():  # noqa: SIM118  (not a dict)
            kind, rest = key.split(".", 1)
            if kind == "network":
                weights[rest] = file.get_tensor(key)
            else:
                index, name = rest.split(".", 1)
                state.setdefault(int(index), {})[name] = file.get_tensor(key)
    network.load_state_dict(weights)
    for index, parameter in enumerate(parameter for group in optimizer.param_groups for parameter in group["params"]):
        for name, tensor in state.get(index, {}).items():
            if (
                tensor.shape == parameter.shape
            ):  # moments need the memory layout of their weights: fused optimisers require it
                state[index][name] = torch.empty_like(parameter, dtype=tensor.dtype).copy_(tensor)
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return epoch


def _state(network: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    tensors = {f"network.{key}": tensor.detach() for key, tensor in network.state_dict().items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{key}": torch.as_tensor(value).detach() for key, value in state.items()}
    return tensors


def _write(path: Path, tensors: dict[str, Tensor], progress: Progress) -> None:
    try:
        write_tensors(path, tensors, {name: str(value) for name, value in progress._asdict().items()})
    except UolError as error:
        kept = f"; the state after epoch {read_progress(path).epoch} is kept" if path.exists() else ""
        raise UolError(f"{error}{kept}; make room and run the same command again") from error
