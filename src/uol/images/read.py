"""Read image files of any format as upright 8-bit RGB."""

from __future__ import annotations

import bz2
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from uol.errors import ImageError

ImageLike: TypeAlias = str | os.PathLike[str] | Image.Image | npt.NDArray[np.uint8]

Images: TypeAlias = Sequence[ImageLike] | npt.NDArray[np.uint8]
"""Many images: a list of them, or one uint8 array (n, H, W, 3)."""

SUFFIXES = frozenset({
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".pgm", ".ppm",
    ".heic", ".heif", ".hif", ".avif", ".jp2", ".j2k", ".jpf", ".jpx",
})  # fmt: skip
MAX_PIXELS = 150_000_000  # a 40 MB photograph passes; a header that claims 50,000 × 50,000 does not
_BACKGROUND = (255, 255, 255)  # behind transparent pixels
_NO_FILES = {
    stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket", stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}  # fmt: skip
_ORIENTATION = 0x0112  # the EXIF tag of how the camera was held
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip


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
    check_file(path)
    try:
        packed = path.suffix.lower() == ".bz2"  # as the FERET discs hold their images
        with _open(bz2.open(path) if packed else path) as opened:
            width, height = opened.size
            if width * height > MAX_PIXELS:
                raise ImageError(f"{path}: {width} × {height} pixels is more than the {MAX_PIXELS:,} allowed")
            return _to_rgb(opened)
    except ImageError:
        raise
    except Exception as error:  # decoders raise many kinds: OSError, SyntaxError, struct.error, DecompressionBombError
        raise ImageError(f"{path}: not a readable image ({_reason(error)})") from error


def check_file(path: Path) -> None:
    """Refuse what is no file: reading a pipe or a device could wait for ever."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise ImageError(f"{path}: no such image file") from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise ImageError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if not stat.S_ISREG(mode):
        kind = next((kind for is_kind, kind in _NO_FILES.items() if is_kind(mode)), "no file")
        raise ImageError(f"{path}: {kind}, not an image")


def _from_array(array: npt.NDArray[np.uint8]) -> Image.Image:
    shaped = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
    if array.dtype != np.uint8 or not shaped or array.size == 0:
        raise ImageError(f"an image array must be uint8, H×W, H×W×3 or H×W×4; got {array.dtype} {array.shape}")
    return _to_rgb(Image.fromarray(array))


def _open(file: Path | bz2.BZ2File) -> Image.Image:
    """Open an image file; HEIC, as telephones write it, by a package that takes 0.1 s to import."""
    try:
        return Image.open(file)
    except UnidentifiedImageError:
        from pillow_heif import register_heif_opener

        register_heif_opener(thumbnails=False)
        return Image.open(file)


def _upright(image: Image.Image) -> Image.Image:
    try:
        turn = _TURNS.get(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged EXIF does not damage the picture
        turn = None
    return image if turn is None else image.transpose(turn)


def _to_rgb(image: Image.Image) -> Image.Image:
    image = _upright(image)
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
