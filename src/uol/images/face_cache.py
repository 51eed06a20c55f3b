"""Aligned faces cached on disk by image content, and aligning many images with that cache."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from uol.errors import CallError, ImageError, UolError
from uol.images.faces import AlignedFace, Face, FaceError, find_face, no_face
from uol.images.packages import opencv
from uol.images.read import ImageLike, check_file, read_image
from uol.storage.files import plain, replacing

_CHECKSUM = 9  # bytes of an entry before those of which they are the checksum
NOT_CACHED = "aligned faces are not cached"
_STOPPING = Lock()
VERSION = 3  # raise it whenever a change of detection or alignment changes a pixel: older entries are then ignored


def default_folder() -> Path:
    """The folder named by the environment variable UOL_CACHE, or `uol` in the user's cache folder."""
    named = os.environ.get("UOL_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("LOCALAPPDATA") if os.name == "nt" else os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "uol"


class FaceCache:
    """Aligned faces in a folder, a file for each, `faces/ab/abcd….face`: 197 kB for a crop of 256 pixels.

    The key is a digest of the image's content, the size and `VERSION`; a name or a date does not matter. A file is a
    checksum and a line of JSON that describes the face, then the pixels as they are: inflating a PNG of half the size
    takes ten times as long as reading them.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, size: int = 256) -> None:
        if folder is not None and not os.fspath(folder):  # `Path` would take it for the current folder
            raise CallError("the folder of the face cache is empty; name a folder")
        self.folder = (default_folder() if folder is None else Path(folder)) / "faces"
        self.size = size
        self._writable = True

    def get(self, image: ImageLike) -> AlignedFace:
        """The aligned face of an image, read from the folder or found and stored there.

        That an image shows no face is stored too, and raised again as `FaceError`; a damaged entry is replaced.
        """
        place = self.place(image)
        entry = _read(place, self.size)
        if isinstance(entry, AlignedFace):
            return entry
        if entry == "no face":
            raise FaceError(no_face(image))
        try:
            aligned = find_face(image, self.size)
        except FaceError:
            self._keep(place, None)
            raise
        self._keep(place, aligned)
        return aligned

    def keep(self, image: ImageLike, aligned: AlignedFace) -> None:
        """Store the aligned face of an image, found elsewhere."""
        self._keep(self.place(image), aligned)

    def place(self, image: ImageLike) -> Path:
        """Where an image's entry is, without its suffix."""
        digest = hashlib.sha256(f"{VERSION} {self.size} ".encode())
        if isinstance(image, str | os.PathLike):
            check_file(Path(image))
            try:
                with open(image, "rb") as file:
                    hashlib.file_digest(file, lambda: digest)  # in chunks: the file may be no photograph, and large
            except OSError as error:
                raise ImageError(f"{os.fspath(image)}: cannot be read ({error.strerror or error})") from error
        else:
            pixels = np.asarray(read_image(image))
            digest.update(f"pixels {pixels.shape} ".encode() + pixels.tobytes())
        key = digest.hexdigest()
        return self.folder / key[:2] / key

    def _keep(self, place: Path, aligned: AlignedFace | None) -> None:
        if not self._writable:
            return
        try:
            _write(place, aligned)
        except UolError as error:  # the face itself is good: continue without storing
            self.stop_storing(f"{NOT_CACHED}: {error}")

    def stop_storing(self, text: str) -> None:
        """Store no more faces, and warn of it, the first time that a thread or a process finds that it cannot."""
        with _STOPPING:
            first, self._writable = self._writable, False
        if first:
            warnings.warn(text, stacklevel=4)


def align_many(
    images: Sequence[ImageLike],
    size: int = 256,
    cache: FaceCache | None = None,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
) -> Iterator[tuple[int, AlignedFace | ImageError]]:
    """Align many images, in order: (index, aligned face), or (index, error) for an image that fails.

    `progress(done, total)` is called after each. A cache's size replaces `size`. Threads (`workers`) help where cores
    are free: most of the time is spent in the networks and OpenCV, outside Python's lock.
    """
    opencv()  # if the package is missing: one error at the start, not one for each image
    total = len(images)

    def one(index: int) -> AlignedFace | ImageError:
        image = images[index]
        try:
            return find_face(image, size) if cache is None else cache.get(image)
        except ImageError as error:
            return error
        except UolError:
            raise
        except Exception as error:  # a fault in a decoder or the detector costs this image, not the run
            name = os.fspath(image) if isinstance(image, str | os.PathLike) else f"image {index}"
            return ImageError(f"{name}: alignment failed ({type(error).__name__}: {error})")

    def ordered() -> Iterator[AlignedFace | ImageError]:
        if workers <= 1:
            yield from map(one, range(total))
            return
        with ThreadPoolExecutor(workers) as pool:
            waiting: deque[Future[AlignedFace | ImageError]] = deque()
            for index in range(total):
                waiting.append(pool.submit(one, index))
                if len(waiting) > 4 * workers:  # a bounded queue: waiting crops must not fill the memory
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    for index, result in enumerate(ordered()):
        if progress is not None:
            progress(index + 1, total)
        yield index, result


def _write(place: Path, aligned: AlignedFace | None) -> None:
    described: dict[str, Any] = {"face": None}
    if aligned is not None:
        face = aligned.face
        described["face"] = {
            "box": list(face.box),
            "points": face.points.tolist(),
            "confidence": face.confidence,
            "steady": face.steady,
        }
        described["problems"] = list(aligned.problems)
    content = json.dumps(plain(described), allow_nan=False).encode() + b"\n"
    if aligned is not None:
        content += aligned.image.tobytes()
    with replacing(place.with_suffix(".face")) as temporary:
        temporary.write_bytes(b"%08x\n" % zlib.crc32(content) + content)


def _read(place: Path, size: int) -> AlignedFace | str | None:
    """The entry at `place`: an aligned face, "no face", or None where it is missing or damaged."""
    try:
        content = np.fromfile(place.with_suffix(".face"), np.uint8)
        if zlib.crc32(content[_CHECKSUM:].data) != int(content[:_CHECKSUM].tobytes(), 16):
            return None
        end = content.size - 3 * size * size
        described: dict[str, Any] = json.loads(content[_CHECKSUM : end if end > _CHECKSUM else None].tobytes())
        if described["face"] is None:
            return "no face"
        return _aligned(content[end:].reshape(size, size, 3), described)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _aligned(image: npt.NDArray[np.uint8], described: dict[str, Any]) -> AlignedFace:
    found = described["face"]
    left, top, width, height = map(float, found["box"])
    points = np.array(found["points"], np.float64).reshape(5, 2)
    face = Face((left, top, width, height), points, float(found["confidence"]), bool(found["steady"]))
    return AlignedFace(image, face, tuple(map(str, described["problems"])))
