"""The one way from an image to the pixels that a network sees.

image → the whole image, or its aligned main face → a square of `resize` pixels → its central square of `crop` pixels.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt
from PIL import Image

from uol.errors import CallError, ImageError, UolError
from uol.images.face_cache import FaceCache
from uol.images.faces import AlignedFace, find_face, find_faces
from uol.images.packages import one_thread_each, opencv
from uol.images.read import ImageBytes, ImageLike, Images, image_name, read_image
from uol.storage.cores import available_cores

Framing: TypeAlias = Literal["whole", "face"]
Pixels: TypeAlias = npt.NDArray[np.uint8]

_TOGETHER = 256  # images whose pixels may wait to be taken


class FaceRecord(TypedDict):
    """A face as rows and JSON report it: its box (left, top, width, height), the detector's confidence, problems."""

    box: list[float]
    confidence: float
    problems: list[str]


class FramedFile(NamedTuple):
    """A file, or one face in it, as pixels (3, crop, crop); or the error for which it has none."""

    image: str
    pixels: Pixels | None
    face: FaceRecord | None = None
    error: str | None = None


class Framer(NamedTuple):
    """How images become pixels; without `crop` the whole square is kept, and `cache` keeps aligned faces on disk."""

    resize: int
    crop: int | None = None
    framing: Framing = "whole"
    cache: FaceCache | None = None

    def check_packages(self) -> None:
        """Raise now where a package for finding faces is missing, once for all images."""
        if self.framing == "face":
            opencv()

    def pixels(self, image: ImageLike) -> Pixels:
        """The pixels (crop, crop, 3) of an image or of its main face."""
        return self.one(image)[0]

    def one(self, image: ImageLike) -> tuple[Pixels, FaceRecord | None]:
        """The pixels (crop, crop, 3) of an image, or of its main face, which is described."""
        if self.framing == "whole":
            return fit_square(read_image(image), self.resize, self.crop), None
        face = self._faces(image)[0]
        return self._of_face(face), _face_record(face)

    def frame(self, file: Path | ImageBytes, all_faces: bool = False) -> list[FramedFile]:
        """Frame a file: the whole image, its main face, or all sure faces, the largest first; never raises."""
        name = str(file)
        try:
            if self.framing == "whole":
                return [FramedFile(name, _channels_first(self.pixels(file)))]
            return [
                FramedFile(name, _channels_first(self._of_face(face)), _face_record(face))
                for face in self._faces(file, all_faces)
            ]
        except Exception as error:  # a fault in a decoder or the detector costs this image, not the run
            return [FramedFile(name, None, error=reason(name, error))]

    def _faces(self, image: ImageLike, all_faces: bool = False) -> list[AlignedFace]:
        if all_faces:
            return find_faces(image)
        return [find_face(image) if self.cache is None else self.cache.get(image)]

    def _of_face(self, face: AlignedFace) -> Pixels:
        if face.image.shape[:2] == (self.resize, self.resize):
            return middle(face.image, self.crop)
        return fit_square(Image.fromarray(face.image), self.resize, self.crop)


def pack_images(
    images: Images, resize: int, crop: int | None = None, framing: Framing = "whole"
) -> npt.NDArray[np.uint8]:
    """Frame images, resize each to `resize` × `resize` and keep the central `crop` square: (n, 3, size, size)."""
    framer, size = Framer(resize, crop, framing), resize if crop is None else crop
    packed = np.empty((len(images), 3, size, size), np.uint8)
    for row, pixels in enumerate(frame_each(images, framer)):
        if isinstance(pixels, ImageError):
            raise pixels
        packed[row] = pixels
    return packed


def frame_each(images: Images, framer: Framer, first: int = 0) -> Iterator[Pixels | ImageError]:
    """The pixels (3, crop, crop) of each image, or the error for which it has none; each core has a thread.

    An error names the file, or the image's number, counted from `first`.
    """
    framer.check_packages()
    workers = min(available_cores(), len(images))
    if workers < 2:
        yield from (_framed(framer, image, number) for number, image in enumerate(images, first))
        return
    for start in range(0, len(images), _TOGETHER):  # a few at a time: all of them may not fit in memory
        part = range(start, min(start + _TOGETHER, len(images)))
        opened = [id(images[place]) for place in part if isinstance(images[place], Image.Image)]
        if len(set(opened)) < len(opened):  # Pillow decodes an image when it is first used, and not in two threads
            yield from (_framed(framer, images[place], first + place) for place in part)
        else:
            yield from _framed_at_once(framer, images, part, first, workers)


def _framed_at_once(
    framer: Framer, images: Images, part: range, first: int, workers: int
) -> Iterator[Pixels | ImageError]:
    with one_thread_each() if framer.framing == "face" else nullcontext():
        pool = ThreadPoolExecutor(workers)
        waiting: list[Future[Pixels | ImageError]] = []
        try:
            try:
                for place in part:
                    waiting.append(pool.submit(_framed, framer, images[place], first + place))  # noqa: PERF401
            except RuntimeError:  # the system allows no more threads, or the interpreter is ending
                pool.shutdown(wait=True, cancel_futures=True)
            for place, one in zip_longest(part, waiting):
                if one is None or one.cancelled():
                    yield _framed(framer, images[place], first + place)
                else:
                    yield one.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _framed(framer: Framer, image: ImageLike, number: int) -> Pixels | ImageError:
    name = image_name(image)
    try:
        return framer.pixels(image).transpose(2, 0, 1)
    except ImageError as error:
        numbered = f"image {number}: {error}"
        return error if name is not None else type(error)(numbered).with_traceback(error.__traceback__)
    except UolError:  # not this image's fault
        raise
    except Exception as error:  # a fault in a decoder or the detector costs this image, not the others
        return ImageError(reason(name or f"image {number}", error))


def fit_square(image: Image.Image, resize: int, crop: int | None = None) -> Pixels:
    """Resize an RGB image to a square and keep its central `crop` square, as an H×W×3 array."""
    if image.size != (resize, resize):
        image = image.resize((resize, resize), Image.Resampling.BILINEAR, reducing_gap=3.0)
    return middle(np.asarray(image), crop)


def reason(path: str | os.PathLike[str], error: Exception) -> str:
    """Why a file has no pixels, in one line."""
    return str(error) if isinstance(error, ImageError) else f"{path}: {type(error).__name__}: {error}"


def middle(pixels: Pixels, crop: int | None) -> Pixels:
    """The central `crop` square of square pixels."""
    if crop is not None and crop > len(pixels):
        raise CallError(f"a crop of {crop} pixels does not fit an image resized to {len(pixels)}")
    if crop is None or crop == len(pixels):
        return pixels
    start = (len(pixels) - crop) // 2
    return pixels[start : start + crop, start : start + crop]


def _channels_first(pixels: Pixels) -> Pixels:
    """(3, crop, crop), in memory with the channels last: as PIL has them and networks want them."""
    return np.array(pixels).transpose(2, 0, 1)


def _face_record(aligned: AlignedFace) -> FaceRecord:
    face = aligned.face
    return {
        "box": [round(float(side), 1) for side in face.box],
        "confidence": round(face.confidence, 4),
        "problems": list(aligned.problems),
    }
