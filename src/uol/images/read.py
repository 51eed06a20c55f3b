"""Read image files of any format as upright 8-bit RGB, and find them in folders."""

from __future__ import annotations

import bz2
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from uol.errors import CallError, ImageError

ImageLike: TypeAlias = str | os.PathLike[str] | Image.Image | npt.NDArray[np.uint8]

Images: TypeAlias = Sequence[ImageLike] | npt.NDArray[np.uint8]
"""Many images: a list of them, or one uint8 array (n, H, W, 3)."""

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".pgm", ".ppm"})
MAX_PIXELS = 150_000_000  # a 40 MB photograph passes; a header that claims 50,000 × 50,000 does not
_BACKGROUND = (255, 255, 255)  # behind transparent pixels


def read_image(image: ImageLike) -> Image.Image:
    """Decode a path, PIL image or uint8 array (H×W, H×W×3 or H×W×4 with transparency) to an upright RGB image.

    EXIF orientation is honoured, transparency is laid over white, 16-bit and CMYK are converted, and of an
    animation the first frame is taken. Raises `ImageError` with one line if the image cannot be read.
    """
    if isinstance(image, np.ndarray):
        return _from_array(image)
    if isinstance(image, Image.Image):
        try:
            return _to_rgb(image)
        except Exception as error:  # closed, or read from a file that is damaged or gone
            raise ImageError(f"not a readable image ({_reason(error)})") from error
    if not isinstance(image, str | os.PathLike):
        raise ImageError(f"an image is a path, a PIL image or a uint8 array, not {type(image).__name__}")
    path = Path(image)
    if not path.is_file():
        raise ImageError(f"{path}: {'a folder, not an image' if path.is_dir() else 'no such image file'}")
    try:
        packed = path.suffix.lower() == ".bz2"  # as the FERET discs hold their images
        with Image.open(bz2.open(path) if packed else path) as opened:
            width, height = opened.size
            if width * height > MAX_PIXELS:
                raise ImageError(f"{path}: {width} × {height} pixels is more than the {MAX_PIXELS:,} allowed")
            return _to_rgb(opened)
    except ImageError:
        raise
    except Exception as error:  # decoders raise many kinds: OSError, SyntaxError, struct.error, DecompressionBombError
        raise ImageError(f"{path}: not a readable image ({_reason(error)})") from error


def find_images(folder: str | os.PathLike[str]) -> list[Path]:
    """All image files below `folder`, sorted; hidden files are skipped."""
    root = Path(folder)
    if not root.is_dir():
        raise CallError(f"{root}: no such folder")
    found = sorted(
        path
        for path in root.rglob("*")
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
    )
    if not found:
        raise CallError(f"{root}: no images in this folder (looked for {', '.join(sorted(SUFFIXES))})")
    return found


def _from_array(array: npt.NDArray[np.uint8]) -> Image.Image:
    shaped = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
    if array.dtype != np.uint8 or not shaped or array.size == 0:
        raise ImageError(f"an image array must be uint8, H×W, H×W×3 or H×W×4; got {array.dtype} {array.shape}")
    return _to_rgb(Image.fromarray(array))


def _to_rgb(image: Image.Image) -> Image.Image:
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I") or image.mode == "F":  # 16 or 32 bits per pixel: PIL would clip, not scale
        values = np.asarray(image, np.float64)
        highest = float(values.max(initial=0))
        tops = (1.0, 255.0, 65535.0) if image.mode == "F" else (255.0, 65535.0)
        top = next((top for top in tops if highest <= top), highest)
        image = Image.fromarray((np.clip(values / top, 0, 1) * 255).round().astype(np.uint8))
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        canvas = Image.new("RGBA", layer.size, (*_BACKGROUND, 255))
        return Image.alpha_composite(canvas, layer).convert("RGB")
    return image.convert("RGB")


def _reason(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return text if len(text) <= 120 else text[:117] + "..."
