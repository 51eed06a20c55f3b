"""A data set's decoded and resized images in one memory-mapped file, so that later runs decode no JPEG."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from uol.errors import ImageError, UolError
from uol.images.face_cache import VERSION as FACE_VERSION
from uol.images.face_cache import FaceCache, default_folder
from uol.images.framing import Framer, Framing, pack_images
from uol.images.read import Images
from uol.storage.cores import available_cores
from uol.storage.files import replacing, write_json

VERSION = 1  # raise it whenever a change of decoding or resizing changes a pixel: older files are then ignored

Pixels: TypeAlias = npt.NDArray[np.uint8]
PathLike: TypeAlias = str | os.PathLike[str]
Progress: TypeAlias = Callable[[int, int], None]

_AT_ONCE = 256  # images decoded ahead of the one being written, so that a slow disk does not fill the memory
_MOST_CHECKED = 2**32  # bytes: a file up to this size is checked whole (0.5 s a GB), a larger one in evenly spaced rows


def cached_images(
    images: Images,
    resize: int,
    folder: PathLike | None = None,
    progress: Progress | None = None,
    framing: Framing = "whole",
) -> Pixels:
    """Images as `pack_images` gives them, uint8 (n, 3, resize, resize), from one file that is mapped, not read.

    Only lists of paths are stored in the folder (default: that of the face cache); arrays and PIL images are packed
    directly. A file that changed, by path, size or time, makes a new cache; a damaged cache is replaced. What is
    written to the array stays in memory. `progress(done, total)` is called while images are decoded. Raises one
    `UolError` where images cannot be read, with their number and the first of them.
    """
    if not _are_paths(images):
        return pack_images(images, resize, framing=framing)
    key = _key(images, resize, framing)
    place = (default_folder() if folder is None else Path(folder)) / "images" / f"{key}.npy"
    shape = (len(images), 3, resize, resize)
    pixels = _read(place, shape)
    if pixels is not None:
        return pixels
    try:
        _write(place, shape, _decode(images, resize, progress, framing))
    except UolError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        warnings.warn(f"decoded images are not cached: {error}", stacklevel=2)  # a full disk must not stop a training
        return np.stack(list(_decode(images, resize, progress, framing)))
    pixels = _read(place, shape)
    if pixels is None:
        raise UolError(f"{place}: the file just written reads back differently; check the disk")
    return pixels


def _are_paths(images: Images) -> TypeGuard[Sequence[PathLike]]:
    return len(images) > 0 and all(isinstance(image, str | os.PathLike) for image in images)


def _key(paths: Sequence[PathLike], resize: int, framing: Framing) -> str:
    """A digest of the version, the size, the framing, and each file's path, length and time of change."""
    frame = f" face {FACE_VERSION}" if framing == "face" else ""
    digest = hashlib.sha256(f"{VERSION} {resize}{frame}\n".encode())
    folders: dict[str, str] = {}  # resolving a folder once, not once per image, saves a second in ten thousand
    for path in paths:
        parent, name = os.path.split(os.fspath(path))
        if parent not in folders:
            folders[parent] = os.path.realpath(parent)
        try:
            state = os.stat(path)
            known = f"{state.st_size} {state.st_mtime_ns}"
        except OSError:
            known = "missing"  # decoding will report it
        digest.update(f"{folders[parent]}\0{name}\0{known}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _decode(paths: Sequence[PathLike], resize: int, progress: Progress | None, framing: Framing) -> Iterator[Pixels]:
    """The images one by one, in order; decoders leave Python's lock, so threads use all cores."""
    framer = Framer(resize, framing=framing, cache=FaceCache() if framing == "face" else None)
    framer.check_packages()

    def one(path: PathLike) -> Pixels | ImageError:
        try:
            return np.ascontiguousarray(framer.pixels(path).transpose(2, 0, 1))
        except ImageError as error:
            return error

    failed: list[ImageError] = []
    with ThreadPoolExecutor(available_cores()) as pool:
        for start in range(0, len(paths), _AT_ONCE):
            for number, pixels in enumerate(pool.map(one, paths[start : start + _AT_ONCE]), start + 1):
                if isinstance(pixels, ImageError):
                    failed.append(pixels)
                elif not failed:
                    yield pixels
                if progress is not None:
                    progress(number, len(paths))
    if failed:
        what = "cannot be read" if framing == "whole" else "cannot be read or show no face"
        hint = "" if framing == "whole" else " (--set model.framing=whole takes images as they are)"
        raise UolError(f"{len(failed)} of {len(paths)} images {what}; the first: {failed[0]}{hint}")


def _write(place: Path, shape: tuple[int, ...], rows: Iterator[Pixels]) -> None:
    checksums = []
    with replacing(place) as temporary, open(temporary, "wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for row in rows:
            file.write(row.data)  # not through a map: on a full disk that would end the process, this raises
            checksums.append(zlib.crc32(row.data))
    write_json(_sidecar(place), {"shape": list(shape), "crc32": checksums})  # last: without it the pixels do not count


def _read(place: Path, shape: tuple[int, ...]) -> Pixels | None:
    """The pixels stored at `place`, mapped; None where they are missing or damaged."""
    try:
        known: dict[str, Any] = json.loads(_sidecar(place).read_text(encoding="utf-8"))
        pixels: Pixels = np.load(place, mmap_mode="c", allow_pickle=False)
        checksums = [int(checksum) for checksum in known["crc32"]]
    except (OSError, ValueError, KeyError, TypeError, EOFError, SyntaxError):
        return None
    if pixels.dtype != np.uint8 or pixels.shape != shape or len(checksums) != len(pixels):
        return None
    step = -(-pixels.nbytes // _MOST_CHECKED)

    def sound(row: int) -> bool:
        return zlib.crc32(pixels[row].data) == checksums[row]

    with ThreadPoolExecutor(available_cores()) as pool:
        return pixels if all(pool.map(sound, range(0, len(pixels), step))) else None


def _sidecar(place: Path) -> Path:
    return place.with_suffix(".json")
