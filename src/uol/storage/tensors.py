"""Tensors on disk: safetensors files, written in one step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from uol.errors import UolError
from uol.storage.files import replacing


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write tensors to `path`, whole or not at all."""
    with replacing(path) as temporary:
        try:
            save_file({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}, temporary, metadata)
        except SafetensorError as error:  # raised for a full disk too
            raise UolError(f"cannot write {path}: {error}") from error
