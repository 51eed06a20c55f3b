"""Checkpoints: weights, optimiser state and epoch in one safetensors file, written in one step."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from uol.errors import UolError
from uol.files import replacing


class Progress(NamedTuple):
    """How far a run has come, with which recipe (YAML), on which images (their fingerprint)."""

    epoch: int
    recipe: str
    data: str


def save_checkpoint(path: Path, network: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Write the state after some finished epochs; a kill while writing leaves the checkpoint before it."""
    tensors = {f"network.{key}": tensor for key, tensor in network.state_dict().items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{key}": torch.as_tensor(value) for key, value in state.items()}
    metadata = {name: str(value) for name, value in progress._asdict().items()}
    with replacing(path) as temporary:
        save_file({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}, temporary, metadata)


def read_progress(path: Path) -> Progress:
    """How far the run of a checkpoint has come."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
        return Progress(int(metadata["epoch"]), metadata["recipe"], metadata["data"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise UolError(f"{path}: damaged checkpoint; delete it to train from the start ({error})") from error


def load_checkpoint(path: Path, network: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Restore weights and optimiser; returns the number of finished epochs."""
    epoch = read_progress(path).epoch
    weights: dict[str, torch.Tensor] = {}
    state: dict[int, dict[str, torch.Tensor]] = {}
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
            if tensor.shape == parameter.shape:  # moments lie in memory as their weights do: fused optimisers insist
                state[index][name] = torch.empty_like(parameter, dtype=tensor.dtype).copy_(tensor)
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return epoch
