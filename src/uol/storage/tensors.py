"""Tensors and arrays on disk: safetensors files, written in one step."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from uol.errors import UolError
from uol.storage.files import replacing

if TYPE_CHECKING:
    from torch import Tensor


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write tensors to `path`, whole or not at all."""
    from safetensors.torch import save_file  # imports torch

    _write(save_file, path, {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}, metadata)


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays to `path`, whole or not at all."""
    from safetensors.numpy import save_file

    _write(save_file, path, dict(arrays), None)


def read_arrays(path: Path, prefix: str = "") -> dict[str, npt.NDArray[Any]]:
    """The arrays in a file whose names start with a prefix."""
    try:
        with safe_open(path, "np") as file:
            return {key: file.get_tensor(key) for key in file.keys() if key.startswith(prefix)}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UolError(f"{path}: damaged; copy the model folder again ({error})") from error


def overwrite_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Put arrays in the place of those of the same names, shapes and types, where they lie in a file."""
    with open(path, "r+b") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        for name, array in arrays.items():
            begin, end = header[name]["data_offsets"]
            if end - begin != array.nbytes:
                raise ValueError(f"{path}: {name} has {end - begin} bytes, not {array.nbytes}")
            file.seek(8 + length + begin)
            file.write(np.ascontiguousarray(array).tobytes())


def stored_shapes(path: Path) -> dict[str, list[int]]:
    """The shapes of the tensors in a file, read without reading the tensors."""
    try:
        with safe_open(path, "np") as file:
            return {key: file.get_slice(key).get_shape() for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UolError(f"{path}: damaged; copy the model folder again ({error})") from error


def _write(save_file: Callable[..., None], path: Path, values: Any, metadata: dict[str, str] | None) -> None:
    with replacing(path) as temporary:
        try:
            save_file(values, temporary, metadata)
        except SafetensorError as error:  # raised for a full disk too
            raise UolError(f"cannot write {path}: {error}") from error
