"""The images of a study as a browser can show them: files as they are, rare formats as PNG, the latest in memory."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import NamedTuple

from uol.errors import ImageError
from uol.images.read import read_image

_MOST_BYTES = 256_000_000  # of images in memory
_KINDS = {
    ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png", ".webp": "image/webp", ".gif": "image/gif",
    ".avif": "image/avif", ".bmp": "image/bmp",
}  # fmt: skip


class Picture(NamedTuple):
    """The content of an image file and its media type."""

    content: bytes
    kind: str


class Pictures:
    """Images that were asked for lately; all participants of a study see the same ones."""

    def __init__(self) -> None:
        self._kept: dict[Path, Picture] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def kept(self, path: Path) -> Picture | None:
        """An image that is in memory."""
        return self._kept.get(path)

    def read(self, path: Path) -> Picture:
        """An image from its file, which is in memory from then on."""
        found = _read(path)
        with self._lock:
            while self._kept and self._bytes + len(found.content) > _MOST_BYTES:
                self._bytes -= len(self._kept.pop(next(iter(self._kept))).content)
            if path not in self._kept:
                self._kept[path] = found
                self._bytes += len(found.content)
        return found


def _read(path: Path) -> Picture:
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        content = io.BytesIO()
        read_image(path).save(content, format="PNG")
        return Picture(content.getvalue(), "image/png")
    try:
        return Picture(path.read_bytes(), kind)
    except OSError as error:
        raise ImageError(f"{path}: cannot be read ({error.strerror or error})") from error
