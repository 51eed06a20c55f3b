"""How images are framed for a network: whole, or the main face found, aligned and cropped; then a square."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from uol.images.face_cache import FaceCache
from uol.images.faces import BORDER, Border, FaceError, find_face
from uol.images.read import ImageLike, Images, fit_square, read_image

Framing: TypeAlias = Literal["whole", "face"]


def framed(image: ImageLike, framing: Framing, cache: FaceCache | None = None, border: Border = BORDER) -> Image.Image:
    """An image, upright and whole, or its main face; `cache` keeps faces on disk, so that each is found once.

    `border` is what a face's frame shows beyond the photograph, whatever border the cache has of its own.
    """
    if framing == "whole":
        return read_image(image)
    aligned = find_face(image, border=border) if cache is None else cache.get(image, border)
    return Image.fromarray(aligned.image)


def pack_images(
    images: Images, resize: int, crop: int | None = None, framing: Framing = "whole", border: Border = BORDER
) -> npt.NDArray[np.uint8]:
    """Frame images, resize each to `resize` × `resize` and keep the central `crop` square: (n, 3, size, size)."""
    size = resize if crop is None else crop
    packed = np.empty((len(images), 3, size, size), np.uint8)
    for row, image in enumerate(images):
        try:
            packed[row] = fit_square(framed(image, framing, border=border), resize, crop).transpose(2, 0, 1)
        except FaceError as error:
            named = isinstance(image, str | os.PathLike)
            raise FaceError(f"{'' if named else f'image {row}: '}{error}") from error
    return packed
