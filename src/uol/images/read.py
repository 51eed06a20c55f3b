"""Read image files of any format as upright 8-bit RGB."""

from __future__ import annotations

import bz2
import io
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from uol.errors import CallError, ImageError

SUFFIXES = frozenset({
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".pgm", ".ppm",
    ".heic", ".heif", ".hif", ".avif", ".jp2", ".j2k", ".jpf", ".jpx",
})  # fmt: skip
MAX_PIXELS = 150_000_000  # a 40 MB photograph passes; a header that claims 50,000 × 50,000 does not
_HEIF = "HEIF"
_BACKGROUND = (255, 255, 255)  # behind transparent pixels
_NO_FILES = {
    stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket", stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}  # fmt: skip
_ORIENTATION = 0x0112  # the EXIF tag of how the camera was held
_METADATA = frozenset({"exif", "Raw profile type exif", "xmp", "XML:com.adobe.xmp"})  # can state an orientation
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip


@dataclass(frozen=True)
class ImageBytes:
    """The content of an image file that is in memory, and the name that rows and errors give it.

    Files from strangers can be limited: to formats by Pillow's names, and to a number of pixels.
    """

    name: str
    content: bytes = field(repr=False)
    formats: tuple[str, ...] | None = None
    max_pixels: int | None = None

    def __str__(self) -> str:
        return self.name


ImageLike: TypeAlias = str | os.PathLike[str] | ImageBytes | Image.Image | npt.NDArray[np.uint8]

Images: TypeAlias = Sequence[ImageLike] | npt.NDArray[np.uint8]
"""Many images: a list of them, or one uint8 array (n, H, W, 3)."""


def read_image(image: ImageLike) -> Image.Image:
    """Decode a path, `ImageBytes`, PIL image or uint8 array (H×W, H×W×3 or H×W×4 with alpha) to an upright RGB image.

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
    if isinstance(image, ImageBytes):
        return _decode(image.name, io.BytesIO(image.content), image.formats, image.max_pixels)
    if not isinstance(image, str | os.PathLike):
        raise ImageError(f"an image is a path, a PIL image or a uint8 array, not {type(image).__name__}")
    path = Path(image)
    check_file(path)
    return _decode(str(path), path)


def image_name(image: ImageLike) -> str | None:
    """The name of an image, if it has one: its path, or that of a file in memory."""
    if isinstance(image, ImageBytes):
        return image.name
    return os.fspath(image) if isinstance(image, str | os.PathLike) else None


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


def _decode(
    name: str, source: Path | io.BytesIO, formats: tuple[str, ...] | None = None, max_pixels: int | None = None
) -> Image.Image:
    """The image in a file; one with too many pixels is refused by its header."""
    most = MAX_PIXELS if max_pixels is None else max_pixels
    try:
        packed = isinstance(source, Path) and source.suffix.lower() == ".bz2"  # as the FERET discs hold their images
        with _open(bz2.open(source) if packed else source, formats) as opened:
            width, height = opened.size
            if width * height > most:
                raise ImageError(f"{name}: {width} × {height} pixels is more than the {most:,} allowed")
            return _to_rgb(opened)
    except ImageError:
        raise
    except Exception as error:  # decoders raise many kinds: OSError, SyntaxError, struct.error, DecompressionBombError
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: Exception) -> ImageError:
    # Pillow repeats the name; of a file in memory, its address.
    unknown = isinstance(error, UnidentifiedImageError)
    return ImageError(f"{name}: not a readable image ({'of no known format' if unknown else _reason(error)})")


def _from_array(array: npt.NDArray[np.uint8]) -> Image.Image:
    shaped = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
    if array.dtype != np.uint8 or not shaped or array.size == 0:
        raise ImageError(f"an image array must be uint8, H×W, H×W×3 or H×W×4; got {array.dtype} {array.shape}")
    return _to_rgb(Image.fromarray(array))


def _open(file: Any, formats: tuple[str, ...] | None = None) -> Image.Image:
    """Open an image file; HEIC, as telephones write it, by a package that takes 0.1 s to import."""
    heif = formats is None or _HEIF in formats
    try:
        return Image.open(file, formats=None if formats is None else [name for name in formats if name != _HEIF])
    except UnidentifiedImageError:
        if not heif:
            raise
        from pillow_heif import register_heif_opener

        register_heif_opener(thumbnails=False)
        return Image.open(file, formats=None if formats is None else [_HEIF])


def _upright(image: Image.Image) -> Image.Image:
    """An image turned as its metadata states; it states nothing afterwards, or it would be turned again."""
    image.load()  # Pillow turns TIFF files itself when it reads their pixels
    try:
        turn = _TURNS.get(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged EXIF does not damage the picture
        turn = None
    if turn is None:
        return image
    turned = image.transpose(turn)
    turned.info = {key: value for key, value in turned.info.items() if key not in _METADATA}
    return turned


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


def as_sequence(images: Images | ImageLike) -> Images:
    """One image as a list of one; several unchanged."""
    given: object = images  # callers without type checks give anything
    if isinstance(given, np.ndarray):
        several: Images = [given] if given.ndim < 4 else given
    elif isinstance(given, str | os.PathLike | Image.Image):
        several = [given]
    elif isinstance(given, Iterable) and not isinstance(given, bytes | bytearray | Mapping):
        several = given if isinstance(given, Sequence) else list(given)
    else:
        raise CallError(f"images are paths, PIL images or uint8 arrays, not {type(given).__name__}")
    if len(several) == 0:
        raise CallError("no images were given")
    return several
