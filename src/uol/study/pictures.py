"""The images of a study as a browser can show them: files as they are, rare formats as PNG."""

from __future__ import annotations

import io
from functools import lru_cache
from pathlib import Path

from fastapi.responses import FileResponse, Response

from uol.images.read import read_image

_KINDS = {
    ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png", ".webp": "image/webp", ".gif": "image/gif",
    ".avif": "image/avif", ".bmp": "image/bmp",
}  # fmt: skip


def picture_answer(path: Path) -> Response:
    """An image; its name is not said, as it may give a condition away."""
    kind = _KINDS.get(path.suffix.lower())
    if kind is not None:
        return FileResponse(path, media_type=kind)
    return Response(_as_png(path), media_type="image/png")


@lru_cache(maxsize=32)
def _as_png(path: Path) -> bytes:
    content = io.BytesIO()
    read_image(path).save(content, format="PNG")
    return content.getvalue()
